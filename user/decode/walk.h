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
	uint64_t base;      /* bytes of the thread's chunks before this one */
	uint64_t time_ns;   /* of the last time packet; never decreases */
	bool exact;         /* ... and nothing was reported since */
	uint64_t tsc;       /* that packet's */
	uint64_t reference; /* a full TSC near the chunk: packets carry 56 bits */
};

/* Begins with @chunk and fills libipt's configuration for it. 0, -ENOMEM. */
int walk_enter(struct walk *walk, const struct recording_chunk *chunk, struct pt_config *config);

/* A time packet said @tsc. */
void walk_set_tsc(struct walk *walk, uint64_t tsc);

/* When the time has come into another epoch: *image is its image, else NULL. 0, -ENOMEM. */
int walk_new_image(struct walk *walk, struct pt_image **image);
/* The image of the present epoch. 0, -ENOMEM. */
int walk_image(struct walk *walk, struct pt_image **image);

/* Offset of the first PSB at or after @offset in the chunk; UINT64_MAX: none. */
uint64_t walk_find_psb(const struct walk *walk, uint64_t offset);

/* The class of gap that libipt's @error (negative) makes. */
enum branch_gap walk_gap_of_error(int error);

#endif
