// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: record/budget record/budget_plan base/size
 *
 * Random lives of threads against a machine that carries out the steps and keeps its own books.
 */
#include "record/budget.h"

#include <errno.h>

#include "base/size.h"
#include "unit.h"

#define MAX_TIDS 1200
#define PERIOD_NS 100000000ull /* of activity reports */

struct machine_thread {
	bool alive, exists; /* alive: runs; exists: the budget knows it */
	uint64_t ring, tail, rate;
	unsigned int changes;
};

struct machine {
	struct budget *budget;
	uint64_t bytes, used, now_ns;
	struct machine_thread threads[MAX_TIDS];
	size_t steps, changes;
	uint32_t random;
};

static uint32_t roll(struct machine *m, uint32_t n)
{
	m->random ^= m->random << 13;
	m->random ^= m->random >> 17;
	m->random ^= m->random << 5;
	return m->random % n;
}

static struct machine *machine_new(uint64_t bytes, enum budget_balance balance, uint32_t seed)
{
	struct machine *m = calloc(1, sizeof(*m));

	CHECK(m);
	m->bytes = bytes;
	m->random = seed * 2654435761u + 1;
	m->now_ns = 1000 * PERIOD_NS;
	CHECK_EQ(budget_new(bytes, balance, &m->budget), 0);
	return m;
}

static void machine_free(struct machine *m)
{
	budget_free(m->budget);
	free(m);
}

static void carry_out(struct machine *m, const struct budget_step *step, bool *growing)
{
	struct machine_thread *t = &m->threads[step->tid];
	const uint64_t ring = t->ring, tail = t->tail;

	CHECK(t->exists);
	switch (step->kind) {
	case BUDGET_DROP_TAIL:
		CHECK(tail > 0);
		t->tail = 0;
		break;
	case BUDGET_TAKE:
		CHECK(ring || tail);
		t->ring = t->tail = 0;
		break;
	case BUDGET_RESIZE:
		CHECK(ring > 0 && step->ring != ring && t->alive);
		CHECK(step->tail <= ring + tail);
		CHECK(step->ring == 2 * ring || step->ring < ring);
		t->ring = step->ring;
		t->tail = step->tail;
		break;
	case BUDGET_GIVE:
		CHECK(ring == 0 && t->alive);
		t->ring = step->ring;
		break;
	}
	if (step->kind == BUDGET_GIVE || (step->kind == BUDGET_RESIZE && step->ring > ring))
		*growing = true;
	else
		CHECK(!*growing); /* what frees comes first */
	CHECK(!t->ring || (size_is_pow2(t->ring) && t->ring >= BUDGET_MIN_RING));
	m->used += t->ring + t->tail - ring - tail;
	CHECK(m->used <= m->bytes); /* after every single step */
	t->changes++;
	m->changes++;
}

/* The budget's books are those of the machine; live threads without a ring are named. */
static void check_books(struct machine *m)
{
	const struct budget_thread *threads;
	size_t n = budget_threads(m->budget, &threads), live = 0, alive = 0;

	CHECK_EQ(budget_used(m->budget), m->used);
	for (size_t i = 0; i < n; i++) {
		const struct budget_thread *t = &threads[i];

		CHECK(i == 0 || threads[i - 1].tid < t->tid);
		CHECK_EQ(t->ring, m->threads[t->tid].ring);
		CHECK_EQ(t->tail, m->threads[t->tid].tail);
		CHECK_EQ(t->state == BUDGET_EXITED, !m->threads[t->tid].alive);
		if (t->state != BUDGET_EXITED)
			CHECK_EQ(t->state == BUDGET_LIVE, t->ring != 0);
		else
			CHECK(t->ring || t->tail);
		live += t->state != BUDGET_EXITED;
	}
	for (size_t tid = 1; tid < MAX_TIDS; tid++)
		alive += m->threads[tid].alive;
	CHECK_EQ(live, alive); /* no silent drop */
}

