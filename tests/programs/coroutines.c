// SPDX-License-Identifier: GPL-2.0-only
/*
 * Two coroutines by makecontext and swapcontext, which take turns in the middle of their calls.
 * Only the counts of the log are of use: the two interleave.
 * flags: -static
 */
#include <ucontext.h>

#include "truth.h"

static volatile int zero;
static ucontext_t scheduler, contexts[2];
static char stacks[2][65536];
static int finished;

NOINLINE static void leaf(int n)
{
	TRUTH(leaf);
	zero = zero * n;
}

NOINLINE static void yield_from(int who)
{
	swapcontext(&contexts[who], &scheduler);
}

NOINLINE static void work_a(int depth)
{
	TRUTH(work_a);
	leaf(depth);
	if (depth)
		work_a(depth - 1);
	yield_from(0);
	leaf(depth);
}

NOINLINE static void work_b(int depth)
{
	TRUTH(work_b);
	leaf(depth);
	yield_from(1);
	if (depth)
		work_b(depth - 1);
	leaf(depth);
}

static void run(int who)
{
	if (who == 0)
		work_a(2);
	else
		work_b(2);
	finished++;
	swapcontext(&contexts[who], &scheduler);
}

int main(void)
{
	truth_begin();
	for (int i = 0; i < 2; i++) {
		getcontext(&contexts[i]);
		contexts[i].uc_stack.ss_sp = stacks[i];
		contexts[i].uc_stack.ss_size = sizeof(stacks[i]);
		makecontext(&contexts[i], (void (*)(void))run, 1, i);
	}
	for (int turn = 0; finished < 2 && turn < 100; turn++)
		swapcontext(&scheduler, &contexts[turn % 2]);
	truth_write();
	return finished != 2;
}
