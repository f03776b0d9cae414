// SPDX-License-Identifier: GPL-2.0-only
/*
 * Landing pads that the compiler put into .cold parts, away from their functions, and called
 * through shared libraries with lazy binding.
 *
 * flags: -O2 -Wl,-z,lazy
 */
#include <stdexcept>

#include "truth.h"

struct guard {
	int value;
	NOINLINE ~guard()
	{
		asm volatile("" ::: "memory");
	}
};

NOINLINE static int thrower(int x)
{
	TRUTH(thrower);
	if (x % 3 == 2)
		throw std::runtime_error("every third");
	return x;
}

NOINLINE static int middle(int x)
{
	TRUTH(middle);
	guard here = { x };

	asm volatile("" ::"r"(&here) : "memory");
	return thrower(x) + 1;
}

NOINLINE static int outer(int x)
{
	TRUTH(outer);
	try {
		return middle(x);
	} catch (const std::exception &) {
		TRUTH_BACK_IN(outer);
		return -1;
	}
}

NOINLINE static void after()
{
	TRUTH(after);
	asm volatile("");
}

int main()
{
	int sum = 0;

	truth_begin();
	for (int i = 0; i < 9; i++) {
		sum += outer(i);
		after();
	}
	truth_write();
	return sum == 0;
}