static size_t plan(struct machine *m, bool rebalance)
{
	const struct budget_step *steps;
	bool growing = false;
	size_t n;

	CHECK_EQ(budget_plan(m->budget, m->now_ns, rebalance, &steps, &n), 0);
	for (size_t i = 0; i < n; i++)
		carry_out(m, &steps[i], &growing);
	check_books(m);
	return n;
}

static void birth(struct machine *m, pid_t tid, uint64_t rate)
{
	CHECK_EQ(budget_birth(m->budget, tid, m->now_ns), 0);
	m->threads[tid].alive = m->threads[tid].exists = true;
	m->threads[tid].rate = rate;
	CHECK_EQ(budget_birth(m->budget, tid, m->now_ns), 0);
}

static void death(struct machine *m, pid_t tid)
{
	CHECK_EQ(budget_exit(m->budget, tid, m->now_ns), 0);
	m->threads[tid].alive = false;
}

/* One period passes: what was measured is reported, and the session may rebalance. */
static size_t period(struct machine *m)
{
	m->now_ns += PERIOD_NS;
	for (pid_t tid = 1; tid < MAX_TIDS; tid++) {
		const struct machine_thread *t = &m->threads[tid];
		const uint64_t bytes = t->ring ? t->rate * PERIOD_NS / 1000000000 : 0;

		if (t->alive)
			CHECK_EQ(budget_activity(m->budget, tid, bytes,
						 t->rate ? PERIOD_NS / 1000 * (t->rate % 997) : 0,
						 PERIOD_NS),
				 0);
	}
	return plan(m, true);
}

static uint64_t random_rate(struct machine *m)
{
	return roll(m, 4) ? 1000ull << roll(m, 14) : 0;
}

static void random_event(struct machine *m, pid_t max_tid)
{
	const pid_t tid = 1 + (pid_t)roll(m, (uint32_t)max_tid);
	struct machine_thread *t = &m->threads[tid];
	uint64_t kept;

	switch (roll(m, 8)) {
	case 0:
	case 1:
	case 2:
		if (!t->alive)
			birth(m, tid, random_rate(m)); /* perhaps a tid that was there before */
		plan(m, false);
		break;
	case 3:
		if (t->alive)
			death(m, tid);
		break;
	case 4:
		t->rate = random_rate(m);
		break;
	case 5: /* the machine has no room for such a ring; the session lost it */
		if (t->alive && t->ring && roll(m, 8) == 0) {
			CHECK_EQ(budget_refused(m->budget, tid, t->ring / 2), 0);
			m->used -= t->ring;
			t->ring = 0;
			plan(m, false);
			CHECK(t->ring <= m->bytes / 2);
		}
		break;
	case 6:
		kept = t->tail / 2;
		if (t->tail && budget_tail(m->budget, tid, kept) == 0) {
			m->used -= t->tail - kept;
			t->tail = kept;
		}
		break;
	default:
		period(m);
	}
}

TEST(random_lives_keep_every_rule)
{
	for (uint32_t seed = 1; seed <= 4000; seed++) {
		const uint64_t bytes = BUDGET_MIN_RING << (seed % 9);
		const pid_t max_tid = 2 + (pid_t)(seed % 23);
		struct machine *m =
			machine_new(bytes, seed % 2 ? BALANCE_EQUAL : BALANCE_ACTIVITY, seed);

		for (int i = 0; i < 60; i++)
			random_event(m, max_tid);
		machine_free(m);
	}
}

/* The shortest look-back of a live thread at true rates. */
static uint64_t shortest_lookback(const struct machine *m, uint64_t fixed_ring)
{
	uint64_t shortest = UINT64_MAX;

	for (size_t tid = 1; tid < MAX_TIDS; tid++) {
		const struct machine_thread *t = &m->threads[tid];
		const uint64_t ring = fixed_ring ? fixed_ring : t->ring;

		if (t->alive && t->ring && t->rate && ring * 1000000 / t->rate < shortest)
			shortest = ring * 1000000 / t->rate;
	}
	return shortest;
}

