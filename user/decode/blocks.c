// SPDX-License-Identifier: GPL-2.0-only
/*
 * libipt's block decoder -> branch events. A block ends at a branch whose outcome is the next
 * block's address, so that each event is sent one block late.
 */
#include "decode/engine.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "decode/stream.h"
#include "decode/walk.h"
#include "image/insn.h"

struct blocks {
	struct walk walk;
	struct stream stream;
	struct pt_block_decoder *decoder;
	uint64_t insns;        /* executed since the last event */
	struct block_end last; /* the branch that waits for its outcome */
	bool waiting;          /* there is one */
	bool enabled;          /* tracing is on */
	bool starting;         /* the next address is one where decoding begins */
	bool tx, aborted;
	struct branch held; /* an interruption: ASYNC, or END if nothing follows */
	struct branch gap;  /* a gap whose end is not known yet */
	bool has_held, has_gap;
	bool any; /* an event was sent */
	uint64_t last_ip;
	uint64_t missed_ip; /* where an error says that no bytes are */
	/* In the chunk, before libipt's last step and the one before that. */
	uint64_t position, previous;
	struct walk_loop loop;
};

static uint32_t take_insns(struct blocks *blocks)
{
	uint64_t insns = blocks->insns;

	blocks->insns = 0;
	return insns > UINT32_MAX ? UINT32_MAX : (uint32_t)insns;
}

static struct branch new_event(struct blocks *blocks, enum branch_kind kind, uint64_t from,
			       uint64_t to)
{
	struct branch branch = {
		.time_ns = blocks->walk.time_ns,
		.from = from,
		.to = to,
		.insns = take_insns(blocks),
		.kind = (uint8_t)kind,
		.flags =
			(blocks->walk.exact ? BRANCH_TIME_EXACT : 0) | (blocks->tx ? BRANCH_TX : 0),
	};

	blocks->walk.exact = false;
	return branch;
}

static void send(struct blocks *blocks, const struct branch *branch)
{
	blocks->any = true;
	stream_push(&blocks->stream, branch);
}

static void send_event(struct blocks *blocks, enum branch_kind kind, uint64_t from, uint64_t to)
{
	struct branch branch = new_event(blocks, kind, from, to);

	send(blocks, &branch);
}

static void send_branch(struct blocks *blocks, enum branch_kind kind, uint64_t to, uint8_t flags)
{
	struct branch branch = new_event(blocks, kind, blocks->last.ip, to);

	branch.from_size = blocks->last.length;
	branch.flags |= flags;
	send(blocks, &branch);
}

/* The branch that waits went to @to. */
static void settle(struct blocks *blocks, uint64_t to)
{
	const struct block_end *last = &blocks->last;

	if (!blocks->waiting)
		return;
	blocks->waiting = false;
	switch ((enum insn_class)last->class) {
	case INSN_JCC:
		if (to != last->ip + last->length)
			send_branch(blocks, BRANCH_COND, to, 0);
		break;
	case INSN_JMP:
		send_branch(blocks, BRANCH_JUMP, to, 0);
		break;
	case INSN_JMP_IND:
		send_branch(blocks, BRANCH_JUMP, to, BRANCH_INDIRECT);
		break;
	case INSN_CALL:
		send_branch(blocks, BRANCH_CALL, to, 0);
		break;
	case INSN_CALL_IND:
		send_branch(blocks, BRANCH_CALL, to, BRANCH_INDIRECT);
		break;
	case INSN_RET:
		send_branch(blocks, BRANCH_RETURN, to, 0);
		break;
	case INSN_FAR:
		send_branch(blocks, BRANCH_FAR, to, 0);
		break;
	default:
		break;
	}
}

/* The branch that waits got no outcome: direct ones need none, the others stay open. */
static void settle_without_outcome(struct blocks *blocks)
{
	if (blocks->waiting && (blocks->last.class == INSN_JMP || blocks->last.class == INSN_CALL))
		settle(blocks, blocks->last.target);
	blocks->waiting = false;
}

static void send_held(struct blocks *blocks, enum branch_kind kind)
{
	if (!blocks->has_held)
		return;
	blocks->has_held = false;
	blocks->held.kind = (uint8_t)kind;
	send(blocks, &blocks->held);
}

