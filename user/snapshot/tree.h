/* SPDX-License-Identifier: GPL-2.0-only */
/* A directory with all in it: settled on disk or cleared. Symbolic links are never followed. */
#ifndef PTBPF_SNAPSHOT_TREE_H
#define PTBPF_SNAPSHOT_TREE_H

#include <sys/types.h>

/* Gives everything below @dir_fd, and itself, to @uid ((uid_t)-1: leaves it) and fsyncs. 0 or
 * -errno. */
int tree_settle(int dir_fd, uid_t uid, gid_t gid);

/* Removes everything below @dir_fd, as far as possible: 0, or the first -errno. */
int tree_clear(int dir_fd);

#endif
