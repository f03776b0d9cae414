// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: decode/engine decode/blocks decode/insns decode/walk decode/stream decode/images
 * links: decode/insn_cache decode/branch decode/build decode/parallel base/clock image/insn
 * links: image/space image/files image/object image/symbols image/symtab image/plt image/match
 * links: image/debug_file image/demangle snapshot/recording
 */
#include "decode/decode.h"
#include "decode/parallel.h"

#include <errno.h>

#include "../tools/decode_agree.h"
#include "../tools/walker.h"
#include "base/mem.h"
#include "unit.h"

#define PID 10
#define TID 11
#define BASE 0x7f0000401000

struct fixture {
	struct walker walker;
	struct recording recording;
	struct space *space;
	char path[512];
};

static void write_file(const char *path, const void *bytes, size_t size)
{
	scoped_file FILE *file = fopen(path, "w");

	CHECK(file && fwrite(bytes, 1, size, file) == size);
}

static void add_chunk(struct recording *recording, pid_t tid, const uint8_t *data, size_t size,
		      enum recording_join join)
{
	struct recording_chunk chunk = { .pid = PID, .tid = tid, .join = join, .size = size };

	chunk.data = malloc(size + 1);
	memcpy(chunk.data, data, size);
	CHECK_EQ(recording_add_chunk(recording, &chunk), 0);
}

static void open_space(struct fixture *f)
{
	struct space_map_request request = { .pid = PID, .addr = BASE, .path = f->path };

	request.len = f->walker.code_size;
	snprintf(f->path, sizeof(f->path), "%s/decode.%d", getenv("TMPDIR") ?: "/tmp", getpid());
	write_file(f->path, f->walker.code, f->walker.code_size);
	CHECK_EQ(space_new(NULL, &f->space), 0);
	CHECK_EQ(space_map(f->space, &request), 0);
	CHECK_EQ(space_freeze(f->space), 0);
}

static void walk(struct fixture *f, unsigned int seed, size_t n_insns, size_t bytes, uint32_t rare,
		 unsigned int max_bits)
{
	memset(f, 0, sizeof(*f));
	f->walker = (struct walker){
		.seed = seed, .base = BASE, .psb_period = 700, .max_bits = max_bits, .tsc = 1000
	};
	CHECK(walker_make_program(&f->walker, n_insns));
	CHECK(walker_walk(&f->walker, bytes, rare));
	add_chunk(&f->recording, TID, f->walker.trace, f->walker.trace_size, RECORDING_JOIN_BIRTH);
	open_space(f);
}

static void finish(struct fixture *f)
{
	unlink(f->path);
	space_free(f->space);
	recording_fini(&f->recording);
	walker_fini(&f->walker);
}

typedef VEC(struct branch) branch_list;

static int collect(void *ctx, const struct branch *branches, size_t n)
{
	branch_list *list = ctx;

	for (size_t i = 0; i < n; i++)
		CHECK_EQ(vec_push(list, branches[i]), 0);
	return 0;
}

static void print(const char *what, const struct branch *b)
{
	fprintf(stderr, "  %s %s %lx -> %lx (%u)\n", what, branch_kind_name(b->kind), b->from,
		b->to, b->insns);
}

static void check_same(const struct branch *want, const struct branch *got, size_t i)
{
	uint8_t flags = got->flags & BRANCH_INDIRECT;

	(void)flags;
	if (want->kind == got->kind && want->from == got->from && want->to == got->to &&
	    want->insns == got->insns && want->from_size == got->from_size && want->gap == got->gap)
		return;
	fprintf(stderr, "event %zu:\n", i);
	for (size_t j = i < 6 ? i : 6; j; j--)
		print("before", want - j);
	print("wanted", want);
	print("got   ", got);
	exit(1);
}

static void check_walk(struct fixture *f)
{
	struct decode_thread_stats stats;
	branch_list list = { 0 };
	uint64_t time_ns = 0;

	CHECK_EQ(decode_thread(&f->recording, f->space, TID, collect, &list, &stats), 0);
	for (size_t i = 0; i < list.len && i < f->walker.events.len; i++) {
		check_same(&f->walker.events.data[i], &list.data[i], i);
		CHECK(list.data[i].time_ns >= time_ns && list.data[i].time_ns <= f->walker.tsc);
		time_ns = list.data[i].time_ns;
	}
	CHECK_EQ(list.len, f->walker.events.len);
	CHECK_EQ(stats.instructions, f->walker.executed);
	CHECK_EQ(stats.bytes, f->walker.trace_size);
	vec_free(&list);
}

