/* SPDX-License-Identifier: GPL-2.0-only */
/* Under sudo, what ptbpf leaves behind belongs to who called it. */
#ifndef PTBPF_CMD_OWNER_H
#define PTBPF_CMD_OWNER_H

#include <stdbool.h>
#include <sys/types.h>

/* True when root acts for somebody: *uid and *gid are theirs; else both are -1. */
bool owner_find(uid_t *uid, gid_t *gid);

#endif
