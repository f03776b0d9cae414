// SPDX-License-Identifier: GPL-2.0-only
/*
 * soft_affinity: the CPUs a thread may run on are what it set, not what a tracer did. Exits with
 * the number of the first check that failed.
 *
 * flags: -static
 */
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int cpus(void)
{
	cpu_set_t set;

	return sched_getaffinity(0, sizeof(set), &set) ? -1 : CPU_COUNT(&set);
}

/* What the kernel says without a system call that a tracer could answer. */
static int cpus_of_child(void)
{
	int status;
	const pid_t pid = fork();

	if (pid == 0) {
		usleep(1000);
		_exit(cpus());
	}
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void *in_thread(void *argument)
{
	*(int *)argument = cpus();
	return NULL;
}

int main(void)
{
	const int all = (int)sysconf(_SC_NPROCESSORS_ONLN);
	pthread_t thread;
	cpu_set_t one, set;
	int seen = 0;

	if (cpus() != all)
		return 1;
	if (cpus_of_child() != all)
		return 2;
	pthread_create(&thread, NULL, in_thread, &seen);
	pthread_join(thread, NULL);
	if (seen != all)
		return 3;
	CPU_ZERO(&one);
	CPU_SET(all - 1, &one);
	if (sched_setaffinity(0, sizeof(one), &one))
		return 4;
	if (sched_getaffinity(0, sizeof(set), &set) || !CPU_EQUAL(&set, &one))
		return 5;
	if (cpus_of_child() != 1)
		return 6;
	return 0;
}
