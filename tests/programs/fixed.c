// SPDX-License-Identifier: GPL-2.0-only
/*
 * A static program at a fixed address: loops, a switch by jump table, recursion, rep-string
 * instructions. One thread, deterministic.
 * flags: -static -no-pie -fno-pie
 */
#include "truth.h"

static volatile int zero;

NOINLINE static int by_table(int n)
{
	TRUTH(by_table);
	switch (n) {
	case 0:
		return 17 + zero;
	case 1:
		return zero - 4;
	case 2:
		return zero * 3;
	case 3:
		return zero ^ 99;
	case 4:
		return zero | 3;
	case 5:
		return 1000 - zero;
	default:
		return n;
	}
}

NOINLINE static void strings(void)
{
	TRUTH(strings);
	unsigned char from[300], to[300];
	unsigned char *source = from, *target = to;
	unsigned long count = sizeof(from);

	__asm__ volatile("rep stosb" : "+D"(target), "+c"(count) : "a"(7) : "memory");
	target = to;
	count = 0;
	__asm__ volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(count) : : "memory");
	source = to;
	target = from;
	count = sizeof(from);
	__asm__ volatile("rep movsb" : "+D"(target), "+S"(source), "+c"(count) : : "memory");
}

NOINLINE static int collatz(int n)
{
	TRUTH(collatz);
	int steps = 0;

	for (; n != 1; steps++)
		n = n % 2 ? 3 * n + 1 : n / 2;
	return steps + zero;
}

NOINLINE static int tree(int depth)
{
	TRUTH(tree);
	return depth == 0 ? by_table(depth) : tree(depth - 1) + tree(depth - 1);
}

int main(void)
{
	int sum = 0;

	truth_begin();
	for (int i = 0; i < 12; i++)
		sum += by_table(i);
	strings();
	for (int i = 1; i < 20; i++)
		sum += collatz(i);
	sum += tree(6);
	truth_write();
	return sum == zero - 1;
}
