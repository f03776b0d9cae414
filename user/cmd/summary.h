/* SPDX-License-Identifier: GPL-2.0-only */
/* What a person reads on stderr after each snapshot. */
#ifndef PTBPF_CMD_SUMMARY_H
#define PTBPF_CMD_SUMMARY_H

#include <stdio.h>

#include "calls/build.h"
#include "snapshot/meta.h"

struct summary {
	const struct meta *meta;
	const struct timeline_totals *totals;
	const char *path;  /* the snapshot's final path */
	const char *trace; /* file in it for the Perfetto UI, or NULL */
	const char *chain; /* of the firing thread: summary_chain(), or NULL */
	bool multi_thread;
};

/* Several lines; the first has no "ptbpf: " before it. */
void summary_print(FILE *out, const struct summary *summary);

/*
 * The calls that the firing thread was in, outermost first, "main > serve > slow": heap, the
 * innermost few. NULL: no thread fired, or out of memory.
 */
char *summary_chain(const struct timeline *timeline);

/* "exited with status 3", "was killed by SIGSEGV (core dumped)". @buf of 64 is enough. */
const char *summary_status(int wait_status, char *buf, size_t buf_size);

#endif
