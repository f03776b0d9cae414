// SPDX-License-Identifier: GPL-2.0-only
/*
 * One thread looks at what another one changes all the time, before and after an instruction that
 * takes long: a tracer that computes ahead must not let the other run meanwhile, or must notice.
 */
#include <pthread.h>

#include "truth.h"

#define ROUNDS 12
#define LONG_BYTES (32u << 20)

static char bytes[LONG_BYTES];
static volatile unsigned int beats, stopped, sum;

NOINLINE static void moved(void)
{
	TRUTH(moved);
	sum += 3;
}

NOINLINE static void still(void)
{
	TRUTH(still);
	sum += 1;
}

NOINLINE static void look(void)
{
	TRUTH(look);
	const unsigned int before = beats;
	const char *at = bytes;
	unsigned long n = sizeof(bytes);

	__asm__ volatile("rep lodsb" : "+S"(at), "+c"(n) : : "rax", "memory");
	if (beats != before)
		moved();
	else
		still();
}

static void *beat(void *argument)
{
	while (!stopped)
		beats++;
	return argument;
}

int main(void)
{
	pthread_t thread;

	truth_begin();
	if (pthread_create(&thread, NULL, beat, NULL))
		return 1;
	while (!beats)
		;
	for (int i = 0; i < ROUNDS; i++)
		look();
	stopped = 1;
	pthread_join(thread, NULL);
	truth_write();
	return sum < ROUNDS;
}
