/* SPDX-License-Identifier: GPL-2.0-only */
/* perf.data, written so that Debian's `perf script` reads it, and read back whoever wrote it. */
#ifndef PTBPF_SNAPSHOT_PERF_DATA_H
#define PTBPF_SNAPSHOT_PERF_DATA_H

#include "snapshot/recording.h"

/* Creates @path (must not exist). 0 or -errno (-ENOSPC, -EEXIST, ...); nothing is left on failure.
 */
int perf_data_write(const char *path, const struct recording *recording, const char *cmdline);

/*
 * 0 or -errno with @why: what is wrong and at which offset. A truncated file yields what is whole
 * and sets *truncated. -ENOENT: no such file; -EINVAL: not a perf.data, or without Intel PT in it.
 */
int perf_data_read(const char *path, struct recording *recording, bool *truncated, char *why,
		   size_t why_size);

#endif
