/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Branch events -> slices, by one stack of return addresses (architecture, section 9). One tracker
 * a thread, fed in batches; nothing is allocated per event except the slices themselves.
 *
 * A slice is one activation of one function. A tail call ends the slice of the function that jumps
 * and begins the next one beside it: both share one return address. Time in a system call belongs
 * to the function that made it.
 */
#ifndef PTBPF_CALLS_CALLS_H
#define PTBPF_CALLS_CALLS_H

#include "calls/timeline.h"
#include "decode/branch.h"

#define CALLS_NO_NAME UINT32_MAX

struct calls_function {
	uint32_t id;         /* the namer's own, becomes slice.name; CALLS_NO_NAME if unnamed */
	uint64_t entry;      /* what tells functions apart; a .cold part has its parent's */
	uint64_t start, end; /* the piece that holds the address; unnamed: its mapping */
	bool is_stub;        /* PLT slot or thunk: takes the name of what it jumps to */
	bool resumes_unwind; /* _Unwind_Resume: never lands in the frame that called it */
};

/* True when the code at @addr has a name; @function is filled in either way. */
typedef bool (*calls_lookup_fn)(void *ctx, uint64_t addr, uint64_t time_ns,
				struct calls_function *function);

struct calls_options {
	calls_lookup_fn lookup;
	void *lookup_ctx;
	bool from_birth;       /* the trace has the thread's first instruction: no unseen callers */
	const uint64_t *execs; /* times of exec in this thread, ascending; borrowed */
	size_t n_execs;
};

struct calls;

/* 0, -ENOMEM. @out outlives the tracker; its slices are complete after calls_finish(). */
int calls_new(struct thread_timeline *out, const struct calls_options *options,
	      struct calls **calls);
void calls_free(struct calls *calls);
/* A branch_fn. 0, -ENOMEM. */
int calls_feed(void *calls, const struct branch *branches, size_t n);
/*
 * Closes what is open (inferred) at @end_ns, or at the last event's time if that is later, and puts
 * the slices in order. Once.
 */
int calls_finish(struct calls *calls, uint64_t end_ns);

#endif
