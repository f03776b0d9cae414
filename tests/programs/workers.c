// SPDX-License-Identifier: GPL-2.0-only
/*
 * workers [SHORT [JOBS]]: eight workers take jobs from a queue each, SHORT threads (default 200)
 * come and go meanwhile; then one job makes worker 3 call trigger_here() through a known chain.
 * Nothing of after_trigger() may be in a snapshot of that fire.
 * flags: -static
 */
#include <pthread.h>
#include <stdio.h>
#include <sys/prctl.h>

#include "truth.h"

#define WORKERS 8

struct queue {
	pthread_mutex_t lock;
	pthread_cond_t filled;
	int jobs, special, closed;
	int done;
};

static struct queue queues[WORKERS];
static volatile int zero, fired;

NOINLINE void trigger_here(long worker, long job)
{
	TRUTH(trigger_here);
	fired = (int)(worker + job) + zero;
}

NOINLINE static void after_trigger(void)
{
	TRUTH(after_trigger);
	fired = fired + zero;
}

NOINLINE static void slow_path(long worker, long job)
{
	TRUTH(slow_path);
	trigger_here(worker, job);
	after_trigger();
}

NOINLINE static int fast_path(int n)
{
	TRUTH(fast_path);
	int sum = 0;

	for (int i = 0; i < 10; i++)
		sum += i * n;
	return sum + zero;
}

NOINLINE static void handle_job(long worker, int special)
{
	TRUTH(handle_job);
	fast_path((int)worker);
	if (special)
		slow_path(worker, 77);
}

NOINLINE static int next_job(struct queue *queue)
{
	TRUTH(next_job);
	int job = 0;

	pthread_mutex_lock(&queue->lock);
	while (!queue->jobs && !queue->special && !queue->closed)
		pthread_cond_wait(&queue->filled, &queue->lock);
	if (queue->jobs) {
		queue->jobs--;
		job = 1;
	} else if (queue->special) {
		queue->special = 0;
		job = 2;
	}
	pthread_mutex_unlock(&queue->lock);
	return job;
}

NOINLINE static void *work(void *argument)
{
	TRUTH(work);
	const long me = (long)argument;
	char name[16];
	int job;

	snprintf(name, sizeof(name), "worker-%ld", me);
	prctl(PR_SET_NAME, name);
	while ((job = next_job(&queues[me]))) {
		handle_job(me, job == 2);
		__atomic_fetch_add(&queues[me].done, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

NOINLINE static void *live_shortly(void *argument)
{
	TRUTH(live_shortly);
	return (void *)(long)fast_path((int)(long)argument);
}

static void give(struct queue *queue, int jobs, int special, int closed)
{
	pthread_mutex_lock(&queue->lock);
	queue->jobs += jobs;
	queue->special += special;
	queue->closed |= closed;
	pthread_cond_signal(&queue->filled);
	pthread_mutex_unlock(&queue->lock);
}

static void await_done(int jobs)
{
	for (int i = 0; i < WORKERS; i++) {
		while (__atomic_load_n(&queues[i].done, __ATOMIC_ACQUIRE) < jobs)
			usleep(1000);
	}
}

int main(int argc, char **argv)
{
	const int n_short = argc > 1 ? atoi(argv[1]) : 200;
	const int jobs = argc > 2 ? atoi(argv[2]) : 5;
	pthread_t workers[WORKERS], brief[4];

	truth_begin();
	for (long i = 0; i < WORKERS; i++) {
		pthread_mutex_init(&queues[i].lock, NULL);
		pthread_cond_init(&queues[i].filled, NULL);
		pthread_create(&workers[i], NULL, work, (void *)i);
	}
	for (int i = 0; i < WORKERS; i++)
		give(&queues[i], jobs, 0, 0);
	for (long i = 0; i < n_short; i += 4) {
		for (long k = 0; k < 4; k++)
			pthread_create(&brief[k], NULL, live_shortly, (void *)(i + k));
		for (int k = 0; k < 4; k++)
			pthread_join(brief[k], NULL);
	}
	await_done(jobs);
	give(&queues[3], 0, 1, 0);
	while (!fired)
		usleep(1000);
	for (int i = 0; i < WORKERS; i++)
		give(&queues[i], 0, 0, 1);
	for (int i = 0; i < WORKERS; i++)
		pthread_join(workers[i], NULL);
	truth_write();
	return 0;
}
