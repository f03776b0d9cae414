// SPDX-License-Identifier: GPL-2.0-only
#include "decode/engine.h"

#include "base/mem.h"

int engine_init(struct engine *engine, const struct recording *recording, const struct space *space)
{
	int err;

	*engine = (struct engine){ .recording = recording, .space = space };
	err = images_init(&engine->images, space);
	if (err)
		return err;
	err = insn_cache_init(&engine->insns, engine->images.cache);
	if (err)
		images_fini(&engine->images);
	return err;
}

void engine_fini(struct engine *engine)
{
	insn_cache_fini(&engine->insns);
	images_fini(&engine->images);
}

int decode_thread(const struct recording *recording, const struct space *space, pid_t tid,
		  branch_fn fn, void *ctx, struct decode_thread_stats *stats)
{
	struct engine engine;
	int err;

	err = engine_init(&engine, recording, space);
	if (err)
		return err;
	err = engine_decode(&engine, tid, fn, ctx, stats);
	engine_fini(&engine);
	return err;
}

int decode_thread_insns(const struct recording *recording, const struct space *space, pid_t tid,
			insn_fn fn, void *ctx, struct decode_thread_stats *stats)
{
	struct engine engine;
	int err;

	err = engine_init(&engine, recording, space);
	if (err)
		return err;
	err = engine_decode_insns(&engine, tid, fn, ctx, stats);
	engine_fini(&engine);
	return err;
}
