// SPDX-License-Identifier: GPL-2.0-only
/*
 * activity [MS]: one busy thread and seven that mostly sleep, for MS milliseconds (default 3000);
 * then the busy one calls trigger_here().
 * flags: -static
 */
#include <pthread.h>
#include <time.h>

#include "truth.h"

static volatile int zero, over;
static long run_ms = 3000;

static long now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

NOINLINE void trigger_here(int n)
{
	zero = zero * n;
}

NOINLINE static int busy_work(int n)
{
	int odd = 0;

	for (int i = 0; i < 50; i++)
		odd += (n >> (i & 15)) & 1 ? i : -i;
	return odd + zero;
}

NOINLINE static int idle_work(int n)
{
	return n + zero;
}

static void *be_busy(void *argument)
{
	const long end = now_ms() + run_ms;
	int n = 0;

	while (now_ms() < end)
		n += busy_work(n);
	trigger_here(n);
	over = 1;
	return argument;
}

static void *be_idle(void *argument)
{
	while (!over) {
		idle_work(1);
		usleep(200 * 1000);
	}
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t busy, idle[7];

	if (argc > 1)
		run_ms = atol(argv[1]);
	for (int i = 0; i < 7; i++)
		pthread_create(&idle[i], NULL, be_idle, NULL);
	pthread_create(&busy, NULL, be_busy, NULL);
	pthread_join(busy, NULL);
	for (int i = 0; i < 7; i++)
		pthread_join(idle[i], NULL);
	return 0;
}
