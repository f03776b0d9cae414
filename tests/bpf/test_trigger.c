/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * trigger.bpf.c on the running kernel: what fires, what not, and what is counted.
 * links: record/evaluator record/evaluator_keeper record/evaluator_probes base/log base/clock
 * links: record/trigger_match record/trigger_condition base/duration
 */
#include "target.h"

#include <limits.h>

#include "base/clock.h"
#include "record/trigger_match.h"

static volatile long sink;

NOINLINE static long probed(long a, long b, long c, long d, long e, long f)
{
	sink += a + b + c + d + e + f;
	return sink;
}

NOINLINE static long other(long a)
{
	sink ^= a;
	return sink;
}

/* Each word is a call: word 1..99 calls probed(word, ...), 'i' calls it with an int of -1. */
static void caller(const struct target *target)
{
	for (;;) {
		const int word = target_next(target);

		if (word == 'i') {
			/* as a caller of f(int) does it: the upper half is zero */
			probed((long)(uint32_t)-1, 0, 0, 0, 0, 0);
		} else if (word == 'o') {
			other(7);
		} else if (word == 'q') {
			_exit(7);
		} else {
			probed(word, 2, 3, -4, 5, 6);
		}
		target_say(target, (uint64_t)own_tid());
	}
}

struct fixture {
	struct target target;
	struct evaluator *evaluator;
	struct ptbpf_fire_page *page;
};

static struct fixture set_up(const struct ptbpf_trigger *trigger, bool single)
{
	const struct evaluator_config config = {
		.triggers = trigger, .n_triggers = 1, .single = single, .multi_thread = true
	};
	struct fixture f = { .evaluator = must_open(&config) };

	f.page = evaluator_fire_page(f.evaluator);
	f.target = target_start(caller);
	CHECK_EQ(evaluator_add_thread(f.evaluator, f.target.pid, f.target.pid), 0);
	must_attach(f.evaluator, 0, f.target.pid, probed);
	return f;
}

static void tear_down(struct fixture *f)
{
	target_end(&f->target);
	evaluator_close(f->evaluator);
}

static uint64_t call(const struct fixture *f, int word)
{
	target_tell(&f->target, word);
	return target_hear(&f->target);
}

/* Calls probed() @n times and returns how many of these fired. */
static uint64_t calls(const struct fixture *f, int word, int n)
{
	const uint64_t before = f->page->stats[0].fires;

	for (int i = 0; i < n; i++)
		call(f, word);
	return f->page->stats[0].fires - before;
}

TEST(a_fire_carries_thread_place_arguments_and_time)
{
	const struct ptbpf_trigger trigger = {};
	struct fixture f = set_up(&trigger, true);
	const uint64_t before = clock_now_ns();
	const struct ptbpf_fire *fire;

	CHECK(!fire_number(f.evaluator, 1));
	call(&f, 1);
	fire = fire_number(f.evaluator, 1);
	CHECK(fire);
	CHECK_EQ(fire->ip, (uintptr_t)probed); /* a forked target lies where we do */
	CHECK_EQ(fire->args[0], 1);
	CHECK_EQ(fire->args[1], 2);
	CHECK_EQ(fire->args[2], 3);
	CHECK_EQ(fire->args[3], -4);
	CHECK_EQ(fire->args[4], 5);
	CHECK_EQ(fire->args[5], 6);
	CHECK_EQ(fire->pid, f.target.pid);
	CHECK_EQ(fire->tid, f.target.pid);
	CHECK_EQ(fire->ns_tid, f.target.pid);
	CHECK_EQ(fire->hit, 1);
	CHECK_EQ(fire->trigger, 0);
	CHECK_EQ(fire->sequence, 1);
	CHECK(fire->sp != 0);
	CHECK(fire->time_ns >= before && fire->time_ns <= clock_now_ns());
	CHECK_STR(fire->comm, "test_trigger");
	tear_down(&f);
}

TEST(the_first_fire_disarms_in_single_mode)
{
	const struct ptbpf_trigger trigger = {};
	struct fixture f = set_up(&trigger, true);

	CHECK_EQ(calls(&f, 1, 10), 1);
	CHECK_EQ(f.page->stats[0].hits, 10);
	CHECK_EQ(f.page->stats[0].drops, 9);
	CHECK_EQ(f.page->claimed, 1);
	CHECK(!fire_number(f.evaluator, 2));
	tear_down(&f);
}

