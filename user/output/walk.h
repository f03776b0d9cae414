/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One thread's timeline as a sequence: begins and ends in the order of the program, gaps and
 * instants where they belong, the filter applied. Every begin has its end, properly nested; times
 * never decrease.
 */
#ifndef PTBPF_OUTPUT_WALK_H
#define PTBPF_OUTPUT_WALK_H

#include <stdio.h>

#include "output/output.h"

struct walk {
	const struct timeline *timeline;
	const struct output_filter *filter; /* may be NULL */
	uint64_t origin_ns;                 /* walk_origin() */
	void *ctx;
	/* Each may be NULL. Nonzero ends the walk with that value. */
	int (*begin)(void *ctx, const struct slice *slice);
	int (*end)(void *ctx, const struct slice *slice);
	int (*gap)(void *ctx, const struct gap *gap, uint32_t depth);
	int (*instant)(void *ctx, const struct instant *instant, uint32_t depth);
};

int walk_thread(const struct walk *walk, const struct thread_timeline *thread);

bool walk_has_thread(const struct output_filter *filter, const struct thread_timeline *thread);
/* Whether the filter shows the slice. Where it does, it shows all that enclose it. */
bool walk_has_slice(const struct walk *walk, const struct slice *slice);
/* The name of the process: its main thread's, else of any of its threads. */
const char *walk_process_comm(const struct timeline *timeline, pid_t pid);
/* What times are relative to: the trigger, or without one the newest time of all threads. */
uint64_t walk_origin(const struct timeline *timeline);
/* The oldest time of all threads; 0 without any. */
uint64_t walk_start(const struct timeline *timeline);

/*
 * Calls fn for each "key=value" of an instant's detail; the value reaches to the next word that
 * has a '='.
 */
typedef void (*walk_detail_fn)(void *ctx, const char *key, size_t key_size, const char *value,
			       size_t value_size);
void walk_detail(const char *detail, walk_detail_fn fn, void *ctx);

/* Right after a write: 0, or the errno that it failed with. */
int walk_write_error(FILE *out);
/* After all writes: @err if that is one, else what flushing fails with. */
int walk_flush(FILE *out, int err);

#endif
