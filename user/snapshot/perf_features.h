/* SPDX-License-Identifier: GPL-2.0-only */
/* What surrounds the data of a perf.data file: attributes, ids and feature sections. */
#ifndef PTBPF_SNAPSHOT_PERF_FEATURES_H
#define PTBPF_SNAPSHOT_PERF_FEATURES_H

#include "base/vec.h"
#include "snapshot/perf_format.h"
#include "snapshot/recording.h"
#include "snapshot/sink.h"

/*
 * perf knows the PT attribute by the PMU's number, which AUXTRACE_INFO and PMU_MAPPINGS name. It is
 * the recording machine's own; ours stands for one that has no intel_pt.
 */
#define PERF_PMU_TYPE 8u

#define PERF_ATTRS 2 /* intel_pt, and a dummy for the side-band */
#define PERF_ID_SIDEBAND 1ull
#define PERF_ID_CHUNK(idx)                                                    \
	(2ull + (idx)) /* each stretch of trace counts as an event of its own \
			*/

struct perf_index_entry {
	uint64_t offset, size; /* of an AUXTRACE record */
};

typedef VEC(struct perf_index_entry) perf_index;

/* The attributes, each with its ids, which are written just before. Returns the attrs section. */
struct perf_format_section perf_attrs_write(struct sink *sink, const struct recording *recording);

/*
 * Writes the table of feature sections and the sections; the sink stands at the end of the data.
 * Fills header->features.
 */
int perf_features_write(struct sink *sink, const struct recording *recording, const char *cmdline,
			const perf_index *index, struct perf_format_header *header);

/* attr.config of the PT attribute. */
uint64_t perf_pt_config(const struct recording *recording);

#endif
