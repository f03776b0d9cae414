/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What walking a thread's trace needs whichever decoder of libipt does it: configuration, time, the
 * image for the time, the next synchronisation point. Internal to decode/.
 */
#ifndef PTBPF_DECODE_WALK_H
#define PTBPF_DECODE_WALK_H

#include "decode/engine.h"

struct walk {
	struct engine *engine;
	const struct recording_chunk *chunk;
	struct image_process *process;
	size_t epoch;
	uint64_t size;                     /* of the chunk, without what is cut off at its end */
	struct pt_packet_decoder *packets; /* over the chunk */
	uint64_t base;                     /* bytes of the thread's chunks before this one */
	uint64_t time_ns;                  /* of the last time packet; never decreases */
	bool exact;                        /* ... and nothing was reported since */
	uint64_t tsc;                      /* that packet's */
	uint64_t reference;                /* a full TSC near the chunk: packets carry 56 bits */
};

/* Begins with @chunk and fills libipt's configuration for it. 0, -ENOMEM. */
int walk_enter(struct walk *walk, const struct recording_chunk *chunk, struct pt_config *config);
void walk_leave(struct walk *walk);

/* A time packet said @tsc. */
void walk_set_tsc(struct walk *walk, uint64_t tsc);

/*
 * Tracing was enabled by a packet at or after @offset: takes the time from what follows it, up to
 * the next packet about execution. The time before is that of the system call or the interruption.
 */
void walk_look_ahead(struct walk *walk, uint64_t offset);

/* When the time has come into another epoch: *image is its image, else NULL. 0, -ENOMEM. */
int walk_new_image(struct walk *walk, struct pt_image **image);
/* The image of the present epoch. 0, -ENOMEM. */
int walk_image(struct walk *walk, struct pt_image **image);

/* Offset of the first PSB at or after @offset in the chunk; UINT64_MAX: none. */
uint64_t walk_find_psb(const struct walk *walk, uint64_t offset);

/*
 * After an error in the step from @position of the segment at @psb: the next PSB that no step has
 * passed yet. libipt reads ahead, so that its own offset may lie beyond.
 */
uint64_t walk_next_psb(const struct walk *walk, uint64_t psb, uint64_t position);

/*
 * Code that comes back to an address without having used any trace will do so for ever: the trace
 * does not fit the bytes. Brent's way: the address to meet again is renewed at each power of two.
 * Long loops are few in a true trace; a thread that met many gets little patience for more.
 */
struct walk_loop {
	uint64_t ip, left, limit;
	uint64_t passed; /* instructions since trace was used */
	uint64_t wasted; /* instructions in loops, by the whole thread */
};
void walk_loop_reset(struct walk_loop *loop);
/* @insns were passed without trace and without a branch. Whether patience is at its end. */
bool walk_loop_passes(struct walk_loop *loop, uint64_t insns);
/* @insns that end at @ip were passed without trace. Whether the loop has closed. */
bool walk_loop_closed(struct walk_loop *loop, uint64_t ip, uint64_t insns);

/* The class of gap that libipt's @error (negative) makes. */
enum branch_gap walk_gap_of_error(int error);

#endif
