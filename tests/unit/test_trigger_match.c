// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: record/trigger_match record/trigger_condition base/duration
 */
#include "record/trigger_match.h"

#include "unit.h"

/* How many of @n hits fire, the times @step_ns apart. */
static int fires(struct trigger_match *match, const struct ptbpf_trigger *trigger,
		 struct trigger_hit hit, int n, uint64_t step_ns)
{
	int fired = 0;

	for (int i = 0; i < n; i++, hit.time_ns += step_ns)
		fired += trigger_match(match, trigger, &hit);
	return fired;
}

TEST(a_bare_trigger_always_fires)
{
	const struct ptbpf_trigger trigger = {};
	struct trigger_match match = {};

	CHECK_EQ(fires(&match, &trigger, (struct trigger_hit){ .time_ns = 1 }, 5, 1), 5);
	trigger_match_fini(&match);
}

TEST(tid_comm_and_arguments_come_before_the_counts)
{
	struct ptbpf_trigger trigger = {
		.flags = PTBPF_TRIGGER_HAS_TID | PTBPF_TRIGGER_HAS_COMM,
		.tid = 5,
		.comm = "worker",
		.after = 1,
		.n_conditions = 1,
		.conditions = { { 2, PTBPF_OP_EQ, 9 } },
	};
	struct trigger_hit hit = { .tid = 5, .comm = "worker", .args = { 0, 0, 9 } };
	struct trigger_match match = {};

	hit.tid = 6;
	CHECK_EQ(fires(&match, &trigger, hit, 3, 1), 0);
	hit.tid = 5;
	hit.comm = "worker2";
	CHECK_EQ(fires(&match, &trigger, hit, 3, 1), 0);
	hit.comm = "worker";
	hit.args[2] = 8;
	CHECK_EQ(fires(&match, &trigger, hit, 3, 1), 0);
	hit.args[2] = 9;
	CHECK_EQ(match.matched, 0);
	CHECK_EQ(fires(&match, &trigger, hit, 3, 1), 2); /* after the first */
	trigger_match_fini(&match);
}

TEST(every_counts_from_after)
{
	const struct ptbpf_trigger trigger = { .after = 2, .every = 3 };
	struct trigger_match match = {};
	struct trigger_hit hit = { .time_ns = 1 };

	CHECK_EQ(fires(&match, &trigger, hit, 4, 1), 0);
	CHECK_EQ(fires(&match, &trigger, hit, 1, 1), 1);
	CHECK_EQ(fires(&match, &trigger, hit, 2, 1), 0);
	CHECK_EQ(fires(&match, &trigger, hit, 1, 1), 1);
	trigger_match_fini(&match);
}

TEST(sample_divides_the_random_numbers)
{
	const struct ptbpf_trigger trigger = { .flags = PTBPF_TRIGGER_HAS_SAMPLE,
					       .sample_ppm = 250000 };
	struct trigger_match match = {};
	struct trigger_hit hit = { .random = 0 };

	CHECK(trigger_match(&match, &trigger, &hit));
	hit.random = 0x3fffffff;
	CHECK(trigger_match(&match, &trigger, &hit));
	hit.random = 0x40000000;
	CHECK(!trigger_match(&match, &trigger, &hit));
	hit.random = UINT32_MAX;
	CHECK(!trigger_match(&match, &trigger, &hit));
	trigger_match_fini(&match);
}

TEST(no_window_ever_holds_more_than_the_rate)
{
	const struct ptbpf_trigger trigger = { .rate_count = 7, .rate_ns = 1000 };
	struct trigger_match match = {};
	uint64_t times[4096];
	unsigned int seed = 3;
	size_t n = 0;

	for (uint64_t now = 1; n < 4096; now += (uint64_t)rand_r(&seed) % 100) {
		const struct trigger_hit hit = { .time_ns = now };

		if (trigger_match(&match, &trigger, &hit))
			times[n++] = now;
	}
	for (size_t i = 7; i < n; i++)
		CHECK(times[i] - times[i - 7] >= 1000);
	CHECK(times[6] - times[0] < 1000); /* and bursts up to it are let through */
	trigger_match_fini(&match);
}

UNIT_MAIN("unit/trigger_match")
