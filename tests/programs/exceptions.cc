// SPDX-License-Identifier: GPL-2.0-only
/*
 * C++ exceptions: through several frames with destructors, nested, rethrown, caught by type, in
 * threads.
 * flags: -static-pie -Wno-infinite-recursion
 */
#include <stdexcept>
#include <string>
#include <thread>

#include "truth.h"

static volatile int zero;

struct guard {
	explicit guard(int n) : value(n)
	{
	}
	NOINLINE ~guard()
	{
		zero = zero + 0 * value;
	}
	int value;
};

NOINLINE static int leaf(int n)
{
	TRUTH(leaf);
	return n + zero;
}

NOINLINE static int thrower(int n)
{
	TRUTH(thrower);
	if (n % 2)
		throw std::runtime_error("odd");
	throw n;
}

NOINLINE static int descend(int n, int depth)
{
	TRUTH(descend);
	guard held(n);

	if (!depth)
		return thrower(n) + zero;
	return descend(n, depth - 1) + zero;
}

NOINLINE static int rethrower(int n)
{
	TRUTH(rethrower);
	try {
		return descend(n, 2);
	} catch (const std::exception &) {
		leaf(1);
		throw;
	}
}

NOINLINE static int catcher(int n)
{
	TRUTH(catcher);
	try {
		return rethrower(n);
	} catch (const std::runtime_error &) {
		return leaf(2);
	} catch (int) {
		return leaf(3);
	}
}

NOINLINE static int nested(void)
{
	TRUTH(nested);
	try {
		catcher(1);
		descend(3, 1);
	} catch (...) {
		try {
			descend(4, 1);
		} catch (...) {
			leaf(4);
		}
		return leaf(5);
	}
	return 0;
}

NOINLINE static void worker(void)
{
	TRUTH(worker);
	catcher(1);
}

int main()
{
	truth_begin();
	for (int i = 0; i < 2; i++)
		catcher(i);
	nested();
	std::thread a(worker), b(worker);
	a.join();
	b.join();
	truth_write();
	return 0;
}
