// SPDX-License-Identifier: GPL-2.0-only
/*
 * victim FILE [THREADS]: a program to attach to. THREADS threads (default 3) call tick() over and
 * over. FILE is mapped and shared with the test: word 0 becomes 1 when all run, word 1 set to 1
 * ends the program with status 42, each further 1 added to word 2 makes one thread call rare()
 * once, word 8 + 8 * i counts the ticks of thread i. Half of the threads sleep a little between
 * ticks. It ends by itself after ten minutes.
 */
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "truth.h"

static volatile uint64_t *words;
static __thread volatile int zero; /* nothing shared: the speed is measured */
static uint64_t answered;

NOINLINE void rare(long thread)
{
	zero = zero * (int)thread;
}

NOINLINE static int part(int n)
{
	return n + zero;
}

NOINLINE void tick(long thread)
{
	int sum = 0;

	for (int i = 0; i < 20; i++)
		sum += part(i);
	words[8 + 8 * thread]++;
	zero = zero * sum;
}

static void *live(void *argument)
{
	const long me = (long)argument;

	while (!words[1]) {
		tick(me);
		if (me % 2)
			usleep(1000);
		if (me == 0 && words[2] != answered) {
			answered++;
			rare(me);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	const long n = argc > 2 ? atol(argv[2]) : 3;
	pthread_t threads[32];
	int fd;

	if (argc < 2 || n < 1 || n > 32)
		return 2;
	fd = open(argv[1], O_RDWR | O_CLOEXEC);
	words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (words == MAP_FAILED)
		return 3;
	prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
	alarm(600);
	for (long i = 1; i < n; i++)
		pthread_create(&threads[i], NULL, live, (void *)i);
	words[0] = 1;
	live((void *)0L);
	for (long i = 1; i < n; i++)
		pthread_join(threads[i], NULL);
	return 42;
}
