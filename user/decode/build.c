// SPDX-License-Identifier: GPL-2.0-only
/* What the side-band says about address spaces and threads. */
#include "decode/decode.h"

#include <errno.h>
#include <stdlib.h>

#include "base/vec.h"

static int add_map(struct space *space, const struct recording_event *event)
{
	const struct recording_map *map = &event->map;
	struct space_map_request request = {
		.pid = event->pid,
		.addr = map->addr,
		.len = map->len,
		.pgoff = map->pgoff,
		.time_ns = event->time_ns,
		.path = map->path ? map->path : "",
		.build_id = map->build_id,
		.build_id_size = map->build_id_size,
	};

	/* The kernel's own mappings (pid -1) are not code of a thread. */
	return event->pid < 0 ? 0 : space_map(space, &request);
}

int decode_build_space(const struct recording *recording, struct space *space)
{
	const struct recording_event *event;
	int err = 0;

	vec_for_each(event, &recording->events) {
		switch (event->kind) {
		case RECORDING_MAP:
			err = add_map(space, event);
			break;
		case RECORDING_COMM:
			if (event->comm.exec)
				err = space_exec(space, event->pid, event->time_ns);
			break;
		case RECORDING_FORK:
			if (event->pid != event->parent.parent_pid)
				err = space_fork(space, event->parent.parent_pid, event->pid,
						 event->time_ns);
			break;
		case RECORDING_EXIT:
			break;
		}
		if (err)
			return err;
	}
	return 0;
}

struct thread_id {
	pid_t pid, tid;
};

static int compare_pids(const void *a_, const void *b_)
{
	const struct thread_id *a = a_, *b = b_;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int compare_tids(const void *a_, const void *b_)
{
	const struct thread_id *a = a_, *b = b_;

	if (a->tid != b->tid)
		return a->tid < b->tid ? -1 : 1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

int decode_tids(const struct recording *recording, pid_t **tids, size_t *n)
{
	const struct recording_chunk *chunk;
	VEC(struct thread_id) ids = { 0 };
	size_t kept = 0;

	*n = 0;
	*tids = calloc(recording->chunks.len + 1, sizeof(**tids));
	if (!*tids || vec_reserve(&ids, recording->chunks.len + 1)) {
		free(*tids);
		return -ENOMEM;
	}
	vec_for_each(chunk, &recording->chunks)
		ids.data[ids.len++] = (struct thread_id){ chunk->pid, chunk->tid };
	/* A tid whose pid changed is one thread to decode_thread(). */
	qsort(ids.data, ids.len, sizeof(*ids.data), compare_tids);
	for (size_t i = 0; i < ids.len; i++) {
		if (!kept || ids.data[i].tid != ids.data[kept - 1].tid)
			ids.data[kept++] = ids.data[i];
	}
	qsort(ids.data, kept, sizeof(*ids.data), compare_pids);
	for (size_t i = 0; i < kept; i++)
		(*tids)[i] = ids.data[i].tid;
	vec_free(&ids);
	*n = kept;
	return 0;
}
