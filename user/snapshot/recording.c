// SPDX-License-Identifier: GPL-2.0-only
#include "snapshot/recording.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/mem.h"

static void event_fini(struct recording_event *event)
{
	if (event->kind == RECORDING_MAP)
		free(event->map.path);
}

void recording_fini(struct recording *recording)
{
	struct recording_event *event;
	struct recording_chunk *chunk;
	struct recording_mapping *mapping;

	vec_for_each(event, &recording->events)
		event_fini(event);
	vec_for_each(chunk, &recording->chunks) {
		if (!chunk->borrowed)
			free(chunk->data);
	}
	vec_for_each(mapping, &recording->mappings)
		munmap(mapping->start, mapping->size);
	vec_free(&recording->events);
	vec_free(&recording->chunks);
	vec_free(&recording->mappings);
	memset(recording, 0, sizeof(*recording));
}

int recording_add_event(struct recording *recording, const struct recording_event *event)
{
	return vec_push(&recording->events, *event);
}

int recording_add_chunk(struct recording *recording, const struct recording_chunk *chunk)
{
	return vec_push(&recording->chunks, *chunk);
}

int recording_map_file(struct recording *recording, int fd, uint8_t **start, uint64_t *size)
{
	struct recording_mapping mapping = { 0 };
	struct stat st;
	int err;

	*start = NULL;
	*size = 0;
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (st.st_size == 0)
		return 0;
	err = vec_reserve(&recording->mappings, 1);
	if (err)
		return err;
	mapping.size = (size_t)st.st_size;
	mapping.start = mmap(NULL, mapping.size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (mapping.start == MAP_FAILED)
		return -errno;
	recording->mappings.data[recording->mappings.len++] = mapping;
	*start = mapping.start;
	*size = mapping.size;
	return 0;
}

/* Merges two sorted neighbours of @from into @to; equal times keep their order. */
static void merge_runs(const struct recording_event *from, struct recording_event *to, size_t begin,
		       size_t middle, size_t end)
{
	size_t left = begin, right = middle;

	for (size_t i = begin; i < end; i++) {
		const bool take_left = left < middle &&
				       (right >= end || from[left].time_ns <= from[right].time_ns);

		to[i] = take_left ? from[left++] : from[right++];
	}
}

static bool is_sorted(const recording_events *events)
{
	for (size_t i = 1; i < events->len; i++) {
		if (events->data[i].time_ns < events->data[i - 1].time_ns)
			return false;
	}
	return true;
}

int recording_sort(struct recording *recording)
{
	recording_events *events = &recording->events;
	struct recording_event *from = events->data, *to;

	if (is_sorted(events))
		return 0;
	to = calloc(events->cap, sizeof(*to));
	if (!to)
		return -ENOMEM;
	for (size_t width = 1; width < events->len; width *= 2) {
		struct recording_event *swap = from;

		for (size_t begin = 0; begin < events->len; begin += 2 * width) {
			const size_t middle =
				begin + width < events->len ? begin + width : events->len;
			const size_t end =
				begin + 2 * width < events->len ? begin + 2 * width : events->len;

			merge_runs(from, to, begin, middle, end);
		}
		from = to;
		to = swap;
	}
	events->data = from;
	free(to);
	return 0;
}
