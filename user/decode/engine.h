/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libipt with its images and caches, kept from thread to thread; of one worker. Internal to
 * decode/.
 */
#ifndef PTBPF_DECODE_ENGINE_H
#define PTBPF_DECODE_ENGINE_H

#include "decode/decode.h"
#include "decode/images.h"
#include "decode/insn_cache.h"

struct engine {
	const struct recording *recording;
	const struct space *space;
	struct images images;
	struct insn_cache insns;
};

int engine_init(struct engine *engine, const struct recording *recording,
		const struct space *space);
void engine_fini(struct engine *engine);

/* decode_thread() and decode_thread_insns() with @engine. */
int engine_decode(struct engine *engine, pid_t tid, branch_fn fn, void *ctx,
		  struct decode_thread_stats *stats);
int engine_decode_insns(struct engine *engine, pid_t tid, insn_fn fn, void *ctx,
			struct decode_thread_stats *stats);

#endif