static void send_gap(struct blocks *blocks, uint64_t to)
{
	if (!blocks->has_gap)
		return;
	blocks->has_gap = false;
	blocks->gap.to = to;
	/* Before a thread's first event there is no earlier time to begin at. */
	if (!blocks->any)
		blocks->gap.time_ns = blocks->walk.time_ns;
	send(blocks, &blocks->gap);
}

static void open_gap(struct blocks *blocks, enum branch_gap class, bool error, uint64_t offset)
{
	settle_without_outcome(blocks);
	send_held(blocks, BRANCH_ASYNC);
	/* One failure after the other without an event between is one gap. */
	if (blocks->has_gap && blocks->gap.gap == class)
		return;
	send_gap(blocks, 0);
	blocks->gap = (struct branch){
		.kind = BRANCH_GAP,
		.gap = (uint8_t) class,
		.from = blocks->last_ip,
		.time_ns = blocks->walk.time_ns,
		.insns = take_insns(blocks),
		.flags = error ? BRANCH_GAP_ERROR : 0,
		.offset = blocks->walk.base + offset,
	};
	blocks->has_gap = true;
}

static void begin(struct blocks *blocks, uint64_t ip)
{
	send_held(blocks, BRANCH_ASYNC);
	send_gap(blocks, ip);
	send_event(blocks, BRANCH_BEGIN, 0, ip);
	blocks->starting = false;
	blocks->enabled = true;
	blocks->last_ip = ip;
}

static uint64_t offset_of(const struct blocks *blocks)
{
	uint64_t offset;

	return pt_blk_get_offset(blocks->decoder, &offset) < 0 ? 0 : offset;
}

/* Tracing went off at the branch that waits, or at one that would have needed trace. */
static void on_disabled(struct blocks *blocks, const struct pt_event *event)
{
	uint64_t to = event->ip_suppressed ? 0 : event->variant.disabled.ip;
	const struct block_end *last = &blocks->last;

	blocks->enabled = false;
	if (!blocks->waiting) {
		send_event(blocks, BRANCH_END, blocks->last_ip, 0);
		return;
	}
	if (last->class == INSN_FAR) {
		blocks->waiting = false;
		send_branch(blocks, BRANCH_SYSCALL, to, 0);
		return;
	}
	if (to)
		settle(blocks, to);
	if (!to || blocks->waiting) {
		blocks->waiting = false;
		blocks->insns -= blocks->insns > 0;
		send_event(blocks, BRANCH_END, last->ip, 0);
	}
}

static void on_interrupted(struct blocks *blocks, const struct pt_event *event)
{
	uint64_t at = event->variant.async_disabled.at;

	settle(blocks, at);
	blocks->enabled = false;
	blocks->held = new_event(blocks, BRANCH_ASYNC, at, 0);
	blocks->has_held = true;
	blocks->last_ip = at;
}

static void on_async_branch(struct blocks *blocks, const struct pt_event *event)
{
	uint64_t from = event->variant.async_branch.from;

	settle(blocks, from);
	send_event(blocks, blocks->aborted ? BRANCH_ABORT : BRANCH_ASYNC, from,
		   event->variant.async_branch.to);
	blocks->aborted = false;
}

static void on_overflow(struct blocks *blocks, const struct pt_event *event)
{
	open_gap(blocks, GAP_OVERFLOW, true, offset_of(blocks));
	blocks->enabled = false;
	blocks->tx = false;
	if (!event->ip_suppressed)
		begin(blocks, event->variant.overflow.ip);
}

static void on_event(struct blocks *blocks, const struct pt_event *event)
{
	if (event->has_tsc)
		walk_set_tsc(&blocks->walk, event->tsc);
	if (event->type == ptev_enabled)
		walk_look_ahead(&blocks->walk, blocks->previous);
	switch (event->type) {
	case ptev_enabled:
		begin(blocks, event->variant.enabled.ip);
		break;
	case ptev_disabled:
		on_disabled(blocks, event);
		break;
	case ptev_async_disabled:
		on_interrupted(blocks, event);
		break;
	case ptev_async_branch:
		on_async_branch(blocks, event);
		break;
	case ptev_overflow:
		on_overflow(blocks, event);
		break;
	case ptev_tsx:
		blocks->tx = event->variant.tsx.speculative;
		blocks->aborted = event->variant.tsx.aborted;
		break;
	default:
		break;
	}
}

