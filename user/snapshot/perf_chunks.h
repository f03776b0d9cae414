/* SPDX-License-Identifier: GPL-2.0-only */
/* From the AUXTRACE, AUX and ITRACE_START records of a perf.data to stretches of trace. */
#ifndef PTBPF_SNAPSHOT_PERF_CHUNKS_H
#define PTBPF_SNAPSHOT_PERF_CHUNKS_H

#include "base/vec.h"
#include "snapshot/recording.h"

/* The trace bytes of one AUXTRACE record. Pieces of one queue (idx) follow one another. */
struct perf_piece {
	uint32_t idx;
	pid_t tid;
	uint64_t offset; /* in the queue's stream of bytes */
	uint32_t ours;   /* AUXTRACE.reserved */
	uint8_t *data;   /* inside the mapped file */
	uint64_t size, file_offset;
};

/* An ITRACE_START or AUX record. */
struct perf_mark {
	uint64_t id; /* of the event, which ID_INDEX maps to a queue */
	uint32_t idx;
	bool is_start;
	pid_t pid, tid;
	uint64_t time_ns;
	uint64_t offset, size, flags; /* AUX */
};

struct perf_id_queue {
	uint64_t id;
	uint32_t idx;
};

struct perf_trace {
	VEC(struct perf_piece) pieces;
	VEC(struct perf_mark) marks;
	VEC(struct perf_id_queue) ids;
};

void perf_trace_fini(struct perf_trace *trace);
/* Sorts @trace and appends its chunks to the recording, which has its events already. 0, -ENOMEM.
 */
int perf_trace_chunks(struct perf_trace *trace, struct recording *recording);

#endif
