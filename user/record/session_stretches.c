// SPDX-License-Identifier: GPL-2.0-only
/* What a ring holds, as contiguous stretches: readers must never decode across a gap. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "record/session_state.h"

/* Gaps whose place was overwritten are of no use any more. */
static void forget_old(struct session_thread *thread, uint64_t head)
{
	size_t old = 0;

	if (thread->ring.spool_fd >= 0 || head <= thread->ring.size)
		return;
	while (old < thread->gaps.len && thread->gaps.data[old].offset < head - thread->ring.size)
		old++;
	thread->gaps.len -= old;
	memmove(thread->gaps.data, thread->gaps.data + old,
		thread->gaps.len * sizeof(thread->gaps.data[0]));
}

void session_thread_gap(struct session *session, const struct source_event *event)
{
	struct session_thread *thread = session_thread_find(session, event->tid);
	const struct session_gap gap = { .offset = event->offset,
					 .begin_ns = event->time_ns - event->length_ns,
					 .length_ns = event->length_ns };

	log_debug("thread %d: gap of class %s, %llu ns", event->tid, event->text,
		  (unsigned long long)event->length_ns);
	if (!thread || !thread->has_ring || strcmp(event->text, "atomic") || !event->offset)
		return;
	forget_old(thread, event->offset);
	if (vec_push(&thread->gaps, gap))
		log_debug("thread %d: no memory to note a gap", event->tid);
}

/* [from, from + size) of @chunk as one piece. */
static int add_piece(const struct recording_chunk *chunk, uint64_t from, uint64_t size,
		     const struct session_gap *before, recording_chunks *out)
{
	struct recording_chunk piece = *chunk;

	if (!size)
		return 0;
	piece.size = size;
	if (before) {
		piece.join = RECORDING_JOIN_ATOMIC;
		piece.gap_ns = before->length_ns;
		piece.start_ns = before->begin_ns + before->length_ns;
	}
	if (chunk->borrowed) {
		piece.data = chunk->data + from;
	} else {
		piece.data = malloc(size);
		if (!piece.data)
			return -ENOMEM;
		memcpy(piece.data, chunk->data + from, size);
	}
	if (vec_push(out, piece)) {
		if (!piece.borrowed)
			free(piece.data);
		return -ENOMEM;
	}
	return 0;
}

static void free_chunk(struct recording_chunk *chunk)
{
	if (!chunk->borrowed)
		free(chunk->data);
}

int session_add_stretches(const struct session_thread *thread, struct recording_chunk *chunk,
			  recording_chunks *out)
{
	const uint64_t start = thread->ring.header->head - chunk->size;
	const struct session_gap *gap, *before = NULL;
	uint64_t from = 0;
	int err = 0;

	vec_for_each(gap, &thread->gaps) {
		uint64_t end = gap->offset - start;

		if (gap->offset <= start || end > chunk->size || err)
			continue;
		err = add_piece(chunk, from, end - from, before, out);
		from = end;
		before = gap;
	}
	if (!err && !before) {
		err = vec_push(out, *chunk);
		if (!err)
			return 0;
	} else if (!err) {
		err = add_piece(chunk, from, chunk->size - from, before, out);
	}
	free_chunk(chunk);
	return err;
}
