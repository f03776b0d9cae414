/* SPDX-License-Identifier: GPL-2.0-only */
/* What calls/ makes and output/ shows: per thread, slices that nest, gaps and instants. */
#ifndef PTBPF_CALLS_TIMELINE_H
#define PTBPF_CALLS_TIMELINE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"
#include "decode/branch.h"

/* How an end of a slice is known. */
enum slice_edge {
	EDGE_SEEN,     /* the call or return was decoded */
	EDGE_INFERRED, /* open at the start or end of the trace, or at a gap: not seen */
	EDGE_UNWOUND,  /* ended by an exception, longjmp or other non-local exit that was seen */
	EDGE_SWITCHED, /* the call went on: another stack (coroutine) took over or gave back here */
};

/* slice.flags */
#define SLICE_BEGIN_SPREAD 1u /* begin_ns lies between two timestamps, spread by instructions */
#define SLICE_END_SPREAD 2u
#define SLICE_ACROSS_GAP 4u /* spans a gap, proven by a later return */
#define SLICE_ASSUMED 8u    /* spans a gap, likely but not proven */

struct slice {
	uint64_t begin_ns, end_ns; /* begin <= end; children lie inside */
	uint64_t address; /* run-time address of the function's start, or of entry if unnamed */
	uint32_t name;    /* index into timeline.names */
	uint32_t parent;  /* index in the same thread's slices, UINT32_MAX for a root */
	uint32_t depth;
	uint8_t begin_edge, end_edge; /* enum slice_edge */
	bool signal_handler;          /* entered asynchronously */
	uint8_t flags;                /* SLICE_* */
	uint64_t insns;               /* executed in the slice itself, without callees */
	uint64_t self_ns;
};

struct gap {
	uint64_t begin_ns, end_ns;
	uint8_t reason; /* enum branch_gap */
	bool error;
	uint64_t offset;
};

/* A place in time: the fire, a resize, exec. */
struct instant {
	uint64_t time_ns;
	char *name;
	char *detail; /* NULL or "key=value key=value" */
};

struct timeline_name {
	char *function; /* demangled; or OBJECT+0xOFF */
	char *mangled;  /* NULL when the same */
	char *object;   /* file name of the object; "" unknown */
};

struct thread_timeline {
	pid_t pid, tid;
	char comm[16];
	VEC(struct slice) slices; /* in order of begin; a parent before its children */
	VEC(struct gap) gaps;
	VEC(struct instant) instants;
	uint64_t instructions, branches;
	uint64_t inferred; /* slices with an inferred edge */
	uint64_t bytes;    /* of trace */
	uint64_t error_gaps;
	uint64_t first_ns, last_ns; /* of what was decoded; 0 without */
	bool fired;
};

struct timeline {
	VEC(struct thread_timeline) threads; /* by pid, tid */
	VEC(struct timeline_name) names;
	uint64_t trigger_ns; /* 0: none */
	char *command;
	char *unit; /* "ns" or "steps" */
};

void timeline_fini(struct timeline *timeline);

#endif
