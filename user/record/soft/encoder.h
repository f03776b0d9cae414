/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One thread's control flow -> Intel PT packets in its ring, through libipt's packet encoder. Knows
 * nothing of threads: the stepper tells what happened, in order. Intel SDM vol. 3, chapter 34.
 *
 * A stretch (encoder_attach() to encoder_detach()) starts with PSB+ and decodes on its own. Between
 * encoder_begin() and one of the encoder_end_*() the thread runs traced code.
 */
#ifndef PTBPF_RECORD_SOFT_ENCODER_H
#define PTBPF_RECORD_SOFT_ENCODER_H

#include <stdbool.h>
#include <stdint.h>

#include <intel-pt.h>

#include "record/aux_ring.h"

#define ENCODER_RETURNS 64
#define ENCODER_STAGING 512

struct encoder {
	struct pt_encoder *packets; /* writes into staging */
	struct aux_ring *ring;      /* NULL: no stretch; borrowed */
	const uint64_t *steps;      /* TSC packets carry this count; NULL: real TSC */
	uint64_t tsc_limit;         /* real TSC: no packet says more; 0: off */
	uint64_t written;           /* bytes of this stretch, staged ones included */
	uint64_t psb_at, tsc_at;    /* value of written after the newest PSB+ and TSC */
	uint64_t psb_period;
	uint64_t last_ip; /* what IP compression refers to */
	bool last_ip_known;
	bool on;      /* between begin and end */
	bool mode_32; /* of the newest MODE.Exec */
	uint64_t tnt; /* pending outcomes, the oldest in the highest bit */
	unsigned int n_tnt;
	unsigned int staged;
	unsigned int top, depth; /* return stack: a circle */
	/* Before the newest begin, as long as nothing was put or executed since. */
	struct {
		bool valid, last_ip_known, mode_32;
		unsigned int staged;
		uint64_t written, tsc_at, last_ip;
	} before_begin;
	uint64_t returns[ENCODER_RETURNS];
	uint8_t staging[ENCODER_STAGING];
};

/* 0, -ENOMEM. @steps is borrowed. */
int encoder_init(struct encoder *encoder, const uint64_t *steps);
void encoder_fini(struct encoder *encoder);

void encoder_attach(struct encoder *encoder, struct aux_ring *ring);
/* Flushes and lets the ring go; tracing must be off. */
void encoder_detach(struct encoder *encoder);

/* Tracing is on from @ip. */
void encoder_begin(struct encoder *encoder, uint64_t ip, bool mode_32);
/* Something executed since the newest begin. */
static inline void encoder_ran(struct encoder *encoder)
{
	encoder->before_begin.valid = false;
}
/* Takes the newest begin back, if nothing executed since: tracing is off. False: too late. */
bool encoder_retract(struct encoder *encoder);
/* A conditional branch; the thread is at @to afterwards. */
void encoder_cond(struct encoder *encoder, bool taken, uint64_t to);
/* A jump or call through a register or memory. */
void encoder_indirect(struct encoder *encoder, uint64_t to);
/* A near call that will return to @return_address: no packet. Not for a call to the next
 * instruction. */
void encoder_call(struct encoder *encoder, uint64_t return_address);
void encoder_return(struct encoder *encoder, uint64_t to);
/* A far transfer that stays in user code. */
void encoder_far(struct encoder *encoder, uint64_t to, bool mode_32);
/* Tracing is off: by the far transfer that comes next (a system call executed), or before the
 * instruction at @ip executes. */
void encoder_end_far(struct encoder *encoder);
void encoder_end_at(struct encoder *encoder, uint64_t ip);
/* Tracing is off, and what comes next stands alone: a PSB+. Returns the ring's head before it. */
uint64_t encoder_restart(struct encoder *encoder);
/* Packets are missing here; tracing is on again from @ip. */
void encoder_overflow(struct encoder *encoder, uint64_t ip);
/* All bytes to the ring, so that a reader sees them. Pending outcomes stay pending while on. */
void encoder_flush(struct encoder *encoder);

#endif
