// SPDX-License-Identifier: GPL-2.0-only
/*
 * A program that uses SIGTRAP itself: raise, int3, handler surviving pthread_create, blocked and
 * unblocked, alone and with another signal, blocked by sigsuspend() only, ignored. Exits with the
 * number of the first check that failed.
 * flags: -static
 */
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

#include "truth.h"

static volatile int traps, others, zero;

NOINLINE static void on_trap(int sig)
{
	TRUTH(on_trap);
	traps += sig == SIGTRAP;
}

NOINLINE static void on_other(int sig)
{
	TRUTH(on_other);
	others += sig == SIGUSR1 || sig == SIGALRM;
}

NOINLINE static void *in_thread(void *argument)
{
	TRUTH(in_thread);
	__asm__ volatile("int3");
	return argument;
}

NOINLINE static int spawn_and_trap(void)
{
	TRUTH(spawn_and_trap);
	pthread_t thread;

	if (pthread_create(&thread, NULL, in_thread, NULL))
		return 0;
	pthread_join(thread, NULL);
	__asm__ volatile("int3");
	return 1;
}

NOINLINE static int blocked_trap(void)
{
	TRUTH(blocked_trap);
	const int before = traps;
	sigset_t set, pending;

	sigemptyset(&set);
	sigaddset(&set, SIGTRAP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGTRAP);
	for (int i = 0; i < 20; i++)
		zero = zero * i;
	sigpending(&pending);
	if (traps != before || !sigismember(&pending, SIGTRAP))
		return 0;
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return traps == before + 1;
}

NOINLINE static int two_at_once(void)
{
	TRUTH(two_at_once);
	const int before = traps;
	sigset_t set;

	signal(SIGUSR1, on_other);
	sigemptyset(&set);
	sigaddset(&set, SIGTRAP);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGUSR1);
	raise(SIGTRAP);
	for (int i = 0; i < 20; i++)
		zero = zero * i;
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	return traps == before + 1 && others == 1;
}

/* All but the alarm is blocked while it waits, SIGTRAP too. */
NOINLINE static int waits_masked(void)
{
	TRUTH(waits_masked);
	const struct itimerval soon = { .it_value.tv_usec = 100000 };
	sigset_t all, alarms;

	others = 0;
	signal(SIGALRM, on_other);
	sigemptyset(&alarms);
	sigaddset(&alarms, SIGALRM);
	sigprocmask(SIG_BLOCK, &alarms, NULL);
	sigfillset(&all);
	sigdelset(&all, SIGALRM);
	setitimer(ITIMER_REAL, &soon, NULL);
	sigsuspend(&all);
	sigprocmask(SIG_UNBLOCK, &alarms, NULL);
	return others == 1;
}

NOINLINE static int ignored_trap(void)
{
	TRUTH(ignored_trap);
	struct sigaction old;

	signal(SIGTRAP, SIG_IGN);
	raise(SIGTRAP);
	for (int i = 0; i < 20; i++)
		zero = zero * i;
	sigaction(SIGTRAP, NULL, &old);
	if (old.sa_handler != SIG_IGN)
		return 0;
	signal(SIGTRAP, on_trap);
	return 1;
}

NOINLINE static int still_ours(void)
{
	TRUTH(still_ours);
	struct sigaction old;
	const int before = traps;

	sigaction(SIGTRAP, NULL, &old);
	raise(SIGTRAP);
	return old.sa_handler == on_trap && traps == before + 1;
}

int main(void)
{
	int status = 0;

	truth_begin();
	signal(SIGTRAP, on_trap);
	raise(SIGTRAP);
	if (traps != 1)
		status = 1;
	else if (!spawn_and_trap() || traps != 3)
		status = 2;
	else if (!still_ours())
		status = 3;
	else if (!blocked_trap())
		status = 4;
	else if (!two_at_once())
		status = 5;
	else if (!waits_masked() || !still_ours())
		status = 6;
	else if (!ignored_trap())
		status = 7;
	else if (!still_ours())
		status = 8;
	truth_write();
	return status;
}
