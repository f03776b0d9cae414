// SPDX-License-Identifier: GPL-2.0-only
/*
 * soft_probes: functions to probe at their first instruction, next to it and inside loops, called
 * known numbers of times, some while SIGTRAP is blocked or has a handler. The numbers: one() 299,
 * two() 199, three() 200, blocked() 10, looping() 1 with 50 rounds.
 */
#include <signal.h>
#include <stdio.h>

#define NOINLINE __attribute__((noinline, noclone, used))

static volatile int traps;

NOINLINE int one(int x)
{
	__asm__ volatile("");
	return x + 1;
}

NOINLINE int two(int x)
{
	__asm__ volatile("push %%rbx\n\tmov %%edi, %%ebx\n\tpop %%rbx" : : : "memory");
	return one(x) * 3;
}

NOINLINE int three(int x)
{
	if (x & 1)
		return two(x);
	return one(x + 1) + two(x);
}

NOINLINE int blocked(int x)
{
	__asm__ volatile("");
	return x * 7;
}

/* A label to probe inside the loop, on a branch target. */
NOINLINE int looping(int n)
{
	int sum = 0;

	__asm__ volatile(".globl loop_head\n\t"
			 ".type loop_head, @function\n"
			 "loop_head:\n\t"
			 "addl %1, %0\n\t"
			 "decl %1\n\t"
			 "jnz loop_head\n\t"
			 ".size loop_head, . - loop_head"
			 : "+r"(sum), "+r"(n));
	return sum;
}

static void on_trap(int sig)
{
	(void)sig;
	traps++;
}

int main(void)
{
	struct sigaction action = { .sa_handler = on_trap };
	sigset_t set;
	int sum = 0;

	sigaction(SIGTRAP, &action, NULL);
	for (int i = 0; i < 100; i++)
		sum += three(i);
	sigemptyset(&set);
	sigaddset(&set, SIGTRAP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	for (int i = 0; i < 10; i++)
		sum += blocked(i);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	sum += looping(50);
	raise(SIGTRAP);
	for (int i = 100; i < 199; i++)
		sum += three(i);
	sum += three(199);
	printf("%d\n", sum);
	return traps == 1 ? 0 : 1;
}