static void on_block(struct blocks *blocks, const struct pt_block *block)
{
	if (!blocks->enabled)
		return;
	blocks->missed_ip = block->ip;
	if (blocks->starting)
		begin(blocks, block->ip);
	else
		settle(blocks, block->ip);
	if (!block->ninsn)
		return;
	blocks->insns += block->ninsn;
	blocks->last = insn_cache_block_end(&blocks->walk.engine->insns, block);
	blocks->missed_ip = block->end_ip + blocks->last.length;
	blocks->last_ip = block->end_ip;
	switch ((enum insn_class)blocks->last.class) {
	case INSN_JCC:
	case INSN_JMP:
	case INSN_JMP_IND:
	case INSN_CALL:
	case INSN_CALL_IND:
	case INSN_RET:
	case INSN_FAR:
		blocks->waiting = true;
		break;
	default:
		blocks->waiting = false;
		break;
	}
}

static void mark_step(struct blocks *blocks)
{
	blocks->previous = blocks->position;
	blocks->position = offset_of(blocks);
}

/* Another image where the time has come to another epoch. 0, -ENOMEM. */
static int follow_time(struct blocks *blocks)
{
	struct pt_image *image;
	int err = walk_new_image(&blocks->walk, &image);

	if (!err && image && pt_blk_set_image(blocks->decoder, image) < 0)
		err = -ENOMEM;
	return err;
}

/* All events that are due. libipt's status, or its error. *err: -ENOMEM or fn's. */
static int take_events(struct blocks *blocks, int status, int *err)
{
	while (status >= 0 && (status & pts_event_pending) && !*err) {
		struct pt_event event;

		mark_step(blocks);
		status = pt_blk_event(blocks->decoder, &event, sizeof(event));
		if (status < 0)
			break;
		walk_loop_reset(&blocks->loop);
		on_event(blocks, &event);
		*err = follow_time(blocks) ?: blocks->stream.err;
	}
	return status;
}

static bool is_endless(struct blocks *blocks, const struct pt_block *block)
{
	/* What no instruction of ours ends (libipt reads some that Zydis refuses) counts as well.
	 */
	if (blocks->waiting && blocks->last.class != INSN_JMP && blocks->last.class != INSN_CALL) {
		walk_loop_reset(&blocks->loop);
		return false;
	}
	return walk_loop_closed(&blocks->loop, block->ninsn ? block->end_ip : block->ip,
				block->ninsn);
}

/* Decodes from a synchronisation point. libipt's error, or 0 at the end of the chunk. */
static int decode_segment(struct blocks *blocks, int status, int *err)
{
	struct pt_block block;

	walk_loop_reset(&blocks->loop);
	for (;;) {
		status = take_events(blocks, status, err);
		if (status < 0 || *err)
			return status;
		if ((status & pts_eos) && !blocks->enabled)
			return 0;
		if (status & pts_eos) {
			/* Only where it goes on: what runs there left no trace any more. */
			(void)pt_blk_next(blocks->decoder, &block, sizeof(block));
			if (!blocks->starting)
				settle(blocks, block.ip);
			blocks->last_ip = block.ip;
			return 0;
		}
		mark_step(blocks);
		status = pt_blk_next(blocks->decoder, &block, sizeof(block));
		if (status == -pte_eos) {
			block.ninsn = 0;
			on_block(blocks, &block);
			blocks->last_ip = block.ip;
			return 0;
		}
		on_block(blocks, &block);
		*err = blocks->stream.err;
		if (status < 0 || *err)
			return status;
		if (is_endless(blocks, &block))
			return -pte_bad_query;
	}
}

static void note_error(struct blocks *blocks, int error)
{
	enum branch_gap class = walk_gap_of_error(error);

	if (class == GAP_NO_IMAGE)
		space_need(blocks->walk.engine->space, blocks->walk.chunk->pid, blocks->missed_ip,
			   blocks->walk.time_ns);
	open_gap(blocks, class, true, blocks->position);
	blocks->enabled = false;
}