TEST(multi_mode_stays_armed_and_reuses_slots)
{
	const struct ptbpf_trigger trigger = {};
	struct fixture f = set_up(&trigger, false);

	CHECK_EQ(calls(&f, 5, PTBPF_MAX_FIRES + 6), PTBPF_MAX_FIRES + 6);
	CHECK_EQ(f.page->stats[0].drops, 0);
	CHECK(!fire_number(f.evaluator, 6)); /* overwritten by 70 */
	CHECK(fire_number(f.evaluator, 7));
	CHECK_EQ(fire_number(f.evaluator, 70)->hit, 70);
	CHECK_EQ(fire_number(f.evaluator, 70)->sequence, 70);
	tear_down(&f);
}

TEST(a_slot_in_use_drops_the_fire)
{
	const struct ptbpf_trigger trigger = {};
	struct fixture f = set_up(&trigger, false);

	CHECK_EQ(calls(&f, 1, PTBPF_MAX_FIRES), PTBPF_MAX_FIRES);
	f.page->published[1] = 0; /* as while it is being written */
	CHECK_EQ(calls(&f, 1, 3), 2);
	CHECK_EQ(f.page->stats[0].drops, 1);
	CHECK(fire_number(f.evaluator, PTBPF_MAX_FIRES + 1));
	CHECK(!fire_number(f.evaluator, PTBPF_MAX_FIRES + 2));
	CHECK(fire_number(f.evaluator, PTBPF_MAX_FIRES + 3));
	tear_down(&f);
}

TEST(hits_of_untraced_threads_cost_no_hit)
{
	const struct ptbpf_trigger trigger = {};
	struct fixture f = set_up(&trigger, true);

	CHECK_EQ(evaluator_remove_thread(f.evaluator, f.target.pid), 0);
	CHECK_EQ(calls(&f, 1, 5), 0);
	CHECK_EQ(f.page->stats[0].hits, 0);
	CHECK_EQ(evaluator_remove_thread(f.evaluator, f.target.pid), -ESRCH);
	CHECK_EQ(evaluator_add_thread(f.evaluator, f.target.pid, f.target.pid), 0);
	CHECK_EQ(evaluator_add_thread(f.evaluator, f.target.pid, f.target.pid), 0);
	CHECK_EQ(calls(&f, 1, 5), 1);
	CHECK_EQ(f.page->stats[0].hits, 5);
	tear_down(&f);
}

TEST(another_process_has_no_probe_and_no_hit)
{
	const struct ptbpf_trigger trigger = {};
	struct fixture f = set_up(&trigger, true);
	struct target bystander = target_start(caller);
	const struct fixture b = { .target = bystander };

	call(&b, 1);
	CHECK_EQ(f.page->stats[0].hits, 0);
	/* in the scope, but not probed */
	CHECK_EQ(evaluator_add_thread(f.evaluator, bystander.pid, bystander.pid), 0);
	call(&b, 1);
	CHECK_EQ(f.page->stats[0].hits, 0);
	target_end(&bystander);
	tear_down(&f);
}

static struct ptbpf_trigger argument(uint32_t arg, uint32_t op, uint64_t value)
{
	return (struct ptbpf_trigger){ .n_conditions = 1, .conditions = { { arg, op, value } } };
}

/* One call with arguments (5, 2, 3, -4, 5, 6): does it fire? */
static bool fires_with(struct ptbpf_trigger trigger)
{
	struct fixture f = set_up(&trigger, true);
	const bool fired = calls(&f, 5, 1) == 1;

	CHECK_EQ(f.page->stats[0].hits, 1);
	tear_down(&f);
	return fired;
}

TEST(argument_conditions_compare_as_written)
{
	const uint32_t is_signed = PTBPF_OP_SIGNED;

	CHECK(fires_with(argument(0, PTBPF_OP_EQ, 5)));
	CHECK(!fires_with(argument(0, PTBPF_OP_EQ, 6)));
	CHECK(fires_with(argument(1, PTBPF_OP_NE, 3)));
	CHECK(!fires_with(argument(2, PTBPF_OP_LT, 3)));
	CHECK(fires_with(argument(2, PTBPF_OP_LE, 3)));
	CHECK(fires_with(argument(3, PTBPF_OP_GT, 5)));
	CHECK(!fires_with(argument(3, PTBPF_OP_GT | is_signed, 5)));
	CHECK(fires_with(argument(3, PTBPF_OP_EQ | is_signed, (uint64_t)-4)));
	CHECK(fires_with(argument(3, PTBPF_OP_GE | is_signed, (uint64_t)-4)));
	CHECK(!fires_with(argument(4, PTBPF_OP_GE, 6)));
	CHECK(fires_with(argument(5, PTBPF_OP_GE, 6)));
}

