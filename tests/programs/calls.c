// SPDX-License-Identifier: GPL-2.0-only
/*
 * Recursion, mutual recursion, function pointers, PLT calls into libm and libc, callbacks from
 * qsort and bsearch.
 * flags: -lm
 */
#include <math.h>
#include <stdio.h>

#include "truth.h"

static volatile double sink;
static volatile int zero;

NOINLINE static int fib(int n)
{
	TRUTH(fib);
	return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

NOINLINE static int is_odd(int n);

NOINLINE static int is_even(int n)
{
	TRUTH(is_even);
	return n == 0 ? 1 : is_odd(n - 1);
}

NOINLINE static int is_odd(int n)
{
	TRUTH(is_odd);
	return n == 0 ? 0 : is_even(n - 1);
}

NOINLINE static int op_add(int a, int b)
{
	TRUTH(op_add);
	return a + b + zero;
}

NOINLINE static int op_sub(int a, int b)
{
	TRUTH(op_sub);
	return a - b + zero;
}

NOINLINE static int op_fib(int a, int b)
{
	TRUTH(op_fib);
	return fib(a % 4) + b;
}

static int (*const volatile operations[])(int, int) = { op_add, op_sub, op_fib };

NOINLINE static int dispatch(int rounds)
{
	TRUTH(dispatch);
	int value = 1;

	for (int i = 0; i < rounds; i++)
		value = operations[i % 3](value, i);
	return value;
}

NOINLINE static double library_calls(int rounds)
{
	TRUTH(library_calls);
	double sum = 0;
	char text[32];

	for (int i = 0; i < rounds; i++) {
		sum += cos(0.5 * i) + cbrt(i);
		snprintf(text, sizeof(text), "%d", i);
		sum += (double)strtol(text, NULL, 10);
	}
	return sum;
}

NOINLINE static int compare(const void *a, const void *b)
{
	TRUTH(compare);
	const int x = *(const int *)a, y = *(const int *)b;

	return (x > y) - (x < y);
}

NOINLINE static int sorting(void)
{
	TRUTH(sorting);
	int values[24], key = 9;

	for (int i = 0; i < 24; i++)
		values[i] = (i * 7 + 3) % 24;
	qsort(values, 24, sizeof(values[0]), compare);
	return bsearch(&key, values, 24, sizeof(values[0]), compare) != NULL;
}

/* A leaf that is a single return, and one that returns in several places. */
NOINLINE static int three_exits(int n)
{
	TRUTH(three_exits);
	if (n == zero)
		return 10;
	if (n == 1)
		return op_add(n, 1);
	return 30;
}

int main(void)
{
	int sum = 0;

	truth_begin();
	sum += fib(9);
	sum += is_even(12) + is_odd(7);
	sum += dispatch(12);
	sink = library_calls(4);
	sum += sorting();
	for (int i = 0; i < 6; i++)
		sum += three_exits(i % 3);
	truth_write();
	return sum == zero - 1;
}
