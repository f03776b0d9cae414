// SPDX-License-Identifier: GPL-2.0-only
/*
 * What plans keep to, one rule a test: what is single-stepped, where no stop may stand, how long a
 * path may be, which bytes are survived.
 * links: record/soft/block_alu record/soft/block_cache record/soft/block_exec record/soft/block_mem
 * links: record/soft/block_outcome record/soft/block_plan record/soft/block_resolve
 * links: record/soft/block_vec image/insn image/insn_ops
 */
#include <errno.h>

#include "base/vec.h"
#include "record/soft/block.h"
#include "unit.h"

#define CODE 0x400000ull

struct bytes {
	const uint8_t *code;
	size_t size;
	uint64_t reads;
};

static size_t read_bytes(void *ctx, uint64_t addr, void *buf, size_t size)
{
	struct bytes *bytes = ctx;

	bytes->reads++;
	if (addr < CODE || addr >= CODE + bytes->size)
		return 0;
	if (size > CODE + bytes->size - addr)
		size = CODE + bytes->size - addr;
	memcpy(buf, bytes->code + (addr - CODE), size);
	return size;
}

static size_t read_nothing(void *ctx, uint64_t addr, void *buf, size_t size)
{
	(void)ctx;
	(void)addr;
	(void)buf;
	(void)size;
	return 0;
}

struct bench {
	struct bytes bytes;
	struct block_reader reader;
	struct block_cache *cache;
	struct block_plan *plan;
	struct user_regs_struct regs;
};

static void bench_init(struct bench *bench, const uint8_t *code, size_t size)
{
	memset(bench, 0, sizeof(*bench));
	bench->bytes = (struct bytes){ code, size, 0 };
	bench->reader = (struct block_reader){ read_bytes, read_nothing, &bench->bytes };
	bench->regs.rip = CODE;
	bench->regs.cs = 0x33;
	CHECK(block_cache_new(&bench->cache) == 0 && block_plan_new(&bench->plan) == 0);
}

static void bench_fini(struct bench *bench)
{
	block_plan_free(bench->plan);
	block_cache_free(bench->cache);
}

static int bench_make(struct bench *bench)
{
	return block_plan_make(bench->plan, bench->cache, &bench->regs, &bench->reader);
}

static uint64_t only_stop(const struct bench *bench)
{
	uint64_t stops[BLOCK_REGISTERS];

	CHECK_EQ(block_plan_stops(bench->plan, stops), 1);
	return stops[0];
}

TEST(decoded_code_is_kept_until_it_is_invalidated)
{
	uint8_t code[] = { 0x90, 0x90, 0xeb, 0x02, 0x90, 0x90, 0x90, 0x0f, 0x05 };
	struct bench bench;
	uint64_t reads;

	bench_init(&bench, code, sizeof(code));
	CHECK_EQ(bench_make(&bench), 0);
	CHECK_EQ(only_stop(&bench), CODE + 7);
	reads = bench.bytes.reads;
	code[3] = 1; /* the jump's target */
	CHECK_EQ(bench_make(&bench), 0);
	CHECK_EQ(only_stop(&bench), CODE + 7);
	CHECK_EQ(bench.bytes.reads, reads);
	block_cache_invalidate(bench.cache, CODE + 3, 1);
	CHECK_EQ(bench_make(&bench), 0);
	CHECK_EQ(only_stop(&bench), CODE + 7);
	CHECK(bench.bytes.reads > reads);
	code[6] = 0xc3;
	block_cache_invalidate(bench.cache, CODE + 6, 1);
	CHECK_EQ(bench_make(&bench), 0);
	CHECK_EQ(only_stop(&bench), CODE + 6);
	bench_fini(&bench);
}

