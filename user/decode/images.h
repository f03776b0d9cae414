/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A space as libipt sees it: one section cache, and per process one pt_image for each stretch of
 * time in which no address has two meanings. Not shared between threads. Internal to decode/.
 */
#ifndef PTBPF_DECODE_IMAGES_H
#define PTBPF_DECODE_IMAGES_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include <intel-pt.h>

#include "base/vec.h"
#include "image/space.h"

struct image_epoch {
	uint64_t from_ns; /* up to the next epoch's */
	struct pt_image *image;
};

struct image_process {
	pid_t pid;
	VEC(struct image_epoch) epochs; /* at least one; the first from 0 */
};

struct images {
	const struct space *space;
	struct pt_image_section_cache *cache;
	VEC(struct image_process *) processes;
};

int images_init(struct images *images, const struct space *space);
void images_fini(struct images *images);

/* The process's epochs; images are made when first asked for. 0, -ENOMEM. */
int images_process(struct images *images, pid_t pid, struct image_process **process);
/* The image of epoch @index. 0, -ENOMEM. */
int images_of_epoch(struct images *images, struct image_process *process, size_t index,
		    struct pt_image **image);
/* Index of the epoch at @time_ns. */
size_t images_epoch_at(const struct image_process *process, uint64_t time_ns);

#endif
