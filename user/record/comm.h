/* SPDX-License-Identifier: GPL-2.0-only */
/* A thread's name. */
#ifndef PTBPF_RECORD_COMM_H
#define PTBPF_RECORD_COMM_H

#include <sys/types.h>

/* From /proc; NUL-padded, so that names compare by memcmp(3). All zero when the thread is gone. */
void comm_read(pid_t pid, pid_t tid, char comm[16]);

#endif
