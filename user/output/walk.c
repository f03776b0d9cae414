// SPDX-License-Identifier: GPL-2.0-only
#include "output/walk.h"

#include <errno.h>
#include <string.h>

uint64_t walk_origin(const struct timeline *timeline)
{
	const struct thread_timeline *thread;
	uint64_t newest = 0;

	if (timeline->trigger_ns)
		return timeline->trigger_ns;
	vec_for_each(thread, &timeline->threads) {
		const struct slice *slice;

		if (thread->last_ns > newest)
			newest = thread->last_ns;
		vec_for_each(slice, &thread->slices) {
			if (!slice->depth && slice->end_ns > newest)
				newest = slice->end_ns;
		}
	}
	return newest;
}

static void take_oldest(uint64_t *oldest, uint64_t time_ns)
{
	if (time_ns < *oldest)
		*oldest = time_ns;
}

uint64_t walk_start(const struct timeline *timeline)
{
	const struct thread_timeline *thread;
	uint64_t oldest = UINT64_MAX;

	vec_for_each(thread, &timeline->threads) {
		const struct instant *instant;

		if (thread->slices.len)
			take_oldest(&oldest, thread->slices.data[0].begin_ns);
		if (thread->gaps.len)
			take_oldest(&oldest, thread->gaps.data[0].begin_ns);
		vec_for_each(instant, &thread->instants)
			take_oldest(&oldest, instant->time_ns);
	}
	return oldest == UINT64_MAX ? 0 : oldest;
}

bool walk_has_thread(const struct output_filter *filter, const struct thread_timeline *thread)
{
	return !filter || !filter->tid || filter->tid == thread->tid;
}

const char *walk_process_comm(const struct timeline *timeline, pid_t pid)
{
	const struct thread_timeline *thread;
	const char *comm = "";

	vec_for_each(thread, &timeline->threads) {
		if (thread->pid == pid && (!*comm || thread->tid == pid))
			comm = thread->comm;
	}
	return comm;
}

static bool in_window(const struct walk *walk, uint64_t begin_ns, uint64_t end_ns)
{
	const struct output_filter *filter = walk->filter;

	if (!filter)
		return true;
	return !(filter->has_from && (int64_t)(end_ns - walk->origin_ns) < filter->from_ns) &&
	       !(filter->has_to && (int64_t)(begin_ns - walk->origin_ns) > filter->to_ns);
}

bool walk_has_slice(const struct walk *walk, const struct slice *slice)
{
	const struct output_filter *filter = walk->filter;

	if (!filter)
		return true;
	if (filter->max_depth && slice->depth >= filter->max_depth)
		return false;
	return slice->end_ns - slice->begin_ns >= filter->min_duration_ns &&
	       in_window(walk, slice->begin_ns, slice->end_ns);
}

struct walker {
	const struct walk *walk;
	const struct thread_timeline *thread;
	uint32_t open; /* index of the innermost open slice; UINT32_MAX: none */
	size_t next_gap, next_instant;
};

static uint32_t depth_of(const struct walker *walker)
{
	return walker->open == UINT32_MAX ? 0 : walker->thread->slices.data[walker->open].depth + 1;
}

static int emit_end(struct walker *walker)
{
	const struct slice *slice = &walker->thread->slices.data[walker->open];

	walker->open = slice->parent;
	return walker->walk->end ? walker->walk->end(walker->walk->ctx, slice) : 0;
}

static int emit_gap(struct walker *walker)
{
	const struct walk *walk = walker->walk;
	struct gap gap = walker->thread->gaps.data[walker->next_gap++];

	if (walker->open != UINT32_MAX &&
	    gap.end_ns > walker->thread->slices.data[walker->open].end_ns)
		gap.end_ns = walker->thread->slices.data[walker->open].end_ns;
	if (!walk->gap || !in_window(walk, gap.begin_ns, gap.end_ns))
		return 0;
	return walk->gap(walk->ctx, &gap, depth_of(walker));
}

static int emit_instant(struct walker *walker)
{
	const struct walk *walk = walker->walk;
	const struct instant *it = &walker->thread->instants.data[walker->next_instant++];

	if (!walk->instant || !in_window(walk, it->time_ns, it->time_ns))
		return 0;
	return walk->instant(walk->ctx, it, depth_of(walker));
}

/*
 * Everything that comes before a slice which begins at @begin_ns in @parent: ends of slices that
 * are over, gaps between or inside them, instants. At one time: begins, instants, ends, gaps.
 */
static int advance(struct walker *walker, uint32_t parent, uint64_t begin_ns, bool at_end)
{
	const struct thread_timeline *thread = walker->thread;
	int err = 0;

	while (!err) {
		const bool ends = walker->open != parent && walker->open != UINT32_MAX;
		const uint64_t end_ns =
			ends ? thread->slices.data[walker->open].end_ns : UINT64_MAX;
		const struct gap *gap = walker->next_gap < thread->gaps.len ?
						&thread->gaps.data[walker->next_gap] :
						NULL;
		const struct instant *instant =
			walker->next_instant < thread->instants.len ?
				&thread->instants.data[walker->next_instant] :
				NULL;

		if (gap && !at_end && gap->end_ns > begin_ns)
			gap = NULL;
		if (instant && !at_end && instant->time_ns >= begin_ns)
			instant = NULL;
		if (instant && instant->time_ns <= end_ns &&
		    (!gap || instant->time_ns <= gap->begin_ns))
			err = emit_instant(walker);
		else if (gap && gap->begin_ns < end_ns)
			err = emit_gap(walker);
		else if (ends)
			err = emit_end(walker);
		else
			return 0;
	}
	return err;
}

int walk_thread(const struct walk *walk, const struct thread_timeline *thread)
{
	struct walker walker = { .walk = walk, .thread = thread, .open = UINT32_MAX };

	for (uint32_t i = 0; i < thread->slices.len; i++) {
		const struct slice *slice = &thread->slices.data[i];
		int err;

		if (!walk_has_slice(walk, slice))
			continue;
		err = advance(&walker, slice->parent, slice->begin_ns, false);
		walker.open = i;
		if (!err && walk->begin)
			err = walk->begin(walk->ctx, slice);
		if (err)
			return err;
	}
	return advance(&walker, UINT32_MAX, 0, true);
}

/* Up to the next word that has a '='. */
static size_t value_size(const char *value)
{
	size_t size = strcspn(value, " ");

	while (value[size]) {
		const char *word = value + size + 1;

		if (word[strcspn(word, " =")] == '=')
			return size;
		size += 1 + strcspn(word, " ");
	}
	return size;
}

void walk_detail(const char *detail, walk_detail_fn fn, void *ctx)
{
	while (detail && *detail) {
		const size_t key_size = strcspn(detail, "=");
		const char *value = detail + key_size + (detail[key_size] == '=');
		const size_t size = value_size(value);

		fn(ctx, detail, key_size, value, size);
		detail = value + size;
		detail += *detail == ' ';
	}
}

int walk_write_error(FILE *out)
{
	if (!ferror(out))
		return 0;
	return errno ? -errno : -EIO;
}

int walk_flush(FILE *out, int err)
{
	if (!err && fflush(out))
		err = -errno;
	return err ? err : walk_write_error(out);
}