TEST(every_condition_must_hold)
{
	struct ptbpf_trigger trigger = argument(0, PTBPF_OP_EQ, 5);

	trigger.n_conditions = 3;
	trigger.conditions[1] = (struct ptbpf_condition){ 1, PTBPF_OP_EQ, 2 };
	trigger.conditions[2] = (struct ptbpf_condition){ 5, PTBPF_OP_EQ, 6 };
	CHECK(fires_with(trigger));
	trigger.conditions[2].value = 7;
	CHECK(!fires_with(trigger));
	trigger.n_conditions = 2; /* the third counts no more */
	CHECK(fires_with(trigger));
}

TEST(a_negative_int_in_a_zero_extended_register_is_negative)
{
	const struct ptbpf_trigger trigger =
		argument(0, PTBPF_OP_EQ | PTBPF_OP_SIGNED, (uint64_t)-1);
	struct fixture f = set_up(&trigger, true);

	CHECK_EQ(calls(&f, 1, 1), 0);
	CHECK_EQ(calls(&f, 'i', 1), 1);
	CHECK_EQ(fire_number(f.evaluator, 1)->args[0], 0xffffffffu);
	tear_down(&f);
}

TEST(tid_and_comm_narrow_the_scope)
{
	struct ptbpf_trigger trigger = { .flags = PTBPF_TRIGGER_HAS_COMM, .comm = "test_trigger" };

	CHECK(fires_with(trigger));
	strcpy(trigger.comm, "test_trigge");
	CHECK(!fires_with(trigger));
	strcpy(trigger.comm, "test_trigger2");
	CHECK(!fires_with(trigger));
	trigger.flags = PTBPF_TRIGGER_HAS_TID;
	trigger.tid = (uint32_t)getpid();
	CHECK(!fires_with(trigger));
}

TEST(after_and_every_count_what_passed_the_arguments)
{
	struct ptbpf_trigger trigger = argument(0, PTBPF_OP_EQ, 5);
	struct fixture f;

	trigger.after = 2;
	trigger.every = 3;
	f = set_up(&trigger, false);
	CHECK_EQ(calls(&f, 4, 10), 0); /* these do not count */
	CHECK_EQ(calls(&f, 5, 4), 0);  /* two skipped, then the first two of three */
	CHECK_EQ(calls(&f, 5, 1), 1);
	CHECK_EQ(calls(&f, 5, 2), 0);
	CHECK_EQ(calls(&f, 5, 1), 1);
	CHECK_EQ(f.page->stats[0].hits, 18);
	CHECK_EQ(f.page->stats[0].drops, 0);
	CHECK_EQ(fire_number(f.evaluator, 2)->hit, 18);
	tear_down(&f);
}

TEST(sample_lets_a_share_through)
{
	struct ptbpf_trigger trigger = { .flags = PTBPF_TRIGGER_HAS_SAMPLE, .sample_ppm = 0 };
	struct fixture f = set_up(&trigger, false);
	uint64_t fired;

	CHECK_EQ(calls(&f, 1, 50), 0);
	tear_down(&f);
	trigger.sample_ppm = 1000000;
	f = set_up(&trigger, false);
	CHECK_EQ(calls(&f, 1, 50), 50);
	tear_down(&f);
	trigger.sample_ppm = 250000;
	f = set_up(&trigger, false);
	fired = calls(&f, 1, 2000); /* 500, standard deviation 19 */
	CHECK(fired > 380 && fired < 620);
	tear_down(&f);
}

TEST(rate_bounds_the_fires_in_any_window)
{
	const struct ptbpf_trigger trigger = { .rate_count = 3, .rate_ns = 1500000000 };
	struct fixture f = set_up(&trigger, false);
	uint64_t start;

	CHECK_EQ(calls(&f, 1, 20), 3);
	CHECK_EQ(f.page->stats[0].drops, 0); /* a condition that failed, not a loss */
	start = fire_number(f.evaluator, 1)->time_ns;
	while (calls(&f, 1, 1) == 0)
		usleep(1000);
	CHECK(fire_number(f.evaluator, 4)->time_ns - start >= trigger.rate_ns);
	CHECK(calls(&f, 1, 20) <= 2);
	tear_down(&f);
}

