/* SPDX-License-Identifier: GPL-2.0-only */
/* A recording and its space -> the timeline of every thread, with names interned across threads. */
#ifndef PTBPF_CALLS_BUILD_H
#define PTBPF_CALLS_BUILD_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "calls/timeline.h"
#include "decode/decode.h"

struct build_options {
	unsigned int workers; /* 0: one per CPU that we may use */
	uint64_t end_ns;      /* when the rings stopped: frames that are open then end there; 0: at
				 each thread's own last event */
	/* After each thread, from any worker but never at once. NULL: none. */
	void (*progress)(void *ctx, size_t threads_done, size_t threads);
	void *progress_ctx;
};

/*
 * Decodes every thread of @recording over the frozen @space. *timeline is overwritten; the caller
 * owns it (timeline_fini), also after an error. Same input, same result, whatever the workers.
 * trigger_ns, command, unit and the fired thread are the caller's to fill in. @options may be NULL.
 * 0, -ENOMEM, or what the decoder returned.
 */
int timeline_build(const struct recording *recording, const struct space *space,
		   const struct build_options *options, struct timeline *timeline);

/*
 * Marks where and when the trigger fired: trigger_ns, the thread's fired flag and an instant "fire"
 * with @detail ("key=value key=value", NULL none). A thread that is not in the timeline only sets
 * the time. Where the thread's trace ends there but for the clocks' error, it ends there exactly.
 * 0, -ENOMEM.
 */
int timeline_add_fire(struct timeline *timeline, pid_t tid, uint64_t time_ns, const char *detail);

/* Sums over all threads. */
struct timeline_totals {
	uint64_t threads, slices, inferred, instructions, branches, gaps, error_gaps;
};
void timeline_count(const struct timeline *timeline, struct timeline_totals *totals);

#endif
