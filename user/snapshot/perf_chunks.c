// SPDX-License-Identifier: GPL-2.0-only
#include "snapshot/perf_chunks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "snapshot/perf_format.h"

void perf_trace_fini(struct perf_trace *trace)
{
	vec_free(&trace->pieces);
	vec_free(&trace->marks);
	vec_free(&trace->ids);
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_ids(const void *a, const void *b)
{
	return compare(((const struct perf_id_queue *)a)->id,
		       ((const struct perf_id_queue *)b)->id);
}

/* In a queue the order of the file is the order of the trace. */
static int compare_pieces(const void *a, const void *b)
{
	const struct perf_piece *left = a, *right = b;

	return left->idx != right->idx ? compare(left->idx, right->idx) :
					 compare(left->file_offset, right->file_offset);
}

static int compare_marks(const void *a, const void *b)
{
	const struct perf_mark *left = a, *right = b;

	if (left->idx != right->idx)
		return compare(left->idx, right->idx);
	if (left->time_ns != right->time_ns)
		return compare(left->time_ns, right->time_ns);
	return compare(left->offset + left->size, right->offset + right->size);
}

#define SORT(vec, fn)                                                               \
	do {                                                                        \
		if ((vec)->len)                                                     \
			qsort((vec)->data, (vec)->len, sizeof(*(vec)->data), (fn)); \
	} while (0)

/* Marks whose event no queue owns go last and are ignored. */
static void resolve_marks(struct perf_trace *trace)
{
	struct perf_mark *mark;

	SORT(&trace->ids, compare_ids);
	vec_for_each(mark, &trace->marks) {
		const struct perf_id_queue key = { .id = mark->id };
		const struct perf_id_queue *found =
			trace->ids.len ? bsearch(&key, trace->ids.data, trace->ids.len, sizeof(key),
						 compare_ids) :
					 NULL;

		mark->idx = found ? found->idx : UINT32_MAX;
	}
	SORT(&trace->marks, compare_marks);
}

/* The process of each thread that the side-band names. */
struct owner {
	pid_t tid, pid;
	size_t order; /* the first event of a thread tells */
};

struct owners {
	VEC(struct owner) list;
};

static int compare_owners(const void *a, const void *b)
{
	const struct owner *left = a, *right = b;

	if (left->tid != right->tid)
		return left->tid < right->tid ? -1 : 1;
	return compare(left->order, right->order);
}

static int owners_init(struct owners *owners, const struct recording *recording)
{
	const struct recording_event *event;
	size_t kept = 0;

	vec_for_each(event, &recording->events) {
		const struct owner owner = { event->tid, event->pid, owners->list.len };

		if (event->kind != RECORDING_EXIT && vec_push(&owners->list, owner))
			return -ENOMEM;
	}
	SORT(&owners->list, compare_owners);
	for (size_t i = 0; i < owners->list.len; i++) {
		if (!kept || owners->list.data[i].tid != owners->list.data[kept - 1].tid)
			owners->list.data[kept++] = owners->list.data[i];
	}
	owners->list.len = kept;
	return 0;
}

/* The thread itself when nothing tells. */
static pid_t owner_of(const struct owners *owners, pid_t tid)
{
	size_t low = 0, high = owners->list.len;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (owners->list.data[middle].tid < tid)
			low = middle + 1;
		else
			high = middle;
	}
	return low < owners->list.len && owners->list.data[low].tid == tid ?
		       owners->list.data[low].pid :
		       tid;
}

/* One queue: its pieces and marks are neighbours in the sorted arrays. */
struct queue {
	struct recording *recording;
	const struct owners *owners;
	const struct perf_piece *pieces;
	size_t n_pieces;
	const struct perf_mark *marks;
	size_t n_marks;
	pid_t pid;
	uint64_t start_ns, end_ns;
	uint64_t gap_from_ns; /* an empty AUX record says so; UINT64_MAX without */
	bool data_lost;
};

