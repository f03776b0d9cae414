/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What one snapshot holds: PT bytes in stretches, and the side-band needed to decode them. The
 * model that record/ fills, perf.data stores, and decode/ reads. Times are CLOCK_MONOTONIC ns.
 */
#ifndef PTBPF_SNAPSHOT_RECORDING_H
#define PTBPF_SNAPSHOT_RECORDING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/vec.h"

enum recording_event_kind {
	RECORDING_COMM,
	RECORDING_MAP, /* an executable mapping appeared (PERF_RECORD_MMAP2) */
	RECORDING_FORK,
	RECORDING_EXIT,
};

struct recording_map {
	uint64_t addr, len, pgoff;
	uint32_t prot, flags; /* PROT_*, MAP_* */
	uint32_t maj, min;
	uint64_t ino, ino_generation;
	uint8_t build_id[20];
	uint8_t build_id_size; /* 0: none */
	char *path; /* as perf names it: a file, "[vdso]", "//anon", or .../images/NAME in a
		       snapshot */
};

struct recording_event {
	enum recording_event_kind kind;
	uint64_t time_ns;
	pid_t pid, tid;
	union {
		struct {
			char name[16];
			bool exec;
		} comm;
		struct recording_map map;
		struct {
			pid_t parent_pid, parent_tid;
		} parent; /* FORK, EXIT */
	};
};

/* Why a stretch of trace begins where it does, or why nothing is there before it. */
enum recording_join {
	RECORDING_JOIN_BIRTH,    /* the thread's first instruction */
	RECORDING_JOIN_ATTACH,   /* tracing began in the thread's life */
	RECORDING_JOIN_WRAPPED,  /* older bytes were overwritten */
	RECORDING_JOIN_RESIZE,   /* the ring changed size; gap_ns long */
	RECORDING_JOIN_LOST,     /* bytes were lost: an error of ours or of the hardware */
	RECORDING_JOIN_UNTRACED, /* the thread had no ring for a while */
	RECORDING_JOIN_ATOMIC,   /* a section that no stop may fall into ran unseen; gap_ns long */
};

/* One contiguous stretch of one thread's PT. A gap never lies inside a chunk. */
struct recording_chunk {
	pid_t pid, tid;
	enum recording_join join;
	uint64_t gap_ns; /* RESIZE, LOST, UNTRACED: length of the gap before it, 0 unknown */
	uint64_t start_ns, end_ns; /* when it was recorded, as far as known; 0: unknown */
	bool data_lost;            /* bytes are missing just before it (perf's TRUNCATED) */
	bool borrowed;             /* data is not the recording's to free: see recording.mappings */
	uint8_t *data; /* never NULL with size > 0; heap, or borrowed from a mapped file */
	uint64_t size;
	uint64_t file_offset; /* of data in the perf.data it was read from, for messages; or 0 */
};

/* A file mapped for chunks that are too large to copy. The recording unmaps it. */
struct recording_mapping {
	void *start;
	size_t size;
};

struct recording_cpu {
	bool intel; /* only then family/model/stepping select errata */
	uint16_t family;
	uint8_t model, stepping;
};

/* How the PT was configured; format as intel_pt's sysfs caps and format. */
struct recording_pt {
	uint64_t config;               /* RTIT_CTL bits as in perf_event_attr.config */
	uint32_t mtc_freq;             /* 3 + log2... as perf's mtc_period; 0 without MTC */
	uint32_t tsc_ctc_n, tsc_ctc_d; /* CPUID.15H; 0 without */
	uint8_t max_nonturbo_ratio;
	bool snapshot_mode;
};

typedef VEC(struct recording_event) recording_events;
typedef VEC(struct recording_chunk) recording_chunks;
typedef VEC(struct recording_mapping) recording_mappings;

struct recording {
	struct clock_conv clock;
	struct recording_cpu cpu;
	struct recording_pt pt;
	recording_events events;     /* by time */
	recording_chunks chunks;     /* of one thread: by time */
	recording_mappings mappings; /* what borrowed chunks point into */
};

/* Deep-frees what the recording owns and leaves it empty. */
void recording_fini(struct recording *recording);
/* Appends a copy (paths and data are taken over on success). 0, -ENOMEM. */
int recording_add_event(struct recording *recording, const struct recording_event *event);
int recording_add_chunk(struct recording *recording, const struct recording_chunk *chunk);
/*
 * Maps the whole file @fd read-only for borrowed chunks; @fd may be closed afterwards. *start is
 * NULL for an empty file. 0 or -errno.
 */
int recording_map_file(struct recording *recording, int fd, uint8_t **start, uint64_t *size);
/* Orders events by time (stable). 0, -ENOMEM (nothing changed). */
int recording_sort(struct recording *recording);

#endif
