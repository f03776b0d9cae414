// SPDX-License-Identifier: GPL-2.0-only
/* libipt's instruction decoder: every instruction, for listings and as the other opinion. */
#include "decode/engine.h"

#include <errno.h>

#include "base/mem.h"
#include "decode/walk.h"
#include "image/insn.h"

struct insns {
	struct walk walk;
	struct pt_insn_decoder *decoder;
	insn_fn fn;
	void *ctx;
	struct decode_thread_stats stats;
	uint64_t position, previous; /* in the chunk, before the last steps */
	struct walk_loop loop;
};

static uint64_t offset_of(const struct insns *insns)
{
	uint64_t offset;

	return pt_insn_get_offset(insns->decoder, &offset) < 0 ? 0 : offset;
}

static void mark_step(struct insns *insns)
{
	insns->previous = insns->position;
	insns->position = offset_of(insns);
}

static int follow_time(struct insns *insns)
{
	struct pt_image *image;
	int err = walk_new_image(&insns->walk, &image);

	if (!err && image && pt_insn_set_image(insns->decoder, image) < 0)
		err = -ENOMEM;
	return err;
}

static int take_events(struct insns *insns, int status, int *err)
{
	while (status >= 0 && (status & pts_event_pending) && !*err) {
		struct pt_event event;

		mark_step(insns);
		status = pt_insn_event(insns->decoder, &event, sizeof(event));
		if (status < 0)
			break;
		walk_loop_reset(&insns->loop);
		if (event.has_tsc)
			walk_set_tsc(&insns->walk, event.tsc);
		if (event.type == ptev_enabled)
			walk_look_ahead(&insns->walk, insns->previous);
		if (event.type == ptev_overflow) {
			insns->stats.gaps++;
			insns->stats.error_gaps++;
		}
		*err = follow_time(insns);
	}
	return status;
}

static bool is_endless(struct insns *insns, const struct pt_insn *pt_insn)
{
	struct insn insn;

	if (pt_insn->iclass == ptic_other)
		return walk_loop_passes(&insns->loop, 1);
	if (!insn_decode(pt_insn->raw, pt_insn->size, pt_insn->ip, mode_bits(pt_insn->mode),
			 &insn) &&
	    insn.class != INSN_JMP && insn.class != INSN_CALL && insn.class != INSN_OTHER) {
		walk_loop_reset(&insns->loop);
		return false;
	}
	return walk_loop_closed(&insns->loop, pt_insn->ip, 1);
}

static int decode_segment(struct insns *insns, int status, int *err)
{
	walk_loop_reset(&insns->loop);
	for (;;) {
		struct pt_insn insn = { 0 };

		status = take_events(insns, status, err);
		if (status < 0 || *err)
			return status;
		if (status & pts_eos)
			return 0;
		mark_step(insns);
		status = pt_insn_next(insns->decoder, &insn, sizeof(insn));
		if (status == -pte_eos)
			return 0;
		if (insn.iclass != ptic_error) {
			insns->stats.instructions++;
			*err = insns->fn(insns->ctx, insn.ip, insns->walk.time_ns);
		}
		if (status < 0 || *err)
			return status;
		if (is_endless(insns, &insn))
			return -pte_bad_query;
	}
}

static int synchronise(struct insns *insns, uint64_t offset, int *err)
{
	int status = pt_insn_sync_set(insns->decoder, offset);
	struct pt_image *image;
	uint64_t tsc;

	if (status < 0)
		return status;
	if (pt_insn_time(insns->decoder, &tsc, NULL, NULL) >= 0)
		walk_set_tsc(&insns->walk, tsc);
	*err = walk_image(&insns->walk, &image);
	if (!*err && pt_insn_set_image(insns->decoder, image) < 0)
		*err = -ENOMEM;
	return status;
}

static int decode_segments(struct insns *insns)
{
	uint64_t psb = walk_find_psb(&insns->walk, 0);
	int err = 0;

	while (psb != UINT64_MAX && !err) {
		int status;

		insns->position = insns->previous = psb;
		status = synchronise(insns, psb, &err);
		if (status == -pte_eos)
			break; /* nothing but its PSB+: the thread did not run */
		if (status >= 0 && !err)
			status = decode_segment(insns, status, &err);
		if (status >= 0 || err)
			break;
		insns->stats.gaps++;
		insns->stats.error_gaps++;
		psb = walk_next_psb(&insns->walk, psb, insns->position);
	}
	return err;
}

static int decode_chunk(struct insns *insns, const struct recording_chunk *chunk)
{
	struct pt_config config;
	int err;

	err = walk_enter(&insns->walk, chunk, &config);
	if (!err && insns->walk.size) {
		config.flags.variant.insn.enable_tick_events = 1;
		insns->decoder = pt_insn_alloc_decoder(&config);
		err = insns->decoder ? decode_segments(insns) : -ENOMEM;
		pt_insn_free_decoder(insns->decoder);
		insns->decoder = NULL;
	}
	walk_leave(&insns->walk);
	return err;
}

int engine_decode_insns(struct engine *engine, pid_t tid, insn_fn fn, void *ctx,
			struct decode_thread_stats *stats)
{
	struct insns insns = { .walk = { .engine = engine }, .fn = fn, .ctx = ctx };
	const struct recording_chunk *chunk;
	int err = 0;

	vec_for_each(chunk, &engine->recording->chunks) {
		if (chunk->tid != tid)
			continue;
		insns.stats.bytes += chunk->size;
		err = decode_chunk(&insns, chunk);
		if (err)
			break;
	}
	if (stats)
		*stats = insns.stats;
	return err;
}
