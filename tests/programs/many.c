// SPDX-License-Identifier: GPL-2.0-only
/*
 * many [N]: N threads (default 1000) that live at once; each works a little, then waits until all
 * are there; then thread 500 (or the last) calls trigger_here() and all end.
 * flags: -static
 */
#include <pthread.h>

#include "truth.h"

static pthread_barrier_t all_here;
static volatile int zero, sum;
static long n_threads = 1000;

NOINLINE void trigger_here(long thread)
{
	TRUTH(trigger_here);
	sum = (int)thread + zero;
}

NOINLINE static int small_work(int n)
{
	TRUTH(small_work);
	return n + zero;
}

static void *live(void *argument)
{
	const long me = (long)argument;

	small_work((int)me);
	pthread_barrier_wait(&all_here);
	small_work((int)me);
	if (me == (n_threads > 500 ? 500 : n_threads - 1))
		trigger_here(me);
	pthread_barrier_wait(&all_here);
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_attr_t attr;
	pthread_t *threads;

	if (argc > 1)
		n_threads = atoi(argv[1]);
	threads = calloc((size_t)n_threads, sizeof(*threads));
	truth_begin();
	pthread_barrier_init(&all_here, NULL, (unsigned int)n_threads);
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 64 * 1024);
	for (long i = 0; i < n_threads; i++) {
		if (pthread_create(&threads[i], &attr, live, (void *)i))
			return 1;
	}
	for (long i = 0; i < n_threads; i++)
		pthread_join(threads[i], NULL);
	truth_write();
	return 0;
}
