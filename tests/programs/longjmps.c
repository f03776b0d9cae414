// SPDX-License-Identifier: GPL-2.0-only
/*
 * longjmp over several frames, in a loop, from two depths into two set points.
 * flags: -static -Wno-infinite-recursion
 */
#include <setjmp.h>

#include "truth.h"

static volatile int zero;
static jmp_buf near_point, far_point;

NOINLINE static int leaf(int n)
{
	TRUTH(leaf);
	return n + zero;
}

NOINLINE static int dive(int n, int far)
{
	TRUTH(dive);
	if (n == 0) {
		leaf(n);
		if (far)
			longjmp(far_point, 1);
		longjmp(near_point, 1);
	}
	return dive(n - 1, far) + zero;
}

NOINLINE static void attempt(int n, int far)
{
	TRUTH(attempt);
	if (!setjmp(near_point))
		dive(n, far);
	TRUTH_BACK_IN(attempt);
	leaf(n);
}

NOINLINE static void rounds(void)
{
	TRUTH(rounds);
	volatile int i = 0;

	if (setjmp(far_point))
		TRUTH_BACK_IN(rounds);
	while (i < 12) {
		const int n = i++;

		attempt(n % 5, n % 3 == 2);
		leaf(n);
	}
}

int main(void)
{
	truth_begin();
	rounds();
	truth_write();
	return 0;
}
