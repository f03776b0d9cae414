/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * From a snapshot on disk to the files that people look at: perf.data -> recording -> space ->
 * timeline -> formats. What record does after each fire and what decode does later.
 */
#ifndef PTBPF_CMD_PIPELINE_H
#define PTBPF_CMD_PIPELINE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/exit_code.h"
#include "calls/build.h"
#include "calls/timeline.h"
#include "cmd/options.h"
#include "image/space.h"
#include "output/output.h"
#include "snapshot/meta.h"
#include "snapshot/recording.h"

struct pipeline {
	char *dir; /* of the perf.data */
	struct recording recording;
	struct meta meta;
	bool has_meta, has_timeline;
	bool truncated; /* the perf.data is cut off: what is whole was read */
	struct space *space;
	struct timeline timeline;
	struct timeline_totals totals;
};

/* The formats of a --format LIST, in order; NULL-terminated. */
#define PIPELINE_MAX_FORMATS 16
struct pipeline_formats {
	const struct output_format *list[PIPELINE_MAX_FORMATS + 1];
};

/* 0; -EINVAL, logged. "none" is an empty list. */
int pipeline_parse_formats(const char *list, struct pipeline_formats *formats);

/*
 * Reads a snapshot directory or a perf.data and makes the space. Each returns EXIT_DONE or what
 * went wrong, which has been logged. pipeline_fini() in any case.
 */
enum exit_code pipeline_load(const char *path, const char *symfs, struct pipeline *pipeline);
/* Decodes. Missing binaries are warned about by name. */
enum exit_code pipeline_decode(struct pipeline *pipeline, unsigned int workers);
void pipeline_fini(struct pipeline *pipeline);

struct output_filter pipeline_filter(const struct options *options);

/*
 * Writes one format into a directory, which must exist; the file belongs to the directory's owner.
 * *name: heap, the file's name there: the format's, or with a number when another file has it; an
 * equal file is left as it is. 0 or -errno; logs nothing.
 */
int pipeline_write(const struct pipeline *pipeline, const struct output_format *format,
		   const struct output_filter *filter, const char *dir, char **name);

/* The exit code that fits an errno of files. */
enum exit_code pipeline_exit_code(int err);

#endif
