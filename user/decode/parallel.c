// SPDX-License-Identifier: GPL-2.0-only
#include "decode/parallel.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/mem.h"
#include "decode/engine.h"

struct pool {
	const struct recording *recording;
	const struct space *space;
	struct decode_job *jobs;
	const size_t *order; /* the longest traces first, so that workers end together */
	size_t n, next;
	pthread_mutex_t lock;
	size_t done;
	const struct decode_options *options;
};

static void run_job(struct pool *pool, struct engine *engine, struct decode_job *job)
{
	job->result = engine_decode(engine, job->tid, job->fn, job->ctx, &job->stats);
	if (!job->result && job->finish)
		job->result = job->finish(job->ctx);
	if (!pool->options || !pool->options->progress)
		return;
	pthread_mutex_lock(&pool->lock);
	pool->options->progress(pool->options->progress_ctx, ++pool->done, pool->n);
	pthread_mutex_unlock(&pool->lock);
}

static void *work(void *pool_)
{
	struct pool *pool = pool_;
	struct engine engine;
	size_t next;

	/* Jobs that no worker could take keep their -ENOMEM. */
	if (engine_init(&engine, pool->recording, pool->space))
		return NULL;
	while ((next = __atomic_fetch_add(&pool->next, 1, __ATOMIC_RELAXED)) < pool->n)
		run_job(pool, &engine, &pool->jobs[pool->order[next]]);
	engine_fini(&engine);
	return NULL;
}

static unsigned int count_cpus(void)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		return 1;
	return (unsigned int)CPU_COUNT(&cpus);
}

struct job_size {
	uint64_t bytes;
	size_t job;
	pid_t tid;
};

static int compare_tids(const void *a_, const void *b_)
{
	const struct job_size *a = a_, *b = b_;

	return a->tid < b->tid ? -1 : a->tid > b->tid;
}

static int compare_sizes(const void *a_, const void *b_)
{
	const struct job_size *a = a_, *b = b_;

	if (a->bytes != b->bytes)
		return a->bytes > b->bytes ? -1 : 1;
	return a->job < b->job ? -1 : a->job > b->job;
}

/* The order to take jobs in. NULL: no memory. */
static size_t *order_jobs(const struct recording *recording, const struct decode_job *jobs,
			  size_t n)
{
	scoped_free struct job_size *sizes = calloc(n, sizeof(*sizes));
	scoped_free size_t *order = calloc(n, sizeof(*order));
	const struct recording_chunk *chunk;

	if (!sizes || !order)
		return NULL;
	for (size_t i = 0; i < n; i++)
		sizes[i] = (struct job_size){ 0, i, jobs[i].tid };
	qsort(sizes, n, sizeof(*sizes), compare_tids);
	vec_for_each(chunk, &recording->chunks) {
		struct job_size key = { .tid = chunk->tid }, *found;

		found = bsearch(&key, sizes, n, sizeof(key), compare_tids);
		if (found)
			found->bytes += chunk->size;
	}
	qsort(sizes, n, sizeof(*sizes), compare_sizes);
	for (size_t i = 0; i < n; i++)
		order[i] = sizes[i].job;
	return TAKE_PTR(order);
}

static void run_pool(struct pool *pool, size_t workers)
{
	scoped_free pthread_t *threads = calloc(workers, sizeof(*threads));
	size_t started = 0;

	/* This thread is a worker too: with one it is all that runs. */
	while (threads && started + 1 < workers &&
	       !pthread_create(&threads[started], NULL, work, pool))
		started++;
	work(pool);
	for (size_t i = 0; i < started; i++)
		pthread_join(threads[i], NULL);
}

int decode_parallel(const struct recording *recording, const struct space *space,
		    struct decode_job *jobs, size_t n, const struct decode_options *options)
{
	scoped_free size_t *order = NULL;
	struct pool pool = {
		.recording = recording,
		.space = space,
		.jobs = jobs,
		.n = n,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.options = options,
	};
	size_t workers = options && options->workers ? options->workers : count_cpus();

	if (!n)
		return 0;
	order = order_jobs(recording, jobs, n);
	if (!order)
		return -ENOMEM;
	pool.order = order;
	for (size_t i = 0; i < n; i++)
		jobs[i].result = -ENOMEM;
	run_pool(&pool, workers < n ? workers : n);
	pthread_mutex_destroy(&pool.lock);
	for (size_t i = 0; i < n; i++) {
		if (jobs[i].result)
			return jobs[i].result;
	}
	return 0;
}
