// SPDX-License-Identifier: GPL-2.0-only
/*
 * serves [orphan]: calls serve(i, -i) and assist(i) for i = 1..12, then serve(100, 0) in a thread
 * named "picky". With "orphan" the main thread ends first, and a worker does all that. Nobody here
 * counts anything: it is for triggers with conditions.
 *
 * flags: -static
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define NOINLINE __attribute__((noipa))

static volatile int sink;

NOINLINE int serve(int number, int negative)
{
	sink += number * negative;
	return sink;
}

NOINLINE int assist(int number)
{
	sink ^= number;
	return sink;
}

static void *picky(void *unused)
{
	(void)unused;
	prctl(PR_SET_NAME, "picky");
	serve(100, 0);
	return NULL;
}

static void *work(void *orphan)
{
	pthread_t thread;

	if (orphan)
		usleep(700000); /* the main thread is gone, and everybody may have noticed */
	for (int i = 1; i <= 12; i++) {
		serve(i, -i);
		assist(i);
	}
	if (pthread_create(&thread, NULL, picky, NULL))
		abort();
	pthread_join(thread, NULL);
	return NULL;
}

int main(int argc, char **argv)
{
	static char orphan[] = "orphan";
	pthread_t thread;

	if (argc < 2 || strcmp(argv[1], orphan)) {
		work(NULL);
		return 0;
	}
	if (pthread_create(&thread, NULL, work, orphan))
		abort();
	pthread_exit(NULL);
}
