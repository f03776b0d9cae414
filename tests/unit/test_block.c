// SPDX-License-Identifier: GPL-2.0-only
/*
 * Plans against the truth: random programs of a few instruction kinds run on a small interpreter of
 * their own, one instruction at a time; every stop, and places between stops as signals would make
 * them, must resolve to exactly what was executed.
 * links: record/soft/block_alu record/soft/block_cache record/soft/block_exec record/soft/block_mem
 * links: record/soft/block_outcome record/soft/block_plan record/soft/block_resolve
 * links: record/soft/block_vec image/insn image/insn_ops
 */
#include <errno.h>

#include "base/vec.h"
#include "block_machine.h"
#include "record/soft/block.h"
#include "unit.h"

struct tally {
	uint64_t plans, decisions, instructions, places, singles;
};

struct truth {
	VEC(struct block_event) events;
	uint64_t instructions;
};

static bool is_stop(const struct block_plan *plan, uint64_t ip)
{
	uint64_t stops[BLOCK_REGISTERS];
	size_t n = block_plan_stops(plan, stops);

	for (size_t i = 0; i < n; i++) {
		if (stops[i] == ip)
			return true;
	}
	return false;
}

static void check_path(struct machine *m, struct block_plan *plan, struct block_cache *cache,
		       const struct block_reader *reader, const struct truth *truth)
{
	struct user_regs_struct regs;
	struct block_path path;

	get_regs(m, &regs);
	CHECK_EQ(block_plan_resolve(plan, cache, &regs, reader, &path), 0);
	CHECK_EQ(path.instructions, truth->instructions);
	CHECK_EQ(path.n_events, truth->events.len);
	for (size_t i = 0; i < path.n_events; i++) {
		CHECK_EQ(path.events[i].from, truth->events.data[i].from);
		CHECK_EQ(path.events[i].to, truth->events.data[i].to);
		CHECK_EQ(path.events[i].kind, truth->events.data[i].kind);
		CHECK_EQ(path.events[i].return_address, truth->events.data[i].return_address);
	}
}

static bool is_barrier(const uint64_t *barriers, size_t n, uint64_t ip)
{
	for (size_t i = 0; i < n; i++) {
		if (barriers[i] == ip)
			return true;
	}
	return false;
}

/* block_outcome() of the next instruction against what the step then does. */
static void check_outcome(struct machine *m, struct block_cache *cache,
			  const struct block_reader *reader, const struct machine *after,
			  const struct flow *flow)
{
	struct block_event event;
	struct user_regs_struct regs;
	bool has_event;
	uint64_t next;

	get_regs(m, &regs);
	if (block_outcome(cache, &regs, reader, &event, &has_event, &next)) {
		CHECK_EQ(m->code[m->ip - CODE], 0x0f); /* syscall */
		CHECK_EQ(m->code[m->ip - CODE + 1], 0x05);
		return;
	}
	CHECK_EQ(next, after->ip);
	CHECK_EQ(has_event, flow->has_event);
	if (has_event)
		CHECK(event.from == flow->event.from && event.to == flow->event.to &&
		      event.kind == flow->event.kind &&
		      event.return_address == flow->event.return_address);
}

static bool has_register(const uint64_t registers[BLOCK_REGISTERS], uint64_t ip)
{
	for (size_t r = 0; r < BLOCK_REGISTERS; r++) {
		if (registers[r] == ip)
			return true;
	}
	return false;
}

/* Every stop has a register, and no register stands where the thread passes. */
static void check_registers(const struct block_plan *plan, const struct block_cache *cache,
			    uint64_t registers[BLOCK_REGISTERS])
{
	uint64_t next[BLOCK_REGISTERS], stops[BLOCK_REGISTERS];
	size_t n = block_plan_stops(plan, stops);

	block_plan_registers(plan, cache, registers, next);
	for (size_t i = 0; i < n; i++) {
		CHECK(has_register(next, stops[i]));
	}
	/* All are set; to 0 only for a program that jumps there. */
	CHECK(!has_register(next, 0) || is_stop(plan, 0));
	memcpy(registers, next, sizeof(next));
}