static size_t alive_threads(const struct machine *m)
{
	size_t n = 0;

	for (size_t tid = 1; tid < MAX_TIDS; tid++)
		n += m->threads[tid].alive;
	return n;
}

static uint64_t share_of(const struct machine *m)
{
	const size_t n = alive_threads(m);
	const uint64_t share = size_floor_pow2(m->bytes / (n ? n : 1));

	return share < BUDGET_MIN_RING ? BUDGET_MIN_RING : share;
}

/* Lets time pass until nothing changed for @calm periods; fails if that never happens. */
static void settle(struct machine *m, int calm)
{
	int quiet = 0;

	for (int i = 0; i < 20000 && quiet < calm; i++)
		quiet = period(m) ? 0 : quiet + 1;
	CHECK(quiet == calm);
}

/* Births and deaths, then steady rates: both ways of balancing from the same life. */
static void live(struct machine *m, uint32_t seed)
{
	m->random = seed * 2654435761u + 1;
	for (int i = 0; i < 40; i++) {
		const pid_t tid = 1 + (pid_t)roll(m, 16);
		/* all rings that could be are filled within a few periods */
		const uint64_t rate = roll(m, 3) ? (4ull << 20) << roll(m, 7) : 0;

		if (m->threads[tid].alive && roll(m, 3) == 0)
			death(m, tid);
		else if (!m->threads[tid].alive)
			birth(m, tid, rate);
		plan(m, false);
		if (roll(m, 2))
			period(m);
	}
}

TEST(activity_remembers_at_least_as_long_as_equal)
{
	unsigned int better = 0;

	for (uint32_t seed = 1; seed <= 300; seed++) {
		const uint64_t bytes = (256ull * 1024) << (seed % 5);
		struct machine *equal = machine_new(bytes, BALANCE_EQUAL, seed);
		struct machine *activity = machine_new(bytes, BALANCE_ACTIVITY, seed);
		uint64_t by_equal, by_activity;

		live(equal, seed);
		live(activity, seed);
		settle(equal, 100);
		settle(activity, 100);
		by_equal = shortest_lookback(equal, 0);
		by_activity = shortest_lookback(activity, 0);
		CHECK(by_activity >= by_equal);
		CHECK(by_activity >= shortest_lookback(activity, share_of(activity)));
		better += by_activity > by_equal;
		machine_free(equal);
		machine_free(activity);
	}
	CHECK(better > 100); /* and it is worth having */
}

TEST(idle_threads_pay_for_a_busy_one)
{
	struct machine *m = machine_new(1 << 20, BALANCE_ACTIVITY, 1);

	for (pid_t tid = 1; tid <= 4; tid++)
		birth(m, tid, tid == 2 ? 16 << 20 : 1000);
	plan(m, false);
	CHECK_EQ(m->threads[2].ring, 256 * 1024);
	settle(m, 200);
	CHECK_EQ(m->threads[2].ring, 512 * 1024);
	for (pid_t tid = 1; tid <= 4; tid++)
		CHECK(m->threads[tid].ring + m->threads[tid].tail >= 64 * 1024);
	machine_free(m);
}

TEST(who_wakes_up_gets_the_share_back)
{
	for (uint32_t seed = 1; seed <= 200; seed++) {
		struct machine *m =
			machine_new((256ull * 1024) << (seed % 4), BALANCE_ACTIVITY, seed);

		live(m, seed);
		for (int phase = 0; phase < 4; phase++) {
			settle(m, 100);
			CHECK(shortest_lookback(m, 0) >= shortest_lookback(m, share_of(m)));
			for (size_t tid = 1; tid <= 16; tid++)
				m->threads[tid].rate = roll(m, 2) ? (1 + roll(m, 64)) << 20 : 0;
		}
		machine_free(m);
	}
}