TEST(a_walk_is_decoded_to_the_letter)
{
	struct fixture f;

	for (unsigned int seed = 1; seed <= 40; seed++) {
		walk(&f, seed, seed % 2 ? 300 : 20000, 20000, 0, seed % 3 ? 6 : 47);
		check_walk(&f);
		CHECK(agree_thread(&f.recording, f.space, PID, TID, 64));
		finish(&f);
	}
}

TEST(signals_and_overflows_lose_no_more_than_they_must)
{
	struct fixture f;
	uint64_t gaps = 0;

	for (unsigned int seed = 100; seed < 140; seed++) {
		struct decode_thread_stats stats;
		branch_list list = { 0 };

		walk(&f, seed, seed % 2 ? 300 : 20000, 20000, 40, seed % 3 ? 6 : 47);
		check_walk(&f);
		CHECK_EQ(decode_thread(&f.recording, f.space, TID, collect, &list, &stats), 0);
		CHECK_EQ(stats.gaps, stats.error_gaps);
		gaps += stats.gaps;
		vec_free(&list);
		finish(&f);
	}
	CHECK(gaps > 40);
}

/* A ring is cut anywhere: what follows its first PSB is a suffix of the whole. */
TEST(any_cut_decodes_to_a_suffix)
{
	struct fixture f;

	walk(&f, 7, 500, 8000, 0, 6);
	for (size_t cut = 1; cut < f.walker.trace_size; cut += 97) {
		struct recording recording = { 0 };
		struct decode_thread_stats stats;
		branch_list list = { 0 };

		add_chunk(&recording, TID, f.walker.trace + cut, f.walker.trace_size - cut,
			  RECORDING_JOIN_WRAPPED);
		CHECK_EQ(decode_thread(&recording, f.space, TID, collect, &list, &stats), 0);
		CHECK(list.len >= 1);
		CHECK_EQ(list.data[0].kind, BRANCH_GAP);
		CHECK_EQ(list.data[0].gap, GAP_START);
		CHECK_EQ(stats.error_gaps, 0);
		/* GAP and BEGIN, and the first event counts from there. */
		for (size_t i = 3; i < list.len; i++)
			check_same(&f.walker.events.data[f.walker.events.len - list.len + i],
				   &list.data[i], i);
		vec_free(&list);
		recording_fini(&recording);
	}
	finish(&f);
}

/* The end of a trace is cut anywhere: what is there decodes to a prefix, without an error. */
TEST(any_end_decodes_to_a_prefix)
{
	struct fixture f;

	walk(&f, 8, 500, 8000, 0, 6);
	for (size_t size = 64; size < f.walker.trace_size; size += 53) {
		struct recording recording = { 0 };
		struct decode_thread_stats stats;
		branch_list list = { 0 };

		add_chunk(&recording, TID, f.walker.trace, size, RECORDING_JOIN_BIRTH);
		CHECK_EQ(decode_thread(&recording, f.space, TID, collect, &list, &stats), 0);
		CHECK_EQ(stats.error_gaps, 0);
		for (size_t i = 0; i + 1 < list.len; i++)
			check_same(&f.walker.events.data[i], &list.data[i], i);
		vec_free(&list);
		recording_fini(&recording);
	}
	finish(&f);
}

/* Damaged bytes: an error is a gap, decoding ends, time never runs back. */
TEST(damaged_bytes_make_gaps_and_decoding_goes_on)
{
	unsigned int seed = 5;
	struct fixture f;
	uint64_t errors = 0;

	walk(&f, 9, 500, 6000, 100, 6);
	for (int round = 0; round < 300; round++) {
		struct recording recording = { 0 };
		struct decode_thread_stats stats;
		branch_list list = { 0 };
		uint64_t time_ns = 0;

		add_chunk(&recording, TID, f.walker.trace, f.walker.trace_size,
			  RECORDING_JOIN_BIRTH);
		for (int i = 0; i < 4; i++)
			recording.chunks.data[0].data[(size_t)rand_r(&seed) % f.walker.trace_size] =
				(uint8_t)rand_r(&seed);
		CHECK_EQ(decode_thread(&recording, f.space, TID, collect, &list, &stats), 0);
		for (size_t i = 0; i < list.len; i++) {
			CHECK(list.data[i].time_ns >= time_ns);
			time_ns = list.data[i].time_ns;
		}
		errors += stats.error_gaps;
		vec_free(&list);
		recording_fini(&recording);
	}
	CHECK(errors > 100);
	finish(&f);
}

