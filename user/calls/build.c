// SPDX-License-Identifier: GPL-2.0-only
#include "calls/build.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "calls/calls.h"
#include "calls/namer.h"
#include "decode/parallel.h"

/* How far back a thread's name is looked for through its ancestors. */
#define COMM_DEPTH 8
/* More than any clock fit errs. */
#define FIRE_SKEW_NS 100000

struct worker {
	struct thread_timeline *out;
	struct namer *namer;
	struct calls *calls;
	uint64_t end_ns;
	VEC(uint64_t) execs;
};

static void workers_free(struct worker *workers, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		calls_free(workers[i].calls);
		namer_free(workers[i].namer);
		vec_free(&workers[i].execs);
	}
	free(workers);
}

static int feed(void *ctx, const struct branch *branches, size_t n)
{
	const struct worker *worker = ctx;

	return calls_feed(worker->calls, branches, n);
}

static int finish(void *ctx)
{
	struct worker *worker = ctx;
	const int err = calls_finish(worker->calls, worker->end_ns);

	calls_free(worker->calls);
	worker->calls = NULL;
	namer_drop_cache(worker->namer);
	return err;
}

static const struct recording_chunk *first_chunk(const struct recording *recording, pid_t tid)
{
	const struct recording_chunk *chunk;

	vec_for_each(chunk, &recording->chunks) {
		if (chunk->tid == tid)
			return chunk;
	}
	return NULL;
}

/* The name that @tid had last; a new thread has its parent's. */
static void find_comm(const struct recording *recording, pid_t tid, uint64_t until_ns, int depth,
		      char comm[16])
{
	const struct recording_event *event, *fork = NULL;
	bool found = false;

	vec_for_each(event, &recording->events) {
		if (event->tid != tid || event->time_ns > until_ns)
			continue;
		if (event->kind == RECORDING_COMM) {
			memcpy(comm, event->comm.name, sizeof(event->comm.name));
			comm[15] = '\0';
			found = true;
		} else if (event->kind == RECORDING_FORK) {
			fork = event;
		}
	}
	if (!found && fork && depth < COMM_DEPTH)
		find_comm(recording, fork->parent.parent_tid, fork->time_ns, depth + 1, comm);
}

static int add_exec(struct thread_timeline *out, const struct recording_event *event)
{
	struct instant instant = { .time_ns = event->time_ns, .name = strdup("exec") };
	int err = -ENOMEM;

	if (instant.name && asprintf(&instant.detail, "comm=%.15s", event->comm.name) >= 0)
		err = vec_push(&out->instants, instant);
	if (err) {
		free(instant.name);
		free(instant.detail);
	}
	return err;
}

/* What the side-band says of the thread: name, execs, birth, exit. */
static int read_events(const struct recording *recording, struct worker *worker,
		       struct calls_options *options)
{
	struct thread_timeline *out = worker->out;
	const struct recording_chunk *chunk = first_chunk(recording, out->tid);
	const struct recording_event *event;
	int err = 0;

	options->from_birth = chunk && chunk->join == RECORDING_JOIN_BIRTH;
	vec_for_each(event, &recording->events) {
		if (event->kind == RECORDING_COMM && event->comm.exec && event->pid == out->pid) {
			err = vec_push(&worker->execs, event->time_ns);
			if (!err && event->tid == out->tid)
				err = add_exec(out, event);
		}
		if (err)
			return err;
		if (event->tid != out->tid)
			continue;
		if (event->kind == RECORDING_EXIT)
			worker->end_ns = event->time_ns;
		/* A new process begins in the middle of its parent's stack. */
		if (event->kind == RECORDING_FORK && event->parent.parent_pid != event->pid)
			options->from_birth = false;
	}
	find_comm(recording, out->tid, UINT64_MAX, 0, out->comm);
	options->execs = worker->execs.data;
	options->n_execs = worker->execs.len;
	return 0;
}

static int prepare(const struct recording *recording, const struct space *space, pid_t tid,
		   uint64_t end_ns, struct thread_timeline *out, struct worker *worker)
{
	const struct recording_chunk *chunk = first_chunk(recording, tid);
	struct calls_options options = { .lookup = namer_look_up };
	int err;

	*out = (struct thread_timeline){ .tid = tid, .pid = chunk ? chunk->pid : tid };
	worker->out = out;
	worker->end_ns = end_ns;
	err = read_events(recording, worker, &options);
	if (!err)
		err = namer_new(space, out->pid, &worker->namer);
	options.lookup_ctx = worker->namer;
	return err ? err : calls_new(out, &options, &worker->calls);
}

static void take_stats(struct thread_timeline *out, const struct decode_thread_stats *stats)
{
	out->instructions = stats->instructions;
	out->branches = stats->branches;
	out->bytes = stats->bytes;
	out->error_gaps = stats->error_gaps;
	out->first_ns = stats->first_ns;
	out->last_ns = stats->last_ns;
}

