/* SPDX-License-Identifier: GPL-2.0-only */
/* Inside of the call tracker: calls.c reads events, stack.c keeps frames, slices.c keeps time. */
#ifndef PTBPF_CALLS_STATE_H
#define PTBPF_CALLS_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/vec.h"
#include "calls/calls.h"

#define NONE UINT32_MAX
#define STACK_BUCKETS 1024
#define PARKED_STACKS 32
#define PARKED_FRAMES 1024 /* the newest of a parked stack */
#define RESUME_DEPTH 8     /* how far from its top a parked stack may be resumed */

#define SLICE_MERGED                                                                \
	0x80u /* in slice.flags until calls_finish(): the same call as slice.parent \
	       */

#define FRAME_NAMED 1u
#define FRAME_LOCAL                                                                   \
	2u /* call inside one function (thunk, local subroutine): no slice of its own \
	    */
#define FRAME_STUB 4u
#define FRAME_BY_RETURN                                                           \
	8u /* entered by a return to its start: perhaps another stack begins here \
	    */
#define FRAME_RESUMES_UNWIND 16u

struct frame {
	uint64_t ra;                  /* where it returns to; 0 unknown */
	uint64_t entry;               /* its function */
	uint64_t start, end;          /* the piece of the function that runs */
	uint32_t slice;               /* of a FRAME_LOCAL: the one around it */
	uint32_t ra_next, entry_next; /* next deeper frame in the same bucket */
	uint8_t flags;
};

enum seam_kind {
	SEAM_START,  /* below frame 0: callers that the trace has not seen */
	SEAM_GAP,    /* the frames below may be gone */
	SEAM_SIGNAL, /* the frames below are interrupted */
	SEAM_SWITCH, /* the frames below are another stack, which waits */
};

/* A place in the stack where no call joins the frame above to the one below. */
struct seam {
	uint32_t frame; /* the first above it */
	enum seam_kind kind;
	bool handler_returned;          /* SIGNAL: only the restorer is left */
	uint32_t parent;                /* slice of the frame below; NONE for START and GAP */
	uint32_t first_root, last_root; /* slices at this seam, linked by slice.depth */
	uint32_t key;                   /* the first slice ever opened at this seam */
	uint64_t resume[2];             /* SIGNAL: where the interrupted code goes on */
	uint64_t gap_begin_ns;          /* GAP */
};

/* A stack that is not on the processor. */
struct parked {
	struct frame *frames; /* PARKED_FRAMES, allocated at first use */
	uint32_t n;           /* 0: free */
	uint64_t resume;      /* where its newest frame goes on */
	uint64_t stamp;       /* when it was parked */
};

/* An edge of a slice whose time is not known until the next timestamp. */
struct pending_edge {
	uint64_t position;
	uint32_t slice;
	bool is_end;
};

/* A caller that was found only when its callee returned. */
struct late_slice {
	uint32_t slice;
	uint32_t key; /* it goes before this slice */
};

struct calls {
	struct thread_timeline *out;
	struct calls_options options;
	size_t execs_seen;

	VEC(struct frame) frames;
	VEC(struct seam) seams; /* [0] is SEAM_START */
	uint32_t by_ra[STACK_BUCKETS], by_entry[STACK_BUCKETS];
	struct parked parked[PARKED_STACKS];
	uint64_t parked_stamp;
	bool complete; /* frame 0 has no caller in traced code */

	/* Time: positions count instructions; the anchor is the newest timestamp. */
	uint64_t position, anchor_position, anchor_ns;
	bool anchor_exact;
	uint64_t rate_ns, rate_insns; /* for stretches that have no timestamp at their end */
	VEC(struct pending_edge) edges;
	VEC(struct late_slice) late;

	/* After tracing went off. */
	uint8_t off_kind; /* enum branch_kind, BRANCH_BEGIN for: not off */
	uint64_t off_resume[2];

	size_t open_gaps; /* newest gaps in out->gaps, whose end is not known */
	uint64_t gap_begin_ns, gap_from;
	uint8_t gap_reason;
	bool started;
};

/* slices.c */
int slice_open(struct calls *calls, uint32_t parent, const struct calls_function *function,
	       uint64_t address, enum slice_edge edge, uint32_t *slice);
int slice_close(struct calls *calls, uint32_t slice, enum slice_edge edge);
void slice_close_at(struct calls *calls, uint32_t slice, enum slice_edge edge, uint64_t time_ns);
/* A timestamp at the present position. */
void time_anchor(struct calls *calls, uint64_t time_ns, bool exact);
/* Guesses the present position's time, at most @limit_ns, and anchors there. */
uint64_t time_estimate(struct calls *calls, uint64_t limit_ns);
/* Orders the slices, sets depth, self time and counts. */
int slices_finish(struct calls *calls);

/* stack.c */
static inline struct frame *stack_top(struct calls *calls)
{
	return &calls->frames.data[calls->frames.len - 1];
}
static inline struct seam *stack_seam(struct calls *calls)
{
	return &calls->seams.data[calls->seams.len - 1];
}
static inline bool stack_at_seam(struct calls *calls)
{
	return calls->frames.len == stack_seam(calls)->frame + 1u;
}
void stack_init(struct calls *calls);
/* A frame on top with a slice of its own. @at: where it was entered. */
int stack_push(struct calls *calls, const struct calls_function *function, bool named, uint64_t at,
	       uint64_t ra, enum slice_edge edge);
int stack_push_local(struct calls *calls, uint64_t ra);
int stack_push_seam(struct calls *calls, enum seam_kind kind);
int stack_pop(struct calls *calls, enum slice_edge edge);
/* Tail call: the top frame's slice ends, @function takes over its return address. */
int stack_replace(struct calls *calls, const struct calls_function *function, bool named,
		  uint64_t at);
/* A stub becomes what it jumped to. */
void stack_rename(struct calls *calls, const struct calls_function *function);
/*
 * Drops all frames from index @n up. Frame @n itself ends with @edge, the others were unwound;
 * those on other stacks are parked; those below a gap ended in it unless @n is proven to live on.
 */
int stack_cut(struct calls *calls, uint32_t n, enum slice_edge edge);
/* The frame at the newest seam has left for a caller not seen so far, which encloses all that ran
 * at the seam. */
int stack_add_caller(struct calls *calls, const struct calls_function *function, bool named,
		     uint64_t at);
/* Newest frame that returns to @to into the function @entry, or NONE. */
uint32_t stack_find_return(struct calls *calls, uint64_t to, const struct calls_function *function,
			   bool named);
/* Newest frame of the function that a landing can reach, or NONE. */
uint32_t stack_find_owner(struct calls *calls, uint64_t entry);
/* Puts a parked stack that goes on at @to on top: 1; 0: there is none; -ENOMEM. */
int stack_resume(struct calls *calls, uint64_t to, const struct calls_function *function);
/* At the end: which frames probably lived through the gaps. */
void stack_settle_gaps(struct calls *calls);

#endif