/* Executes to the plan's stop, checking some places on the way. False: the program is over. */
static bool run_plan(struct machine *m, struct block_plan *plan, struct block_cache *cache,
		     const struct block_reader *reader, struct truth *truth, struct tally *tally,
		     const uint64_t *barriers, size_t n_barriers,
		     const uint64_t registers[BLOCK_REGISTERS])
{
	static struct machine before;
	const struct block_reader reader_before = { read_code, read_memory, &before };
	struct flow flow;
	bool is_checked;

	truth->events.len = 0;
	truth->instructions = 0;
	for (;;) {
		if (truth->instructions && is_stop(plan, m->ip))
			break;
		CHECK(!truth->instructions || !is_barrier(barriers, n_barriers, m->ip));
		CHECK(!truth->instructions || !has_register(registers, m->ip));
		if (m->others_write && rnd(m, 4) == 0)
			*(uint64_t *)(m->data + 8 * rnd(m, 24)) = rnd(m, 12) - 3;
		if (rnd(m, 64) == 0) {
			check_path(m, plan, cache, reader, truth);
			tally->places++;
			if (rnd(m, 4) == 0) /* a signal: another plan from here */
				return true;
		}
		is_checked = rnd(m, 256) == 0;
		if (is_checked)
			before = *m;
		if (!step(m, &flow))
			return false;
		if (is_checked)
			check_outcome(&before, cache, &reader_before, m, &flow);
		truth->instructions++;
		if (flow.has_event) {
			CHECK(vec_push(&truth->events, flow.event) == 0);
			tally->decisions += flow.event.kind != BLOCK_CALL;
		}
		CHECK(truth->instructions < 100000);
	}
	check_path(m, plan, cache, reader, truth);
	tally->instructions += truth->instructions;
	return true;
}

static const struct block_region regions[] = {
	{ DATA, DATA_SIZE, BLOCK_PRIVATE },
	{ STACK, STACK_SIZE, BLOCK_PRIVATE },
};

/* One random program for @steps steps at most. */
static void run_program(uint64_t seed, bool exclusive, size_t n_barriers, struct tally *tally)
{
	static struct machine machine;
	struct machine *m = &machine;
	const struct block_reader reader = { read_code, read_memory, m };
	struct truth truth = { { NULL, 0, 0 }, 0 };
	uint64_t barriers[8] = { 0 }, registers[BLOCK_REGISTERS] = { 0 };
	struct block_cache *cache;
	uint8_t seen[MAX_INSNS] = { 0 };
	struct block_plan *plan;
	struct flow flow;

	memset(m, 0, sizeof(*m));
	m->random = seed * 0x9e3779b97f4a7c15ull + 1;
	m->others_write = !exclusive;
	generate(m);
	for (size_t i = 0; i < n_barriers; i++)
		barriers[i] = m->ops[rnd(m, m->n)].addr;
	CHECK(block_cache_new(&cache) == 0 && block_plan_new(&plan) == 0);
	CHECK(block_cache_set_regions(cache, regions, 2) == 0);
	CHECK(block_cache_set_barriers(cache, barriers, n_barriers) == 0);
	block_cache_set_exclusive(cache, exclusive);
	for (;;) {
		struct user_regs_struct regs;
		unsigned int part;

		/* Most programs end in a loop without end; it is enough to see it begin. */
		if (seen[find_op(m, m->ip, &part) - m->ops]++ == 6)
			break;
		get_regs(m, &regs);
		if (block_plan_make(plan, cache, &regs, &reader)) {
			tally->singles++;
			if (!step(m, &flow))
				break;
			continue;
		}
		tally->plans++;
		check_registers(plan, cache, registers);
		if (!run_plan(m, plan, cache, &reader, &truth, tally, barriers, n_barriers,
			      registers))
			break;
	}
	vec_free(&truth.events);
	block_plan_free(plan);
	block_cache_free(cache);
}

static void run_programs(bool exclusive, size_t n_barriers, uint64_t decisions)
{
	struct tally tally = { 0 };

	for (uint64_t seed = 1; tally.decisions < decisions; seed++) {
		CHECK(seed < 1000000);
		run_program(seed, exclusive, n_barriers, &tally);
	}
	fprintf(stderr, "%llu plans, %.2f decisions each, %llu places between, %llu single steps\n",
		(unsigned long long)tally.plans, (double)tally.decisions / (double)tally.plans,
		(unsigned long long)tally.places, (unsigned long long)tally.singles);
	CHECK(tally.plans > decisions / 1000 && tally.places > tally.plans / 100);
}

TEST(random_programs_alone)
{
	run_programs(true, 0, 80000);
}

TEST(random_programs_while_others_write_memory)
{
	run_programs(false, 0, 80000);
}

TEST(random_programs_with_barriers)
{
	run_programs(true, 4, 30000);
}

UNIT_MAIN("unit/block")