static void names_freep(struct names **names)
{
	names_free(*names);
}

static int run(const struct recording *recording, const struct space *space,
	       const struct build_options *options, struct timeline *timeline,
	       struct worker *workers)
{
	const size_t n = timeline->threads.len;
	const struct decode_options decode = {
		.workers = options->workers,
		.progress = options->progress,
		.progress_ctx = options->progress_ctx,
	};
	scoped_free struct decode_job *jobs = calloc(n + 1, sizeof(*jobs));
	scoped(names_freep) struct names *names = NULL;
	int err;

	if (!jobs)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		jobs[i] = (struct decode_job){
			.tid = timeline->threads.data[i].tid,
			.fn = feed,
			.ctx = &workers[i],
			.finish = finish,
		};
	}
	err = decode_parallel(recording, space, jobs, n, &decode);
	if (!err)
		err = names_new(timeline, &names);
	for (size_t i = 0; i < n && !err; i++) {
		take_stats(&timeline->threads.data[i], &jobs[i].stats);
		err = names_add(names, workers[i].namer, &timeline->threads.data[i]);
	}
	return err;
}

int timeline_build(const struct recording *recording, const struct space *space,
		   const struct build_options *options, struct timeline *timeline)
{
	static const struct build_options defaults;
	scoped_free pid_t *tids = NULL;
	struct worker *workers;
	size_t n = 0;
	int err;

	memset(timeline, 0, sizeof(*timeline));
	options = options ? options : &defaults;
	err = decode_tids(recording, &tids, &n);
	if (!err)
		err = vec_reserve(&timeline->threads, n + 1);
	workers = err ? NULL : calloc(n + 1, sizeof(*workers));
	if (!workers)
		return err ? err : -ENOMEM;
	timeline->threads.len = n;
	memset(timeline->threads.data, 0, n * sizeof(*timeline->threads.data));
	for (size_t i = 0; i < n && !err; i++)
		err = prepare(recording, space, tids[i], options->end_ns,
			      &timeline->threads.data[i], &workers[i]);
	if (!err)
		err = run(recording, space, options, timeline, workers);
	workers_free(workers, n);
	return err;
}

static int compare_instants(const void *a, const void *b)
{
	const struct instant *x = a, *y = b;

	return x->time_ns < y->time_ns ? -1 : x->time_ns > y->time_ns;
}

/*
 * The firing thread did nothing after the fire: times beyond it come from the fit between the two
 * clocks, and would show the fire before the call that it is in.
 */
static void end_at_fire(struct thread_timeline *thread, uint64_t time_ns)
{
	struct slice *slice;

	vec_for_each(slice, &thread->slices) {
		if (slice->end_ns > time_ns + FIRE_SKEW_NS)
			return;
	}
	vec_for_each(slice, &thread->slices) {
		slice->begin_ns = slice->begin_ns < time_ns ? slice->begin_ns : time_ns;
		slice->end_ns = slice->end_ns < time_ns ? slice->end_ns : time_ns;
		slice->self_ns = slice->end_ns - slice->begin_ns;
		if (slice->parent != UINT32_MAX)
			thread->slices.data[slice->parent].self_ns -= slice->self_ns;
	}
	if (thread->last_ns > time_ns)
		thread->last_ns = time_ns;
}

int timeline_add_fire(struct timeline *timeline, pid_t tid, uint64_t time_ns, const char *detail)
{
	struct instant instant = { .time_ns = time_ns };
	struct thread_timeline *thread;

	timeline->trigger_ns = time_ns;
	vec_for_each(thread, &timeline->threads) {
		if (thread->tid != tid)
			continue;
		thread->fired = true;
		end_at_fire(thread, time_ns);
		instant.name = strdup("fire");
		instant.detail = detail ? strdup(detail) : NULL;
		if (instant.name && (!detail || instant.detail) &&
		    !vec_push(&thread->instants, instant)) {
			qsort(thread->instants.data, thread->instants.len,
			      sizeof(*thread->instants.data), compare_instants);
			return 0;
		}
		free(instant.name);
		free(instant.detail);
		return -ENOMEM;
	}
	return 0;
}

void timeline_count(const struct timeline *timeline, struct timeline_totals *totals)
{
	const struct thread_timeline *thread;

	*totals = (struct timeline_totals){ .threads = timeline->threads.len };
	vec_for_each(thread, &timeline->threads) {
		totals->slices += thread->slices.len;
		totals->inferred += thread->inferred;
		totals->instructions += thread->instructions;
		totals->branches += thread->branches;
		totals->gaps += thread->gaps.len;
		totals->error_gaps += thread->error_gaps;
	}
}
