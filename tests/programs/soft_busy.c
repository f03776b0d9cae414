// SPDX-License-Identifier: GPL-2.0-only
/*
 * soft_busy FILE SECONDS: threads that compute, sleep, wait for events, use SIGTRAP and come and
 * go, until the time is over. FILE holds their progress as u64 counters: computed, slept, waited,
 * threads made, things that went wrong (a call cut short, a stray signal). Exits 1 when something
 * did.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { COMPUTED, SLEPT, WAITED, MADE, WRONG, COUNTERS };

static volatile uint64_t *counters;
static volatile int over, traps;

__attribute__((noinline)) static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= 0xff51afd7ed558ccdull;
	return x ^ x >> 29;
}

static void *compute(void *argument)
{
	uint64_t x = (uint64_t)(uintptr_t)&argument;

	while (!over) {
		for (int i = 0; i < 100; i++)
			x = mix(x);
		counters[COMPUTED] += 1 + (x == 0);
	}
	return NULL;
}

static void *sleep_often(void *argument)
{
	const struct timespec pause = { 0, 2000000 };

	while (!over) {
		if (nanosleep(&pause, NULL))
			counters[WRONG]++;
		counters[SLEPT]++;
	}
	return argument;
}

static void *wait_for_events(void *argument)
{
	const int fd = epoll_create1(0);
	struct epoll_event event;

	while (!over) {
		if (epoll_wait(fd, &event, 1, 20) != 0)
			counters[WRONG]++;
		counters[WAITED]++;
	}
	return argument;
}

static void on_trap(int sig)
{
	(void)sig;
	traps++;
}

/* The handler must still be there, however the thread was made and stepped. */
static void *short_thread(void *argument)
{
	const int before = traps;

	__asm__ volatile("int3");
	raise(SIGTRAP);
	return traps == before + 2 ? argument : NULL;
}

int main(int argc, char **argv)
{
	const time_t end = time(NULL) + (argc > 2 ? atoi(argv[2]) : 10);
	struct sigaction action = { .sa_handler = on_trap };
	pthread_t threads[3], thread;
	const int fd = argc > 1 ? open(argv[1], O_RDWR | O_CREAT, 0600) : -1;

	if (fd < 0 || ftruncate(fd, 4096))
		return 2;
	counters = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (counters == MAP_FAILED)
		return 2;
	sigaction(SIGTRAP, &action, NULL);
	pthread_create(&threads[0], NULL, compute, NULL);
	pthread_create(&threads[1], NULL, sleep_often, NULL);
	pthread_create(&threads[2], NULL, wait_for_events, NULL);
	while (time(NULL) < end) {
		void *back = NULL;

		if (pthread_create(&thread, NULL, short_thread, threads) == 0)
			pthread_join(thread, &back);
		if (back != threads)
			counters[WRONG]++;
		counters[MADE]++;
		usleep(500);
	}
	over = 1;
	for (int i = 0; i < 3; i++)
		pthread_join(threads[i], NULL);
	return counters[WRONG] != 0;
}