TEST(two_triggers_count_apart)
{
	const struct ptbpf_trigger triggers[2] = { argument(0, PTBPF_OP_EQ, 99), {} };
	const struct evaluator_config config = { .triggers = triggers, .n_triggers = 2 };
	struct fixture f = { .evaluator = must_open(&config) };
	uint32_t first, second;

	f.page = evaluator_fire_page(f.evaluator);
	f.target = target_start(caller);
	CHECK_EQ(evaluator_add_thread(f.evaluator, f.target.pid, f.target.pid), 0);
	first = must_attach(f.evaluator, 0, f.target.pid, probed);
	second = must_attach(f.evaluator, 1, f.target.pid, other);
	CHECK(first != second);
	call(&f, 1);
	call(&f, 'o');
	call(&f, 'o');
	CHECK_EQ(f.page->stats[0].hits, 1);
	CHECK_EQ(f.page->stats[0].fires, 0);
	CHECK_EQ(f.page->stats[1].hits, 2);
	CHECK_EQ(f.page->stats[1].fires, 2);
	CHECK_EQ(fire_number(f.evaluator, 1)->trigger, 1);
	CHECK_EQ(fire_number(f.evaluator, 1)->attachment, second);
	CHECK_EQ(fire_number(f.evaluator, 1)->args[0], 7);
	evaluator_detach_probes(f.evaluator);
	call(&f, 'o');
	CHECK_EQ(f.page->stats[1].hits, 2);
	tear_down(&f);
}

TEST(a_wake_record_tells_of_the_fire)
{
	const struct ptbpf_trigger trigger = {};
	struct fixture f = set_up(&trigger, true);
	struct pollfd ready = { .fd = evaluator_fd(f.evaluator), .events = POLLIN };
	static struct records records;
	const struct ptbpf_record *record;

	target_tell(&f.target, 1);
	CHECK_EQ(poll(&ready, 1, 10000), 1);
	target_hear(&f.target);
	CHECK_EQ(evaluator_poll(f.evaluator, keep_record, &records), 0);
	record = find_record(&records, PTBPF_RECORD_WAKE, 0, NULL);
	CHECK(record);
	CHECK_EQ(record->tid, f.target.pid);
	CHECK_EQ(record->time_ns, fire_number(f.evaluator, 1)->time_ns);
	tear_down(&f);
}

TEST(the_page_is_shared_with_a_forked_process)
{
	const struct ptbpf_trigger trigger = {};
	struct fixture f = set_up(&trigger, true);
	int status, go[2];
	pid_t watcher;

	CHECK_EQ(pipe(go), 0);
	watcher = fork();
	if (watcher == 0) {
		char byte;

		close(go[1]);
		if (read(go[0], &byte, 1) != 1)
			_exit(1);
		_exit(fire_number(f.evaluator, 1) ? 0 : 2);
	}
	CHECK_EQ(calls(&f, 1, 1), 1);
	CHECK_EQ(write(go[1], "x", 1), 1);
	CHECK_EQ(waitpid(watcher, &status, 0), watcher);
	CHECK_EQ(status, 0);
	tear_down(&f);
}

TEST(attaching_to_what_is_not_there_fails_cleanly)
{
	const struct ptbpf_trigger trigger = {};
	struct fixture f = set_up(&trigger, true);
	const uint64_t offset = own_offset(probed);
	struct target gone = target_start(caller);
	uint32_t attachment;

	target_tell(&gone, 'q');
	target_end(&gone);
	CHECK_EQ(evaluator_add_thread(f.evaluator, gone.pid, gone.pid), -ESRCH);
	CHECK_EQ(evaluator_attach(f.evaluator, 0, gone.pid, own_path(), offset, &attachment),
		 -ESRCH);
	CHECK_EQ(evaluator_attach(f.evaluator, 0, f.target.pid, "/no/such/file", offset,
				  &attachment),
		 -ENOENT);
	CHECK(evaluator_attach(f.evaluator, 0, f.target.pid, "/", offset, &attachment) < 0);
	CHECK(evaluator_attach(f.evaluator, PTBPF_MAX_TRIGGERS, f.target.pid, own_path(), offset,
			       &attachment) == -EINVAL);
	CHECK_EQ(calls(&f, 1, 1), 1);
	tear_down(&f);
}

