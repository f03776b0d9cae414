// SPDX-License-Identifier: GPL-2.0-only
/*
 * rebalance [N]: a thread calls marker_before_rebalance(), then N more threads (default 7) come,
 * so that its ring must shrink; then it calls marker_after_rebalance() and trigger_here(). flags:
 * -static
 */
#include <pthread.h>
#include <semaphore.h>

#include "truth.h"

static volatile int zero, over;
static sem_t marked, all_here;

NOINLINE void trigger_here(int n)
{
	TRUTH(trigger_here);
	zero = zero * n;
}

NOINLINE void marker_before_rebalance(int n)
{
	TRUTH(marker_before_rebalance);
	zero = zero * n;
}

NOINLINE void marker_after_rebalance(int n)
{
	TRUTH(marker_after_rebalance);
	zero = zero * n;
}

NOINLINE static void wait_here(sem_t *sem)
{
	while (sem_wait(sem))
		;
}

static void *remember(void *argument)
{
	for (int i = 0; i < 5; i++)
		marker_before_rebalance(i);
	sem_post(&marked);
	wait_here(&all_here);
	for (int i = 0; i < 3; i++)
		marker_after_rebalance(i);
	trigger_here(1);
	over = 1;
	return argument;
}

static void *stay(void *argument)
{
	while (!over)
		usleep(20 * 1000);
	return argument;
}

int main(int argc, char **argv)
{
	const int n = argc > 1 ? atoi(argv[1]) : 7;
	pthread_t first, more[64];

	if (n > 64)
		return 2;
	truth_begin();
	sem_init(&marked, 0, 0);
	sem_init(&all_here, 0, 0);
	pthread_create(&first, NULL, remember, NULL);
	wait_here(&marked);
	for (int i = 0; i < n; i++)
		pthread_create(&more[i], NULL, stay, NULL);
	usleep(300 * 1000);
	sem_post(&all_here);
	pthread_join(first, NULL);
	for (int i = 0; i < n; i++)
		pthread_join(more[i], NULL);
	truth_write();
	return 0;
}
