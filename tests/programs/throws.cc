// SPDX-License-Identifier: GPL-2.0-only
/*
 * throws [abort]: a chain of calls that ends in a throw that is caught, or with "abort" in one that
 * nobody catches. libstdc++ and libc are shared objects here, for triggers on their symbols.
 */
#include <cstring>
#include <stdexcept>

#define NOINLINE __attribute__((noinline, noclone))

static volatile int zero;

NOINLINE void validate(int n)
{
	if (n > zero)
		throw std::runtime_error("not valid");
}

NOINLINE int load_config(int n)
{
	validate(n - 1);
	validate(n);
	return n + zero;
}

NOINLINE int start_service(int n)
{
	return load_config(n) + zero;
}

NOINLINE int try_service(int n)
{
	try {
		return start_service(n);
	} catch (const std::exception &) {
		return -1 + zero;
	}
}

int main(int argc, char **argv)
{
	if (argc > 1 && !strcmp(argv[1], "abort"))
		return start_service(1);
	return try_service(1) != -1;
}