static void read_marks(struct queue *queue)
{
	bool has_pid = false;

	queue->gap_from_ns = UINT64_MAX;
	for (size_t i = 0; i < queue->n_marks; i++) {
		const struct perf_mark *mark = &queue->marks[i];

		if (mark->is_start && !has_pid) {
			has_pid = true;
			queue->pid = mark->pid;
			queue->start_ns = mark->time_ns;
		} else if (!mark->is_start && mark->size) {
			queue->end_ns = mark->time_ns;
		} else if (!mark->is_start) {
			queue->gap_from_ns = mark->time_ns;
			queue->data_lost = mark->flags & PERF_AUX_FLAG_TRUNCATED;
		}
	}
	if (!has_pid)
		queue->pid = owner_of(queue->owners, queue->pieces[0].tid);
}

static struct recording_chunk chunk_of(const struct queue *queue, const struct perf_piece *piece)
{
	return (struct recording_chunk){
		.pid = queue->pid,
		.tid = piece->tid,
		.borrowed = true,
		.data = piece->data,
		.size = piece->size,
		.file_offset = piece->file_offset,
	};
}

static bool is_ours(const struct perf_piece *piece)
{
	return piece->ours >> PERF_OURS_MARK_SHIFT == PERF_OURS_MARK;
}

static int add_ours(const struct queue *queue, const struct perf_piece *piece)
{
	struct recording_chunk chunk = chunk_of(queue, piece);
	const uint32_t padding = piece->ours >> PERF_OURS_PADDING_SHIFT & 7;
	const uint32_t join = piece->ours & PERF_OURS_JOIN_MASK;

	chunk.size -= padding < chunk.size ? padding : chunk.size;
	chunk.join =
		join <= RECORDING_JOIN_ATOMIC ? (enum recording_join)join : RECORDING_JOIN_ATTACH;
	chunk.data_lost = queue->data_lost;
	if (queue->gap_from_ns < queue->start_ns)
		chunk.gap_ns = queue->start_ns - queue->gap_from_ns;
	chunk.start_ns = queue->start_ns;
	chunk.end_ns = queue->end_ns;
	return recording_add_chunk(queue->recording, &chunk);
}

/* Each snapshot that `perf record -S` took: a ring on its own. */
static int add_snapshots(const struct queue *queue)
{
	int err = 0;

	for (size_t i = 0; !err && i < queue->n_pieces; i++) {
		struct recording_chunk chunk = chunk_of(queue, &queue->pieces[i]);

		chunk.join = RECORDING_JOIN_WRAPPED;
		err = recording_add_chunk(queue->recording, &chunk);
	}
	return err;
}

/* Bytes that belong together, gathered over pieces. */
struct stretch {
	struct recording_chunk chunk;
	VEC(struct perf_piece) parts;
};

static int flush(const struct queue *queue, struct stretch *stretch)
{
	scoped_free uint8_t *joined = NULL;
	struct recording_chunk *chunk = &stretch->chunk;
	int err;

	if (chunk->size == 0)
		return 0;
	*chunk = (struct recording_chunk){
		.pid = queue->pid,
		.tid = queue->pieces[0].tid,
		.join = chunk->join,
		.data_lost = chunk->data_lost,
		.size = chunk->size,
		.start_ns = chunk->start_ns,
		.end_ns = chunk->end_ns,
		.file_offset = stretch->parts.data[0].file_offset,
	};
	if (stretch->parts.len == 1) {
		chunk->borrowed = true;
		chunk->data = stretch->parts.data[0].data;
	} else {
		const struct perf_piece *part;
		uint8_t *to = joined = malloc(chunk->size);

		if (!joined)
			return -ENOMEM;
		vec_for_each(part, &stretch->parts) {
			memcpy(to, part->data, part->size);
			to += part->size;
		}
		chunk->data = joined;
	}
	err = recording_add_chunk(queue->recording, chunk);
	if (!err)
		joined = NULL;
	stretch->parts.len = 0;
	chunk->size = 0;
	chunk->start_ns = 0;
	return err;
}