static int stop_at_once(void *ctx, const struct branch *branches, size_t n)
{
	(void)branches;
	(void)n;
	++*(int *)ctx;
	return -ECANCELED;
}

TEST(the_callback_stops_decoding)
{
	struct decode_thread_stats stats;
	struct fixture f;
	int calls = 0;

	walk(&f, 3, 300, 20000, 0, 6);
	CHECK_EQ(decode_thread(&f.recording, f.space, TID, stop_at_once, &calls, &stats),
		 -ECANCELED);
	CHECK_EQ(calls, 1);
	finish(&f);
}

static int hash_branches(void *ctx, const struct branch *branches, size_t n)
{
	uint64_t *hash = ctx;

	for (size_t i = 0; i < n; i++)
		*hash = (*hash ^ branches[i].from ^ branches[i].to ^ branches[i].time_ns) *
			0x100000001b3;
	return 0;
}

static int add_one(void *ctx)
{
	++*(uint64_t *)ctx;
	return 0;
}

static void count_progress(void *ctx, size_t done, size_t total)
{
	CHECK(done <= total);
	CHECK_EQ(done, ++*(size_t *)ctx);
}

TEST(workers_do_not_change_the_result)
{
	uint64_t expected[24] = { 0 };
	struct fixture f;

	walk(&f, 4, 2000, 60000, 50, 6);
	for (int i = 1; i < 24; i++)
		add_chunk(&f.recording, TID + i, f.walker.trace, f.walker.trace_size / (i + 1),
			  RECORDING_JOIN_BIRTH);
	for (unsigned int workers = 1; workers <= 5; workers++) {
		struct decode_job jobs[24] = { 0 };
		uint64_t hashes[24] = { 0 };
		size_t done = 0;
		struct decode_options options = { workers, count_progress, &done };

		for (int i = 0; i < 24; i++)
			jobs[i] = (struct decode_job){ .tid = TID + i,
						       .fn = hash_branches,
						       .ctx = &hashes[i],
						       .finish = add_one };
		CHECK_EQ(decode_parallel(&f.recording, f.space, jobs, 24, &options), 0);
		CHECK_EQ(done, 24);
		for (int i = 0; i < 24; i++) {
			CHECK(jobs[i].stats.branches > 0);
			if (workers == 1)
				expected[i] = hashes[i];
			CHECK_EQ(hashes[i], expected[i]);
		}
	}
	finish(&f);
}

TEST(a_failed_job_does_not_stop_the_others)
{
	struct decode_job jobs[2] = { 0 };
	uint64_t hash = 0;
	struct fixture f;
	int calls = 0;

	walk(&f, 5, 300, 20000, 0, 6);
	add_chunk(&f.recording, TID + 1, f.walker.trace, f.walker.trace_size, RECORDING_JOIN_BIRTH);
	jobs[0] = (struct decode_job){ .tid = TID, .fn = stop_at_once, .ctx = &calls };
	jobs[1] = (struct decode_job){ .tid = TID + 1, .fn = hash_branches, .ctx = &hash };
	CHECK_EQ(decode_parallel(&f.recording, f.space, jobs, 2, NULL), -ECANCELED);
	CHECK_EQ(jobs[1].result, 0);
	CHECK(hash);
	finish(&f);
}

TEST(tids_are_ordered_by_process_and_told_once)
{
	static const pid_t given[][2] = {
		{ 5, 9 }, { 2, 3 }, { 5, 5 }, { 2, 3 }, { 7, 9 }, { 2, 2 }
	};
	struct recording recording = { 0 };
	pid_t *tids;
	size_t n;

	CHECK_EQ(decode_tids(&recording, &tids, &n), 0);
	CHECK_EQ(n, 0);
	free(tids);
	for (size_t i = 0; i < ARRAY_SIZE(given); i++) {
		struct recording_chunk chunk = { .pid = given[i][0], .tid = given[i][1] };

		CHECK_EQ(recording_add_chunk(&recording, &chunk), 0);
	}
	CHECK_EQ(decode_tids(&recording, &tids, &n), 0);
	CHECK_EQ(n, 4);
	CHECK(tids[0] == 2 && tids[1] == 3 && tids[2] == 5 && tids[3] == 9);
	free(tids);
	recording_fini(&recording);
}