TEST(volatile_code_is_single_stepped)
{
	const uint8_t code[] = { 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
				 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
				 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x0f, 0x05 };
	struct bench bench;

	bench_init(&bench, code, sizeof(code));
	CHECK_EQ(block_cache_mark_volatile(bench.cache, CODE + 20, 10), 0);
	CHECK_EQ(bench_make(&bench), 0);
	CHECK(only_stop(&bench) <= CODE + 20 && only_stop(&bench) > CODE);
	bench.regs.rip = CODE + 20;
	CHECK_EQ(bench_make(&bench), -EAGAIN);
	block_cache_invalidate(bench.cache, 0, UINT64_MAX); /* keeps the mark */
	CHECK_EQ(bench_make(&bench), -EAGAIN);
	block_cache_invalidate(bench.cache, CODE + 16, 64);
	CHECK_EQ(bench_make(&bench), 0);
	CHECK_EQ(only_stop(&bench), CODE + 24);
	bench_fini(&bench);
}

TEST(what_only_executing_can_tell_is_single_stepped)
{
	static const char *const insns[] = { "\x0f\x05",
					     "\xcd\x80",
					     "\x9c",
					     "\x9d",
					     "\x8e\xd0",
					     "\x0f\x0b",
					     "\xff\x10",
					     "\xeb\xfe",
					     "\x06",
					     "\xcc",
					     "\xf1",
					     "\xcb",
					     "\x66\xe8\x10\x01",
					     "\x0f\x01\xd5",
					     "\xc7\xf8\x10\x10\x10\x10" };

	for (size_t i = 0; i < sizeof(insns) / sizeof(*insns); i++) {
		uint8_t code[32];
		struct bench bench;

		memset(code, 0x90, sizeof(code));
		memcpy(code, insns[i], strlen(insns[i]));
		bench_init(&bench, code, sizeof(code));
		CHECK_EQ(bench_make(&bench), -EAGAIN);
		bench.regs.cs = 0x23; /* 32-bit code */
		CHECK_EQ(bench_make(&bench), -EAGAIN);
		bench_fini(&bench);
	}
}

TEST(no_stop_beyond_user_space)
{
	/* mov $-0xa00000, %rax; call *%rax */
	const uint8_t code[] = { 0x48, 0xc7, 0xc0, 0x00, 0x00, 0x60, 0xff, 0xff, 0xd0, 0x90 };
	struct bench bench;

	bench_init(&bench, code, sizeof(code));
	CHECK_EQ(bench_make(&bench), 0);
	CHECK_EQ(only_stop(&bench), CODE + 7);
	bench.regs.rip = CODE + 7;
	bench.regs.rax = 0xffffffffff600000;
	CHECK_EQ(bench_make(&bench), -EAGAIN);
	bench_fini(&bench);
}

TEST(paths_are_limited)
{
	/* 1: dec %rcx; jnz 1b; syscall */
	const uint8_t code[] = { 0x48, 0xff, 0xc9, 0x75, 0xfb, 0x0f, 0x05 };
	struct block_path path;
	struct bench bench;

	bench_init(&bench, code, sizeof(code));
	bench.regs.rcx = 300;
	CHECK_EQ(bench_make(&bench), 0);
	CHECK_EQ(only_stop(&bench), CODE + 5);
	bench.regs.rip = CODE + 3;
	bench.regs.rcx = 0; /* a signal before the last turn's branch */
	bench.regs.eflags = 1 << 6 | 1 << 2;
	CHECK_EQ(block_plan_resolve(bench.plan, bench.cache, &bench.regs, &bench.reader, &path), 0);
	CHECK_EQ(path.instructions, 599);
	CHECK_EQ(path.n_events, 299);
	bench.regs.rip = CODE;
	bench.regs.rcx = 10000;
	CHECK_EQ(bench_make(&bench), 0);
	CHECK_EQ(only_stop(&bench), CODE + 5);
	bench.regs.rip = CODE + 5;
	CHECK_EQ(block_plan_resolve(bench.plan, bench.cache, &bench.regs, &bench.reader, &path), 0);
	CHECK_EQ(path.instructions, 20000);
	CHECK_EQ(path.n_events, 10000);
	bench.regs.rip = CODE;
	bench.regs.rcx = 100000000;
	CHECK_EQ(bench_make(&bench), 0);
	CHECK_EQ(only_stop(&bench), CODE + 3);
	bench_fini(&bench);
}