static int append(struct stretch *stretch, const struct perf_piece *piece, uint64_t from,
		  uint64_t size)
{
	struct perf_piece part = *piece;

	if (size == 0)
		return 0;
	part.data += from;
	part.file_offset += from;
	part.size = size;
	stretch->chunk.size += size;
	return vec_push(&stretch->parts, part);
}

/*
 * Cuts a piece where an AUX record says that the kernel lost bytes: after what that record covers.
 * *mark walks over the queue's marks, which are in order of time and so of the stream.
 */
static int append_cut(const struct queue *queue, struct stretch *stretch,
		      const struct perf_piece *piece, size_t *mark)
{
	uint64_t done = 0;
	int err = 0;

	for (; !err && *mark < queue->n_marks; ++*mark) {
		const struct perf_mark *aux = &queue->marks[*mark];
		uint64_t cut;

		if (aux->is_start || !(aux->flags & PERF_AUX_FLAG_TRUNCATED))
			continue;
		cut = aux->offset + aux->size - piece->offset;
		if (cut > piece->size && aux->offset + aux->size >= piece->offset)
			break;
		if (cut > piece->size || cut < done)
			continue;
		err = append(stretch, piece, done, cut - done);
		if (!err)
			err = flush(queue, stretch);
		stretch->chunk.join = RECORDING_JOIN_LOST;
		stretch->chunk.data_lost = true;
		done = cut;
	}
	return err ? err : append(stretch, piece, done, piece->size - done);
}

/* A full trace, drained in pieces: those that follow on one another are one stretch. */
static int add_stream(const struct queue *queue, struct stretch *stretch)
{
	size_t mark = 0;
	int err = 0;

	stretch->chunk = (struct recording_chunk){ .join = RECORDING_JOIN_ATTACH,
						   .start_ns = queue->start_ns };
	for (size_t i = 0; !err && i < queue->n_pieces; i++) {
		const struct perf_piece *piece = &queue->pieces[i];
		const struct perf_piece *before = i ? piece - 1 : NULL;

		/* perf pads a piece to a multiple of 8. */
		if (before && (piece->offset > before->offset + before->size ||
			       piece->offset + 8 <= before->offset + before->size)) {
			err = flush(queue, stretch);
			stretch->chunk.join = RECORDING_JOIN_LOST;
			stretch->chunk.data_lost = true;
		}
		if (!err)
			err = append_cut(queue, stretch, piece, &mark);
	}
	stretch->chunk.end_ns = queue->end_ns;
	return err ? err : flush(queue, stretch);
}

static int add_queue(struct queue *queue)
{
	struct stretch stretch = { 0 };
	int err = 0;

	read_marks(queue);
	if (is_ours(&queue->pieces[0])) {
		for (size_t i = 0; !err && i < queue->n_pieces; i++)
			err = add_ours(queue, &queue->pieces[i]);
	} else if (queue->recording->pt.snapshot_mode) {
		err = add_snapshots(queue);
	} else {
		err = add_stream(queue, &stretch);
		vec_free(&stretch.parts);
	}
	return err;
}

int perf_trace_chunks(struct perf_trace *trace, struct recording *recording)
{
	struct owners owners = { 0 };
	size_t mark = 0;
	int err = owners_init(&owners, recording);

	resolve_marks(trace);
	SORT(&trace->pieces, compare_pieces);
	for (size_t i = 0; !err && i < trace->pieces.len;) {
		struct queue queue = { .recording = recording,
				       .owners = &owners,
				       .pieces = &trace->pieces.data[i] };
		const uint32_t idx = queue.pieces->idx;

		while (i < trace->pieces.len && trace->pieces.data[i].idx == idx)
			i++;
		queue.n_pieces = (size_t)(&trace->pieces.data[i] - queue.pieces);
		while (mark < trace->marks.len && trace->marks.data[mark].idx < idx)
			mark++;
		queue.marks = trace->marks.data + mark;
		while (mark < trace->marks.len && trace->marks.data[mark].idx == idx)
			mark++;
		queue.n_marks = (size_t)(trace->marks.data + mark - queue.marks);
		err = add_queue(&queue);
	}
	vec_free(&owners.list);
	return err;
}
