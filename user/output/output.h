/* SPDX-License-Identifier: GPL-2.0-only */
/* A timeline in the forms that people and viewers read. */
#ifndef PTBPF_OUTPUT_OUTPUT_H
#define PTBPF_OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "calls/timeline.h"

/* What to leave out. Zeroed: everything. */
struct output_filter {
	pid_t tid;          /* 0: all threads */
	uint32_t max_depth; /* 0: all */
	uint64_t min_duration_ns;
	bool has_from, has_to;
	int64_t from_ns, to_ns; /* relative to the trigger */
};

struct output_format {
	const char *name;      /* "perfetto" */
	const char *file_name; /* "trace.pftrace" in the snapshot directory */
	/* 0 or -errno (-ENOSPC, ...). */
	int (*write)(FILE *out, const struct timeline *timeline,
		     const struct output_filter *filter);
};

/* NULL for an unknown name. */
const struct output_format *output_format_find(const char *name);
/* All formats; NULL-terminated. */
const struct output_format *const *output_formats(void);

#endif
