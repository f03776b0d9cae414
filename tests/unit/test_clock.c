// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: base/clock
 */
#include "base/clock.h"

#include <errno.h>

#include "unit.h"

TEST(fit_recovers_a_line)
{
	/* 2.5 ticks a ns, from an odd start */
	struct clock_pair pairs[8];
	struct clock_conv conv;

	for (uint64_t i = 0; i < 8; i++) {
		pairs[i].ns = 1000000007 + i * 100000000;
		pairs[i].tsc = 987654321012 + i * 250000000;
		pairs[i].width_ns = 0;
	}
	CHECK_EQ(clock_fit(pairs, 8, &conv), 0);
	CHECK(conv.max_error_ns <= 1);
	for (int i = 0; i < 8; i++) {
		const int64_t off = (int64_t)(clock_tsc_to_ns(&conv, pairs[i].tsc) - pairs[i].ns);

		CHECK(off >= -1 && off <= 1);
	}
}

TEST(conversion_round_trips)
{
	const struct clock_pair pair = clock_read_pair();
	struct clock_conv conv;

	CHECK_EQ(clock_fit(&pair, 1, &conv), 0);
	for (uint64_t step = 1; step < 1ull << 40; step *= 7) {
		const uint64_t ns = pair.ns + step;
		const int64_t off =
			(int64_t)(clock_tsc_to_ns(&conv, clock_ns_to_tsc(&conv, ns)) - ns);

		CHECK(off >= -2 && off <= 2);
	}
}

TEST(no_pair_is_refused)
{
	struct clock_conv conv;

	CHECK_EQ(clock_fit(NULL, 0, &conv), -EINVAL);
}

UNIT_MAIN("unit/clock")
