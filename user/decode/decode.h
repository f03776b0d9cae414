/* SPDX-License-Identifier: GPL-2.0-only */
/* PT bytes of one thread -> branch events. Never aborts on what the bytes are: errors are gaps. */
#ifndef PTBPF_DECODE_DECODE_H
#define PTBPF_DECODE_DECODE_H

#include <stdint.h>
#include <sys/types.h>

#include "decode/branch.h"
#include "image/space.h"
#include "snapshot/recording.h"

struct decode_thread_stats {
	uint64_t instructions, branches, gaps, error_gaps, bytes;
	uint64_t first_ns, last_ns; /* of decoded branches; 0 without */
};

/* Fills a space from the side-band (exec, mmap, fork). 0, -ENOMEM. */
int decode_build_space(const struct recording *recording, struct space *space);

/*
 * Decodes all chunks of @tid in order. @space is frozen. Safe to call from several threads at once
 * on different tids. 0, -ENOMEM, or fn's nonzero.
 */
int decode_thread(const struct recording *recording, const struct space *space, pid_t tid,
		  branch_fn fn, void *ctx, struct decode_thread_stats *stats);

/* Every instruction, for --insn, perf's --itrace=i1i and the stepping oracle. */
typedef int (*insn_fn)(void *ctx, uint64_t ip, uint64_t time_ns);
int decode_thread_insns(const struct recording *recording, const struct space *space, pid_t tid,
			insn_fn fn, void *ctx, struct decode_thread_stats *stats);

/* Tids that have chunks, in order of pid then tid. 0, -ENOMEM; *tids is the caller's. */
int decode_tids(const struct recording *recording, pid_t **tids, size_t *n);

#endif