TEST(equal_gives_every_live_thread_the_share)
{
	for (uint32_t seed = 1; seed <= 200; seed++) {
		struct machine *m = machine_new(1 << 20, BALANCE_EQUAL, seed);
		uint64_t share;

		live(m, seed);
		settle(m, 100);
		share = share_of(m);
		for (size_t tid = 1; tid < MAX_TIDS; tid++) {
			const struct machine_thread *t = &m->threads[tid];

			/* a silent thread's history is not thrown away for a larger ring */
			if (t->alive && t->rate)
				CHECK(t->ring == share || t->ring > m->bytes - m->used);
			if (t->alive)
				CHECK(t->ring <= share);
		}
		machine_free(m);
	}
}

TEST(steady_activity_settles_in_a_bounded_number_of_changes)
{
	for (uint32_t seed = 1; seed <= 200; seed++) {
		struct machine *m = machine_new(4 << 20, BALANCE_ACTIVITY, seed);
		size_t before;

		live(m, seed);
		before = m->changes;
		settle(m, 300);
		/* a doubling, its tail's drop, and a halving, at most twice each */
		CHECK(m->changes - before <= 12 * 16);
		machine_free(m);
	}
}

TEST(noise_below_twofold_moves_nothing)
{
	for (uint32_t seed = 1; seed <= 100; seed++) {
		struct machine *m = machine_new(1 << 20, BALANCE_ACTIVITY, seed);
		uint64_t rates[MAX_TIDS];
		size_t before = 0;

		live(m, seed);
		settle(m, 100);
		for (size_t tid = 1; tid < MAX_TIDS; tid++)
			rates[tid] = m->threads[tid].rate;
		for (int i = 0; i < 1200; i++) {
			if (i == 600)
				before = m->changes;
			for (size_t tid = 1; tid < MAX_TIDS; tid++)
				m->threads[tid].rate = rates[tid] * (75 + roll(m, 50)) / 100;
			period(m);
		}
		/* a smoothed rate passed each threshold at most once and then was far from it */
		CHECK_EQ(m->changes, before);
		machine_free(m);
	}
}

TEST(thread_churn_does_not_shake_the_others)
{
	struct machine *m = machine_new(1 << 20, BALANCE_EQUAL, 1);

	for (pid_t tid = 1; tid <= 4; tid++)
		birth(m, tid, 64 << 20);
	plan(m, false);
	/* a fifth thread comes and goes every two seconds, for ten minutes */
	for (int i = 0; i < 300; i++) {
		const pid_t tid = 10 + i;

		birth(m, tid, 1 << 20);
		plan(m, false);
		for (int j = 0; j < 10; j++)
			period(m);
		death(m, tid);
		for (int j = 0; j < 10; j++)
			period(m);
	}
	/* each waits longer every time that it grew in vain; without that it would be 1200 */
	CHECK(m->threads[1].changes < 80);
	machine_free(m);
}

TEST(a_thousand_threads_share_sixty_four_rings)
{
	struct machine *m = machine_new(64 * BUDGET_MIN_RING, BALANCE_ACTIVITY, 7);
	const struct budget_thread *threads;
	size_t n, traced = 0, untraced = 0, active = 0, changes;

	for (pid_t tid = 1; tid <= 1000; tid++) {
		birth(m, tid, tid % 25 == 3 ? 6978 : 1); /* forty are active, most of them late */
		plan(m, false);
	}
	for (int i = 0; i < 400; i++)
		period(m);
	n = budget_threads(m->budget, &threads);
	CHECK_EQ(n, 1000);
	for (size_t i = 0; i < n; i++) {
		traced += threads[i].state == BUDGET_LIVE;
		untraced += threads[i].state == BUDGET_UNTRACED;
		active += threads[i].state == BUDGET_LIVE && threads[i].tid % 25 == 3;
	}
	CHECK_EQ(traced, 64);
	CHECK_EQ(untraced, 936);
	CHECK_EQ(active, 40);
	changes = m->changes;
	for (int i = 0; i < 300; i++)
		period(m);
	CHECK_EQ(m->changes, changes);
	machine_free(m);
}

