/* SPDX-License-Identifier: GPL-2.0-only */
/* All threads of a recording at once, one worker per CPU; the result does not depend on how many.
 */
#ifndef PTBPF_DECODE_PARALLEL_H
#define PTBPF_DECODE_PARALLEL_H

#include "decode/decode.h"

struct decode_job {
	pid_t tid;
	branch_fn fn;
	void *ctx; /* used by one worker at a time */
	/* After the last event, in the same worker; NULL: none. Nonzero stops as fn's does. */
	int (*finish)(void *ctx);
	struct decode_thread_stats stats; /* out */
	int result;                       /* out: decode_thread's or finish's */
};

struct decode_options {
	unsigned int workers; /* 0: one per CPU that we may use */
	/* After each job, never twice at once; NULL: none. */
	void (*progress)(void *ctx, size_t done, size_t total);
	void *progress_ctx;
};

/*
 * Runs all jobs; a failed one does not stop the others. @options may be NULL. 0, or the result of
 * the first failed job by index.
 */
int decode_parallel(const struct recording *recording, const struct space *space,
		    struct decode_job *jobs, size_t n, const struct decode_options *options);

#endif
