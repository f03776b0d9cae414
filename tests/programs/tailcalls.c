// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tail calls: to itself, to another function, through a pointer, in a chain of three. A function
 * leaves where it jumps away.
 * flags: -O2 -foptimize-sibling-calls -static
 */
#include "truth.h"

static volatile int zero;

NOINLINE static int last(int n)
{
	TRUTH(last);
	return n * 3 + zero;
}

NOINLINE static int middle(int n)
{
	TRUTH_TAIL_ENTER(middle);
	TRUTH_TAIL_LEAVE(middle);
	return last(n + 1);
}

NOINLINE static int first(int n)
{
	TRUTH_TAIL_ENTER(first);
	n += last(n);
	TRUTH_TAIL_LEAVE(first);
	return middle(n + 1);
}

static int (*const volatile chosen[])(int) = { last, middle, first };

NOINLINE static int through_pointer(int n)
{
	TRUTH_TAIL_ENTER(through_pointer);
	TRUTH_TAIL_LEAVE(through_pointer);
	return chosen[n % 3](n);
}

NOINLINE static int pong(int n);

NOINLINE static int ping(int n)
{
	TRUTH_TAIL_ENTER(ping);
	TRUTH_TAIL_LEAVE(ping);
	if (n == 0)
		return zero;
	return pong(n - 1);
}

NOINLINE static int pong(int n)
{
	TRUTH_TAIL_ENTER(pong);
	TRUTH_TAIL_LEAVE(pong);
	if (n == 0)
		return zero + 1;
	return ping(n - 1);
}

NOINLINE static int around(int n)
{
	TRUTH(around);
	int sum = first(n) + zero;

	sum += through_pointer(n) + zero;
	sum += ping(n + 5) + zero;
	return sum;
}

int main(void)
{
	int sum = 0;

	truth_begin();
	for (int i = 0; i < 6; i++)
		sum += around(i);
	truth_write();
	return sum == zero - 1;
}