TEST(an_exited_thread_keeps_its_ring_until_it_is_needed_or_old)
{
	/* by `equal` three threads have no use for the fourth ring */
	struct machine *m = machine_new(256 * 1024, BALANCE_EQUAL, 1);

	for (pid_t tid = 1; tid <= 4; tid++)
		birth(m, tid, 64 * 1024); /* a look-back of one second */
	plan(m, false);
	period(m);
	CHECK_EQ(m->threads[4].ring, 64 * 1024);
	death(m, 4);
	for (int i = 0; i < 5; i++)
		period(m);
	CHECK_EQ(m->threads[4].ring, 64 * 1024); /* half a second old */
	for (int i = 0; i < 60; i++)
		period(m);
	CHECK_EQ(m->threads[4].ring, 0); /* older than what the others remember */
	death(m, 3);
	birth(m, 5, 0);
	birth(m, 6, 0);
	plan(m, false);
	CHECK(m->threads[5].ring && m->threads[6].ring);
	machine_free(m);
}

TEST(a_birth_costs_no_more_than_it_needs_and_keeps_history)
{
	struct machine *m = machine_new(4 << 20, BALANCE_ACTIVITY, 1);

	birth(m, 1, 64 << 20);
	plan(m, false);
	CHECK_EQ(m->threads[1].ring, 4 << 20);
	for (int i = 0; i < 10; i++)
		period(m);
	birth(m, 2, 1 << 20);
	CHECK_EQ(plan(m, false), 2);
	CHECK_EQ(m->threads[1].ring, 2 << 20);
	CHECK_EQ(m->threads[1].tail, 1 << 20); /* the newest of what there was */
	CHECK_EQ(m->threads[2].ring, 1 << 20);
	period(m);
	CHECK_EQ(m->threads[1].tail, 0); /* the new ring holds as much */
	machine_free(m);
}

TEST(a_tail_stays_while_nobody_needs_the_room)
{
	struct machine *m = machine_new(4 << 20, BALANCE_ACTIVITY, 1);

	birth(m, 1, 1 << 20);
	plan(m, false);
	for (int i = 0; i < 10; i++)
		period(m);
	birth(m, 2, 0);
	plan(m, false);
	CHECK_EQ(m->threads[1].tail, 1 << 20);
	for (int i = 0; i < 11; i++)
		period(m); /* the ring holds as much as the tail, but is not full */
	CHECK_EQ(m->threads[1].tail, 1 << 20);
	birth(m, 3, 0);
	birth(m, 4, 0);
	plan(m, false);
	CHECK(m->threads[3].ring && m->threads[4].ring);
	CHECK(m->threads[1].tail < 1 << 20);
	for (int i = 0; i < 40; i++)
		period(m);
	CHECK_EQ(m->threads[1].tail, 0);
	machine_free(m);
}

TEST(no_tail_goes_for_a_growth_that_does_not_come)
{
	struct machine *m = machine_new(4 << 20, BALANCE_ACTIVITY, 1);

	birth(m, 1, 1 << 20);
	plan(m, false);
	period(m);
	m->threads[1].rate = 0;
	for (pid_t tid = 2; tid <= 4; tid++) {
		birth(m, tid, tid == 4 ? 100000 : 60000);
		plan(m, false);
	}
	CHECK(m->threads[1].tail && m->threads[4].ring < 1 << 20);
	for (int i = 0; i < 60; i++)
		period(m);
	CHECK_EQ(m->threads[1].tail, 256 << 10); /* what it shrank by; it lost none before */
	machine_free(m);
}