/* At the PSB at @offset: libipt's status. *err: -ENOMEM. */
static int synchronise(struct blocks *blocks, uint64_t offset, int *err)
{
	struct pt_image *image;
	int status = pt_blk_sync_set(blocks->decoder, offset);
	uint64_t tsc;

	blocks->waiting = blocks->tx = blocks->aborted = false;
	blocks->enabled = blocks->starting = false;
	if (status < 0)
		return status;
	if (pt_blk_time(blocks->decoder, &tsc, NULL, NULL) >= 0)
		walk_set_tsc(&blocks->walk, tsc);
	*err = walk_image(&blocks->walk, &image);
	if (!*err && pt_blk_set_image(blocks->decoder, image) < 0)
		*err = -ENOMEM;
	blocks->enabled = blocks->starting = !(status & pts_ip_suppressed);
	return status;
}

/* How the chunk continues the one before, as a gap. */
static void join_chunk(struct blocks *blocks, const struct recording_chunk *chunk)
{
	switch (chunk->join) {
	case RECORDING_JOIN_BIRTH:
	case RECORDING_JOIN_ATTACH:
		if (chunk->data_lost)
			open_gap(blocks, GAP_LOST, true, 0);
		break;
	case RECORDING_JOIN_WRAPPED:
		open_gap(blocks, GAP_START, false, 0);
		break;
	case RECORDING_JOIN_RESIZE:
		open_gap(blocks, GAP_RESIZE, false, 0);
		break;
	case RECORDING_JOIN_LOST:
		open_gap(blocks, GAP_LOST, true, 0);
		break;
	case RECORDING_JOIN_ATOMIC:
		open_gap(blocks, GAP_ATOMIC, false, 0);
		break;
	case RECORDING_JOIN_UNTRACED:
		open_gap(blocks, GAP_UNTRACED, false, 0);
		break;
	}
}

static void end_chunk(struct blocks *blocks)
{
	if (blocks->has_held)
		send_held(blocks, BRANCH_END);
	else if (blocks->enabled && !blocks->starting)
		send_event(blocks, BRANCH_END, blocks->last_ip, 0);
	settle_without_outcome(blocks);
	send_gap(blocks, 0);
	blocks->enabled = false;
}

/* Segment by segment. 0, -ENOMEM, fn's. */
static int decode_segments(struct blocks *blocks)
{
	uint64_t psb = walk_find_psb(&blocks->walk, 0);
	int err = 0;

	if (psb == UINT64_MAX && !blocks->has_gap)
		open_gap(blocks, GAP_BAD_PACKET, true, 0);
	while (psb != UINT64_MAX && !err) {
		int status;

		blocks->position = blocks->previous = psb;
		status = synchronise(blocks, psb, &err);
		if (status == -pte_eos)
			break; /* nothing but its PSB+: the thread did not run */
		if (status >= 0 && !err)
			status = decode_segment(blocks, status, &err);
		if (status >= 0 || err)
			break;
		note_error(blocks, status);
		psb = walk_next_psb(&blocks->walk, psb, blocks->position);
	}
	return err;
}

static int decode_chunk(struct blocks *blocks, const struct recording_chunk *chunk)
{
	struct pt_config config;
	int err;

	err = walk_enter(&blocks->walk, chunk, &config);
	if (!err)
		join_chunk(blocks, chunk);
	if (!err && blocks->walk.size) {
		config.flags.variant.block.end_on_call = 1;
		config.flags.variant.block.end_on_jump = 1;
		config.flags.variant.block.enable_tick_events = 1;
		blocks->decoder = pt_blk_alloc_decoder(&config);
		err = blocks->decoder ? decode_segments(blocks) : -ENOMEM;
		pt_blk_free_decoder(blocks->decoder);
		blocks->decoder = NULL;
	}
	if (!err)
		end_chunk(blocks);
	walk_leave(&blocks->walk);
	return err;
}

int engine_decode(struct engine *engine, pid_t tid, branch_fn fn, void *ctx,
		  struct decode_thread_stats *stats)
{
	scoped_free struct blocks *blocks = calloc(1, sizeof(*blocks));
	const struct recording_chunk *chunk;
	int err = 0;

	if (!blocks)
		return -ENOMEM;
	blocks->walk.engine = engine;
	blocks->stream.fn = fn;
	blocks->stream.ctx = ctx;
	vec_for_each(chunk, &engine->recording->chunks) {
		if (chunk->tid != tid)
			continue;
		blocks->stream.stats.bytes += chunk->size;
		err = decode_chunk(blocks, chunk);
		if (err)
			break;
	}
	if (!err)
		err = stream_flush(&blocks->stream);
	if (stats)
		*stats = blocks->stream.stats;
	return err;
}
