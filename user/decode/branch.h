/* SPDX-License-Identifier: GPL-2.0-only */
/* The stream that every decoder engine produces and calls/ consumes: one control transfer each. */
#ifndef PTBPF_DECODE_BRANCH_H
#define PTBPF_DECODE_BRANCH_H

#include <stddef.h>
#include <stdint.h>

enum branch_kind {
	BRANCH_CALL, /* near call, direct or indirect */
	BRANCH_RETURN,
	BRANCH_JUMP,    /* unconditional, direct or indirect */
	BRANCH_COND,    /* taken conditional (not taken ones are no control transfer) */
	BRANCH_SYSCALL, /* far transfer out of the traced code; tracing ends there (to = 0) */
	BRANCH_ASYNC, /* interrupted before @from executed (signal, page fault); to = 0 if untraced
		       */
	BRANCH_FAR,   /* far transfer that stays in traced code */
	BRANCH_BEGIN, /* tracing (re)starts at @to; from = 0 */
	BRANCH_END,   /* tracing ends before @from executes: trigger, ring taken; to = 0 */
	BRANCH_ABORT, /* transaction abort, @from unknown */
	/*
	 * Nothing decodable: class and reason; @from last known ip, @to next or 0. Its time is the
	 * gap's begin; the BEGIN that follows, wherever decoding goes on, has the time of its end.
	 */
	BRANCH_GAP,
};

enum branch_gap {
	GAP_NONE,
	GAP_OVERFLOW,   /* OVF packet: the processor lost packets */
	GAP_LOST,       /* bytes lost between recorder and file */
	GAP_RESIZE,     /* the ring changed size */
	GAP_UNTRACED,   /* the thread had no ring */
	GAP_NO_IMAGE,   /* no bytes for that address */
	GAP_BAD_PACKET, /* unknown or impossible packet */
	GAP_MISMATCH,   /* the trace does not fit the bytes */
	GAP_ATOMIC,     /* rseq section or transaction that was not stepped */
	GAP_START,      /* before the first decodable byte; not an error */
	GAP_COUNT,
};

#define BRANCH_TIME_EXACT \
	1u           /* time_ns is from a packet at this very place, not carried or guessed */
#define BRANCH_TX 2u /* inside a transaction */
#define BRANCH_INDIRECT 4u
#define BRANCH_GAP_ERROR 8u /* the gap comes from an error, not from how the recording went */

struct branch {
	uint64_t time_ns; /* never decreases inside a thread */
	uint64_t from;    /* address of the branch instruction */
	uint64_t to;
	uint32_t insns; /* instructions executed since the event before, this branch included */
	uint8_t kind;   /* enum branch_kind */
	uint8_t gap;    /* enum branch_gap, with BRANCH_GAP */
	uint8_t flags;
	uint8_t from_size; /* length of the branch instruction: return address = from + from_size */
	uint64_t offset;   /* GAP: byte offset in the thread's trace, for messages */
};

/* Text names, for messages, goldens and outputs. */
const char *branch_kind_name(enum branch_kind kind);
const char *branch_gap_name(enum branch_gap gap);

/* A batch in order. Return nonzero to stop decoding with that value. */
typedef int (*branch_fn)(void *ctx, const struct branch *branches, size_t n);

#endif
