// SPDX-License-Identifier: GPL-2.0-only
/*
 * Eight threads hit two triggers at once: in single mode exactly one fire, whatever else happens.
 * links: record/evaluator record/evaluator_keeper record/evaluator_probes base/log base/clock
 */
#include "target.h"

#define THREADS 8
#define HITS 100 /* of each trigger, by each thread */
#define ROUNDS 6

static volatile long sink;
static pthread_barrier_t barrier;

NOINLINE static long first(long a)
{
	sink += a;
	return sink;
}

NOINLINE static long second(long a)
{
	sink ^= a;
	return sink;
}

static void *hit_both(void *arg)
{
	pthread_barrier_wait(&barrier);
	for (long i = 0; i < HITS; i++) {
		if ((long)arg & 1)
			first(i);
		second(i);
		if (!((long)arg & 1))
			first(i);
	}
	return NULL;
}

static void body(const struct target *target)
{
	pthread_t threads[THREADS];

	for (;;) {
		if (target_next(target) == 'b') { /* fills the ring buffer */
			for (int i = 0; i < 10000; i++)
				prctl(PR_SET_NAME, i & 1 ? "one" : "two");
			target_say(target, 0);
			continue;
		}
		pthread_barrier_init(&barrier, NULL, THREADS);
		for (long i = 0; i < THREADS; i++)
			pthread_create(&threads[i], NULL, hit_both, (void *)i);
		for (long i = 0; i < THREADS; i++)
			pthread_join(threads[i], NULL);
		target_say(target, 0);
	}
}

static struct evaluator *set_up(struct target *target, const struct ptbpf_trigger *triggers,
				bool single)
{
	const struct evaluator_config config = {
		.triggers = triggers, .n_triggers = 2, .single = single, .multi_thread = true
	};
	struct evaluator *evaluator = must_open(&config);

	*target = target_start(body);
	CHECK_EQ(evaluator_add_thread(evaluator, target->pid, target->pid), 0);
	must_attach(evaluator, 0, target->pid, first);
	must_attach(evaluator, 1, target->pid, second);
	return evaluator;
}

static void run(const struct target *target, int word)
{
	target_tell(target, word);
	target_hear(target);
}

static void check_one_fire(struct evaluator *evaluator)
{
	const struct ptbpf_fire_page *page = evaluator_fire_page(evaluator);
	const struct ptbpf_trigger_stats *a = &page->stats[0], *b = &page->stats[1];
	const struct ptbpf_fire *fire = fire_number(evaluator, 1);

	CHECK_EQ(a->hits, THREADS * HITS);
	CHECK_EQ(b->hits, THREADS * HITS);
	CHECK_EQ(a->fires + b->fires, 1);
	CHECK_EQ(a->drops + b->drops, 2 * THREADS * HITS - 1);
	CHECK_EQ(page->claimed, 1);
	CHECK(fire);
	CHECK_EQ(page->stats[fire->trigger].fires, 1);
	CHECK_EQ(fire->ip, (uintptr_t)(fire->trigger ? second : first));
	for (int i = 1; i < PTBPF_MAX_FIRES; i++)
		CHECK_EQ(page->published[i], 0);
}

TEST(one_fire_of_eight_threads_and_two_triggers)
{
	static const struct ptbpf_trigger triggers[2];

	for (int i = 0; i < ROUNDS; i++) {
		struct target target;
		struct evaluator *evaluator = set_up(&target, triggers, true);

		run(&target, 'g');
		check_one_fire(evaluator);
		target_end(&target);
		evaluator_close(evaluator);
	}
}

TEST(one_fire_also_with_the_ring_buffer_full)
{
	static const struct ptbpf_trigger triggers[2];

	for (int i = 0; i < ROUNDS; i++) {
		struct target target;
		struct evaluator *evaluator = set_up(&target, triggers, true);
		struct evaluator_drops drops;

		run(&target, 'b');
		run(&target, 'g');
		check_one_fire(evaluator);
		evaluator_read_drops(evaluator, &drops);
		CHECK_EQ(drops.wakes, 1);
		CHECK(drops.records > 0);
		target_end(&target);
		evaluator_close(evaluator);
	}
}

TEST(no_fire_is_lost_or_doubled_in_multi_mode)
{
	static const struct ptbpf_trigger triggers[2];
	struct target target;
	struct evaluator *evaluator = set_up(&target, triggers, false);
	const struct ptbpf_fire_page *page = evaluator_fire_page(evaluator);
	uint64_t fires, drops;

	run(&target, 'g');
	fires = page->stats[0].fires + page->stats[1].fires;
	drops = page->stats[0].drops + page->stats[1].drops;
	CHECK_EQ(fires + drops, 2 * THREADS * HITS);
	CHECK_EQ(page->claimed, fires + drops);
	for (uint64_t n = page->claimed - PTBPF_MAX_FIRES + 1; n <= page->claimed; n++) {
		const struct ptbpf_fire *fire = fire_number(evaluator, n);

		if (!fire) {
			CHECK(drops-- > 0);
			continue;
		}
		CHECK_EQ(fire->sequence, n);
		CHECK_EQ(fire->ip, (uintptr_t)(fire->trigger ? second : first));
	}
	target_end(&target);
	evaluator_close(evaluator);
}

TEST(counts_are_exact_when_threads_race)
{
	static const struct ptbpf_trigger triggers[2] = {
		{ .after = 30, .every = 7 },
		{ .rate_count = 5, .rate_ns = 3600000000000ull },
	};
	struct target target;
	struct evaluator *evaluator = set_up(&target, triggers, false);
	const struct ptbpf_fire_page *page = evaluator_fire_page(evaluator);

	run(&target, 'g');
	CHECK_EQ(page->stats[0].fires + page->stats[0].drops, (THREADS * HITS - 30) / 7);
	CHECK_EQ(page->stats[1].fires + page->stats[1].drops, 5);
	target_end(&target);
	evaluator_close(evaluator);
}

UNIT_MAIN("bpf/race")
