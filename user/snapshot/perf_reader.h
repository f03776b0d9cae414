/* SPDX-License-Identifier: GPL-2.0-only */
/* Reading a perf.data: the state that its file level and its record level share. */
#ifndef PTBPF_SNAPSHOT_PERF_READER_H
#define PTBPF_SNAPSHOT_PERF_READER_H

#include "base/vec.h"
#include "snapshot/perf_chunks.h"
#include "snapshot/perf_format.h"
#include "snapshot/recording.h"

/* What the trailer of every record that the kernel made looks like. */
struct perf_reader_attr {
	uint32_t type;
	uint64_t config;
	uint64_t sample_id; /* SAMPLE_ID_BITS of sample_type; 0 without sample_id_all */
};

struct perf_reader {
	uint8_t *file;
	uint64_t size;
	struct perf_format_header header;
	VEC(struct perf_reader_attr) attrs;
	uint64_t sample_id; /* the same in all attributes */
	uint64_t priv[PT_INFO_COUNT];
	bool has_info;
	struct perf_trace trace;
	struct recording *recording;
	bool *truncated;
	char *why;
	size_t why_size;
};

/* A record of the data section, copied into something aligned where it is used. */
struct perf_reader_record {
	struct perf_event_header header;
	const uint8_t *bytes;
	uint64_t offset; /* in the file */
	size_t size;     /* without the sample_id trailer */
	uint64_t time_ns, id;
	pid_t pid, tid;
};

/* Puts the reason into r->why and returns @err. */
int perf_reader_fail(const struct perf_reader *r, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/*
 * Takes one record in; *next, where the following one begins, moves over an AUXTRACE's trace, which
 * ends before @end. 0; -EINVAL: too short for its type; -ENOTSUP with a reason; -ENOMEM.
 */
int perf_reader_record(struct perf_reader *r, struct perf_reader_record *record, uint64_t end,
		       uint64_t *next);

#endif