/* The counter has run for 300 days: packets carry its low 56 bits only. */
TEST(a_counter_above_56_bits_is_widened_by_the_chunks_time)
{
	const uint64_t now = (3ull << 56) + 5000;
	struct decode_thread_stats stats;
	branch_list list = { 0 };
	struct fixture f;

	walk(&f, 6, 300, 5000, 0, 6);
	f.recording.clock = (struct clock_conv){ .mult = 1, .shift = 0 };
	f.recording.chunks.data[0].end_ns = now;
	CHECK_EQ(decode_thread(&f.recording, f.space, TID, collect, &list, &stats), 0);
	CHECK(list.data[0].time_ns >= 3ull << 56 && list.data[0].time_ns < now + 100000);
	vec_free(&list);
	finish(&f);
}

/* The usual case: the counter started before CLOCK_MONOTONIC did. */
TEST(a_clock_that_was_0_before_the_counter_widens_as_well)
{
	const uint64_t now = (3ull << 56) + 5000, early = 1000000;
	struct decode_thread_stats stats;
	branch_list list = { 0 };
	struct fixture f;

	walk(&f, 6, 300, 5000, 0, 6);
	f.recording.clock = (struct clock_conv){ .mult = 1, .shift = 0, .zero = -early };
	f.recording.chunks.data[0].end_ns = now - early;
	CHECK_EQ(decode_thread(&f.recording, f.space, TID, collect, &list, &stats), 0);
	CHECK(list.data[0].time_ns >= (3ull << 56) - early && list.data[0].time_ns < now);
	vec_free(&list);
	finish(&f);
}

TEST(the_side_band_builds_the_space)
{
	struct recording recording = { 0 };
	const struct space_mapping **mappings;
	struct recording_event events[] = {
		{ .kind = RECORDING_MAP,
		  .time_ns = 1,
		  .pid = PID,
		  .tid = PID,
		  .map = { .addr = 0x1000, .len = 0x1000, .path = strdup("/gone/a") } },
		{ .kind = RECORDING_MAP,
		  .time_ns = 1,
		  .pid = -1,
		  .tid = 0,
		  .map = { .addr = 0x9000,
			   .len = 0x1000,
			   .path = strdup("[kernel.kallsyms]_text") } },
		{ .kind = RECORDING_FORK,
		  .time_ns = 2,
		  .pid = PID,
		  .tid = PID + 1,
		  .parent = { PID, PID } },
		{ .kind = RECORDING_FORK,
		  .time_ns = 3,
		  .pid = 20,
		  .tid = 20,
		  .parent = { PID, PID } },
		{ .kind = RECORDING_COMM,
		  .time_ns = 4,
		  .pid = 20,
		  .tid = 20,
		  .comm = { "x", true } },
		{ .kind = RECORDING_MAP,
		  .time_ns = 5,
		  .pid = 20,
		  .tid = 20,
		  .map = { .addr = 0x1000, .len = 0x1000, .path = strdup("/gone/b") } },
	};
	struct space *space;

	for (size_t i = 0; i < ARRAY_SIZE(events); i++)
		CHECK_EQ(recording_add_event(&recording, &events[i]), 0);
	CHECK_EQ(space_new(NULL, &space), 0);
	CHECK_EQ(decode_build_space(&recording, space), 0);
	CHECK_EQ(space_freeze(space), 0);
	CHECK_EQ(space_mappings(space, PID, &mappings), 1);
	CHECK_EQ(space_mappings(space, 20, &mappings), 2);
	CHECK_STR(mappings[0]->path, "/gone/a");
	CHECK_EQ(mappings[0]->to_ns, 4);
	CHECK_STR(space_find(space, 20, 0x1800, 6)->path, "/gone/b");
	CHECK_STR(space_find(space, PID, 0x1800, 6)->path, "/gone/a");
	CHECK(!space_find(space, -1, 0x9000, 6));
	space_free(space);
	recording_fini(&recording);
}

UNIT_MAIN("unit/decode")