#define RANDOM_TRIGGERS 16
#define RANDOM_HITS 400

static uint64_t random_value(unsigned int *seed)
{
	static const uint64_t edges[] = { 0,          1,          2,          7,
					  0x7fffffff, 0x80000000, 0xffffffff, 0x100000000,
					  INT64_MAX,  1ull << 63, UINT64_MAX, (uint64_t)-2 };

	return edges[(size_t)rand_r(seed) % (sizeof(edges) / sizeof(edges[0]))];
}

static struct ptbpf_trigger random_trigger(unsigned int *seed)
{
	static const uint32_t shares[] = { 0, 1000000 };
	struct ptbpf_trigger trigger = { .n_conditions = (uint32_t)rand_r(seed) % 3 };

	for (uint32_t i = 0; i < trigger.n_conditions; i++) {
		trigger.conditions[i].arg = (uint32_t)rand_r(seed) % 6;
		trigger.conditions[i].op = (uint32_t)rand_r(seed) % 6;
		trigger.conditions[i].value = random_value(seed);
		if (rand_r(seed) & 1)
			trigger.conditions[i].op |= PTBPF_OP_SIGNED;
	}
	if (rand_r(seed) % 3 == 0)
		trigger.after = (uint64_t)rand_r(seed) % 20;
	if (rand_r(seed) % 3 == 0)
		trigger.every = (uint64_t)rand_r(seed) % 5;
	if (rand_r(seed) % 4 == 0) {
		trigger.rate_count = 1 + (uint64_t)rand_r(seed) % 9;
		trigger.rate_ns = 3600000000000ull;
	}
	if (rand_r(seed) % 4 == 0) {
		trigger.flags |= PTBPF_TRIGGER_HAS_SAMPLE;
		trigger.sample_ppm = shares[rand_r(seed) % 4 != 0];
	}
	return trigger;
}

/* The same hits in the target, from the seed that each word gives. */
static void random_args(unsigned int *seed, uint64_t args[6])
{
	for (int i = 0; i < 6; i++)
		args[i] = random_value(seed);
}

static void random_caller(const struct target *target)
{
	unsigned int seed = (unsigned int)target_next(target);

	for (int i = 0; i < RANDOM_HITS; i++) {
		uint64_t a[6];

		random_args(&seed, a);
		probed((long)a[0], (long)a[1], (long)a[2], (long)a[3], (long)a[4], (long)a[5]);
	}
	target_say(target, 0);
	target_next(target);
}

TEST(the_kernel_decides_as_the_stepper_does)
{
	struct ptbpf_trigger triggers[RANDOM_TRIGGERS];
	struct trigger_match matches[RANDOM_TRIGGERS] = {};
	uint64_t expected[RANDOM_TRIGGERS] = {}, total = 0;
	const struct evaluator_config config = { .triggers = triggers,
						 .n_triggers = RANDOM_TRIGGERS };
	unsigned int seed = 77, hits_seed = 42;
	struct target target = target_start(random_caller);
	struct evaluator *evaluator;

	for (int i = 0; i < RANDOM_TRIGGERS; i++)
		triggers[i] = random_trigger(&seed);
	evaluator = must_open(&config);
	CHECK_EQ(evaluator_add_thread(evaluator, target.pid, target.pid), 0);
	for (size_t i = 0; i < RANDOM_TRIGGERS; i++)
		must_attach(evaluator, i, target.pid, probed);
	target_tell(&target, 42);
	target_hear(&target);
	for (int k = 0; k < RANDOM_HITS; k++) {
		struct trigger_hit hit = { .time_ns = 1 + (uint64_t)k };

		random_args(&hits_seed, hit.args);
		for (int i = 0; i < RANDOM_TRIGGERS; i++)
			expected[i] += trigger_match(&matches[i], &triggers[i], &hit);
	}
	for (int i = 0; i < RANDOM_TRIGGERS; i++) {
		const struct ptbpf_trigger_stats *stats = &evaluator_fire_page(evaluator)->stats[i];

		CHECK_EQ(stats->hits, RANDOM_HITS);
		CHECK_EQ(stats->fires + stats->drops, expected[i]);
		total += expected[i];
		trigger_match_fini(&matches[i]);
	}
	CHECK(total > 100);
	target_end(&target);
	evaluator_close(evaluator);
}

UNIT_MAIN("bpf/trigger")