TEST(a_reused_tid_gives_up_the_ring_of_its_former_bearer)
{
	struct machine *m = machine_new(256 * 1024, BALANCE_EQUAL, 1);
	const struct budget_step *steps;
	size_t n;

	birth(m, 1, 0);
	birth(m, 2, 0);
	plan(m, false);
	death(m, 2);
	CHECK_EQ(budget_birth(m->budget, 2, m->now_ns), 0);
	CHECK_EQ(budget_plan(m->budget, m->now_ns, false, &steps, &n), 0);
	CHECK_EQ(n, 2);
	CHECK(steps[0].kind == BUDGET_TAKE && steps[0].tid == 2);
	CHECK(steps[1].kind == BUDGET_GIVE && steps[1].tid == 2);
	machine_free(m);
}

TEST(rounds_as_documented)
{
	uint64_t rounded;

	CHECK_EQ(budget_round(1, &rounded), BUDGET_RAISED_TO_RING);
	CHECK_EQ(rounded, BUDGET_MIN_RING);
	CHECK_EQ(budget_round(9 * 1024, &rounded), BUDGET_RAISED_TO_RING);
	CHECK_EQ(rounded, 16 * 1024);
	CHECK_EQ(budget_round(17 * 1024, &rounded), BUDGET_ROUNDED_UP);
	CHECK_EQ(rounded, 32 * 1024);
	CHECK_EQ(budget_round(8 << 20, &rounded), BUDGET_EXACT);
	CHECK_EQ(rounded, 8 << 20);
	CHECK_EQ(budget_round(300ull << 40, &rounded), BUDGET_CAPPED);
	CHECK_EQ(rounded, 256ull << 40);
	CHECK_EQ(budget_round(UINT64_MAX, &rounded), BUDGET_CAPPED);
}

TEST(refuses_what_makes_no_sense)
{
	struct budget *budget;

	CHECK_EQ(budget_new(0, BALANCE_EQUAL, &budget), -EINVAL);
	CHECK_EQ(budget_new(3 * BUDGET_MIN_RING, BALANCE_EQUAL, &budget), -EINVAL);
	CHECK_EQ(budget_new(BUDGET_MIN_RING / 2, BALANCE_EQUAL, &budget), -EINVAL);
	CHECK_EQ(budget_new(BUDGET_MAX_BYTES * 2, BALANCE_EQUAL, &budget), -EINVAL);
	CHECK_EQ(budget_new(BUDGET_MIN_RING, BALANCE_EQUAL, &budget), 0);
	CHECK_EQ(budget_exit(budget, 1, 0), -ENOENT);
	CHECK_EQ(budget_activity(budget, 1, 0, 0, 1), -ENOENT);
	CHECK_EQ(budget_refused(budget, 1, 0), -ENOENT);
	CHECK_EQ(budget_tail(budget, 1, 0), -ENOENT);
	CHECK_EQ(budget_forget(budget, 1), -ENOENT);
	budget_free(budget);
}

TEST(an_exited_thread_keeps_its_history_without_a_ring)
{
	const struct budget_step *steps;
	struct budget *budget;
	size_t n;

	CHECK_EQ(budget_new(1 << 20, BALANCE_ACTIVITY, &budget), 0);
	CHECK_EQ(budget_birth(budget, 1, 0), 0);
	CHECK_EQ(budget_plan(budget, 0, false, &steps, &n), 0);
	CHECK_EQ(budget_stored(budget, 1, 100), -EINVAL);
	CHECK_EQ(budget_exit(budget, 1, 1), 0);
	CHECK_EQ(budget_stored(budget, 1, 2 << 20), -EINVAL);
	CHECK_EQ(budget_stored(budget, 1, 5000), 0);
	CHECK_EQ(budget_used(budget), 5000);
	CHECK_EQ(budget_stored(budget, 2, 0), -ENOENT);
	/* the newborn begins with half a share: the history stays */
	CHECK_EQ(budget_birth(budget, 2, 2), 0);
	CHECK_EQ(budget_plan(budget, 2, false, &steps, &n), 0);
	CHECK_EQ(n, 1);
	CHECK_EQ(steps[0].kind, BUDGET_GIVE);
	CHECK_EQ(steps[0].ring, 1 << 19);
	budget_free(budget);
}

UNIT_MAIN("unit/budget")
