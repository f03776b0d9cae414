// SPDX-License-Identifier: GPL-2.0-only
#include "calls/timeline.h"

#include <stdlib.h>
#include <string.h>

static void thread_fini(struct thread_timeline *thread)
{
	struct instant *instant;

	vec_for_each(instant, &thread->instants) {
		free(instant->name);
		free(instant->detail);
	}
	vec_free(&thread->instants);
	vec_free(&thread->slices);
	vec_free(&thread->gaps);
}

void timeline_fini(struct timeline *timeline)
{
	struct thread_timeline *thread;
	struct timeline_name *name;

	vec_for_each(thread, &timeline->threads)
		thread_fini(thread);
	vec_free(&timeline->threads);
	vec_for_each(name, &timeline->names) {
		free(name->function);
		free(name->mangled);
		free(name->object);
	}
	vec_free(&timeline->names);
	free(timeline->command);
	free(timeline->unit);
	memset(timeline, 0, sizeof(*timeline));
}
