/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The uprobes of an evaluator: which process, where, on which of its threads. A perf uprobe works
 * through the address space of the one thread it was opened on, and no more once that thread ended,
 * though its process lives on; then probes_move() opens it anew on another.
 */
#ifndef PTBPF_RECORD_EVALUATOR_PROBES_H
#define PTBPF_RECORD_EVALUATOR_PROBES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"

struct keeper;

struct probe {
	pid_t pid, tid; /* @tid: the thread it was opened on */
	char *path;
	dev_t device; /* of the file behind @path */
	ino_t inode;
	uint64_t offset;
	uint32_t trigger, attachment;
	uint32_t handle; /* the keeper's; 0: no thread was left to open it on */
};

struct probes {
	struct keeper *keeper; /* sets and removes them */
	VEC(struct probe) list;
	uint32_t next_attachment;
};

/* 0 or -errno: is this process allowed to set uprobes? Sets none. */
int probes_allowed(void);

/*
 * Opens a probe on the first of @tids (threads of @pid) that lives; one that is there already (same
 * process, trigger, file and offset) is taken for it. 0; -ESRCH: none lives; -errno.
 */
int probes_add(struct probes *probes, const struct probe *probe, const pid_t *tids, size_t n_tids,
	       uint32_t *attachment);
/* The thread that was @old_tid is @tid now: it called exec. */
void probes_rename(struct probes *probes, pid_t old_tid, pid_t tid);
/* Does any probe hang on @tid? */
bool probes_on_thread(const struct probes *probes, pid_t tid);
/* Opens what hangs on @tid anew, on the first of @tids that lives. */
void probes_move(struct probes *probes, pid_t tid, const pid_t *tids, size_t n_tids);
/* Closes those of @pid; 0: all. */
void probes_close(struct probes *probes, pid_t pid);

#endif
