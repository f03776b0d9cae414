// SPDX-License-Identifier: GPL-2.0-only
#include "base/clock.h"

#include <errno.h>
#include <time.h>
#include <x86intrin.h>

#define PAIR_TRIES 16
#define SLOPE_SPAN_NS 10000000ull

uint64_t clock_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000ull + (uint64_t)ts.tv_nsec;
}

uint64_t clock_tsc(void)
{
	return __rdtsc();
}

struct clock_pair clock_read_pair(void)
{
	struct clock_pair best = { .width_ns = UINT64_MAX };

	for (int i = 0; i < PAIR_TRIES; i++) {
		const uint64_t before = clock_now_ns();
		const uint64_t tsc = clock_tsc();
		const uint64_t after = clock_now_ns();

		if (after - before < best.width_ns)
			best = (struct clock_pair){ tsc, before + (after - before) / 2,
						    after - before };
	}
	return best;
}

/* Nanoseconds a tick by least squares around the first pair. */
static double fit_slope(const struct clock_pair *pairs, size_t n)
{
	double sxx = 0, sxy = 0;

	for (size_t i = 1; i < n; i++) {
		const double x = (double)(int64_t)(pairs[i].tsc - pairs[0].tsc);
		const double y = (double)(int64_t)(pairs[i].ns - pairs[0].ns);

		sxx += x * x;
		sxy += x * y;
	}
	return sxx > 0 ? sxy / sxx : 0;
}

static double measure_slope(void)
{
	struct clock_pair pairs[2] = { clock_read_pair(), { 0 } };
	const struct timespec pause = { .tv_nsec = SLOPE_SPAN_NS };

	nanosleep(&pause, NULL);
	pairs[1] = clock_read_pair();
	return fit_slope(pairs, 2);
}

static uint64_t scale(const struct clock_conv *conv, uint64_t tsc)
{
	const uint64_t quot = tsc >> conv->shift;
	const uint64_t rem = tsc & ((1ull << conv->shift) - 1);

	return quot * conv->mult + ((rem * conv->mult) >> conv->shift);
}

int clock_fit(const struct clock_pair *pairs, size_t n, struct clock_conv *conv)
{
	int64_t min_residue = INT64_MAX, max_residue = INT64_MIN;
	double slope;

	if (n == 0)
		return -EINVAL;
	slope = pairs[n - 1].ns - pairs[0].ns >= SLOPE_SPAN_NS ? fit_slope(pairs, n) : 0;
	if (slope <= 0)
		slope = measure_slope();
	if (!(slope > 1e-3 && slope < 1e3))
		return -EINVAL;

	conv->shift = 31;
	while (slope * (double)(1ull << conv->shift) >= 0x1p32)
		conv->shift--;
	conv->mult = (uint32_t)(slope * (double)(1ull << conv->shift) + 0.5);
	conv->zero = 0;
	for (size_t i = 0; i < n; i++) {
		const int64_t residue = (int64_t)(pairs[i].ns - scale(conv, pairs[i].tsc));

		min_residue = residue < min_residue ? residue : min_residue;
		max_residue = residue > max_residue ? residue : max_residue;
	}
	conv->zero = (uint64_t)(min_residue + (max_residue - min_residue) / 2);
	conv->max_error_ns = (uint64_t)(max_residue - min_residue + 1) / 2;
	return 0;
}

uint64_t clock_tsc_to_ns(const struct clock_conv *conv, uint64_t tsc)
{
	return conv->zero + scale(conv, tsc);
}

uint64_t clock_ns_to_tsc(const struct clock_conv *conv, uint64_t ns)
{
	const uint64_t delta = ns - conv->zero;
	const uint64_t quot = delta / conv->mult;
	const uint64_t rem = delta % conv->mult;

	return (quot << conv->shift) + ((rem << conv->shift) / conv->mult);
}
