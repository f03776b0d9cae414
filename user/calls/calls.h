/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Branch events -> slices, by a stack of return addresses per context (architecture, section 9).
 * One tracker a thread, fed in batches; nothing is allocated per event except the slices
 * themselves.
 */
#ifndef PTBPF_CALLS_CALLS_H
#define PTBPF_CALLS_CALLS_H

#include "calls/timeline.h"
#include "decode/branch.h"

/* Names code. @start: run-time start of the function that holds @addr. The id is the namer's own.
 */
struct calls_function {
	uint32_t id;
	uint64_t start, end;
	bool is_plt;
};
typedef bool (*calls_lookup_fn)(void *ctx, uint64_t addr, uint64_t time_ns,
				struct calls_function *function);

struct calls;

int calls_new(struct thread_timeline *out, calls_lookup_fn lookup, void *lookup_ctx,
	      struct calls **calls);
void calls_free(struct calls *calls);
/* A branch_fn. 0, -ENOMEM. */
int calls_feed(void *calls, const struct branch *branches, size_t n);
/* Closes what is open (inferred) at @end_ns, or at the last event's time if that is later. */
int calls_finish(struct calls *calls, uint64_t end_ns);

#endif
