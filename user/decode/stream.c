// SPDX-License-Identifier: GPL-2.0-only
#include "decode/stream.h"

int stream_flush(struct stream *stream)
{
	if (stream->n && !stream->err)
		stream->err = stream->fn(stream->ctx, stream->batch, stream->n);
	stream->n = 0;
	return stream->err;
}

static void count(struct decode_thread_stats *stats, const struct branch *branch)
{
	stats->instructions += branch->insns;
	if (branch->kind == BRANCH_GAP) {
		stats->gaps++;
		stats->error_gaps += !!(branch->flags & BRANCH_GAP_ERROR);
		return;
	}
	stats->branches++;
	if (!stats->first_ns)
		stats->first_ns = branch->time_ns;
	stats->last_ns = branch->time_ns;
}

void stream_push(struct stream *stream, const struct branch *branch)
{
	struct branch *slot;

	if (stream->n == STREAM_BATCH && stream_flush(stream))
		return;
	if (stream->err)
		return;
	slot = &stream->batch[stream->n++];
	*slot = *branch;
	if (slot->time_ns < stream->last_ns)
		slot->time_ns = stream->last_ns;
	stream->last_ns = slot->time_ns;
	count(&stream->stats, slot);
}