TEST(outcomes_of_32_bit_code)
{
	const uint8_t code[] = { 0x74, 0x10, 0xe8, 0, 0, 0, 0, 0xff, 0xe0, 0x40, 0xcd, 0x80 };
	struct block_event event;
	struct bench bench;
	bool has_event;
	uint64_t next;

	bench_init(&bench, code, sizeof(code));
	bench.regs.cs = 0x23;
	bench.regs.eflags = 1 << 6;
	CHECK_EQ(block_outcome(bench.cache, &bench.regs, &bench.reader, &event, &has_event, &next),
		 0);
	CHECK(has_event && event.kind == BLOCK_TAKEN && next == CODE + 0x12);
	bench.regs.rip = CODE + 2;
	CHECK_EQ(block_outcome(bench.cache, &bench.regs, &bench.reader, &event, &has_event, &next),
		 0);
	CHECK(event.kind == BLOCK_CALL && next == CODE + 7 && event.return_address == CODE + 7);
	bench.regs.rip = CODE + 7;
	bench.regs.rax = 0xffffffff12345678;
	CHECK_EQ(block_outcome(bench.cache, &bench.regs, &bench.reader, &event, &has_event, &next),
		 0);
	CHECK(event.kind == BLOCK_INDIRECT && next == 0x12345678 && !event.return_address);
	bench.regs.rip = CODE + 9; /* inc eax: REX in 64-bit mode */
	CHECK_EQ(block_outcome(bench.cache, &bench.regs, &bench.reader, &event, &has_event, &next),
		 0);
	CHECK(!has_event && next == CODE + 10);
	bench.regs.rip = CODE + 10;
	CHECK_EQ(block_outcome(bench.cache, &bench.regs, &bench.reader, &event, &has_event, &next),
		 -EAGAIN);
	bench_fini(&bench);
}

TEST(rep_strings_run_in_one_go)
{
	const uint8_t code[] = { 0x90, 0xf3, 0xaa, 0x90, 0x0f, 0x05 };
	struct block_path path;
	struct bench bench;

	bench_init(&bench, code, sizeof(code));
	CHECK_EQ(bench_make(&bench), 0);
	CHECK_EQ(only_stop(&bench), CODE + 4);
	bench.regs.rip = CODE + 1; /* a signal amid its iterations */
	bench.regs.rcx = 77;
	CHECK_EQ(block_plan_resolve(bench.plan, bench.cache, &bench.regs, &bench.reader, &path), 0);
	CHECK_EQ(path.instructions, 1);
	bench.regs.rip = CODE + 4;
	CHECK_EQ(block_plan_resolve(bench.plan, bench.cache, &bench.regs, &bench.reader, &path), 0);
	CHECK_EQ(path.instructions, 3);
	bench.regs.rip = CODE + 5;
	CHECK_EQ(block_plan_resolve(bench.plan, bench.cache, &bench.regs, &bench.reader, &path),
		 -ENOENT);
	bench_fini(&bench);
}

TEST(any_bytes_are_survived)
{
	static uint8_t code[4096];
	uint64_t state = 5, made = 0;

	for (int round = 0; round < 300; round++) {
		struct bench bench;

		for (size_t i = 0; i < sizeof(code); i++) {
			state = state * 6364136223846793005ull + 1442695040888963407ull;
			code[i] = (uint8_t)(state >> 56);
			if ((state >> 40) % 4 == 0)
				code[i] = "\x48\x0f\x8b\x74\xeb\xe8\x83\xff"[(state >> 48) % 8];
		}
		bench_init(&bench, code, sizeof(code));
		for (int i = 0; i < 100; i++) {
			struct block_path path;
			uint64_t stops[BLOCK_REGISTERS];

			state = state * 6364136223846793005ull + 1442695040888963407ull;
			bench.regs.rip = CODE + (state >> 33) % sizeof(code);
			bench.regs.rsp = state;
			if (bench_make(&bench))
				continue;
			made++;
			CHECK(block_plan_stops(bench.plan, stops) > 0);
			bench.regs.rip = stops[0];
			CHECK_EQ(block_plan_resolve(bench.plan, bench.cache, &bench.regs,
						    &bench.reader, &path),
				 0);
		}
		bench_fini(&bench);
	}
	CHECK(made > 1000);
}

UNIT_MAIN("unit/block_rules")
