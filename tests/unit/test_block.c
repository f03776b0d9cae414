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
#include "record/soft/block.h"
#include "unit.h"

#define CODE 0x400000ull
#define DATA 0x600000ull
#define STACK 0x7fff00000000ull
#define DATA_SIZE 8192
#define STACK_SIZE 65536
#define MAX_INSNS 400

enum kind {
	ADD_IMM,
	CMP_IMM,
	ADD_REG,
	SUB_REG,
	XOR_REG,
	TEST_REG,
	LOAD,
	STORE,
	STORE_INDEXED, /* [r15 + 8 * reg] where reg is masked before by AND_IMM */
	AND_IMM,
	PUSH,
	POP,
	JCC,
	JMP,
	CALL,
	CALL_REG,
	RET,
	LOOP,
	SYSCALL,
	LEA_CODE, /* reg = address of an instruction, for CALL_REG */
};

struct op {
	enum kind kind;
	unsigned int a, b; /* registers, condition */
	int imm;
	size_t target; /* index */
	uint64_t addr;
	unsigned int length;
};

struct machine {
	struct op ops[MAX_INSNS + 1];
	size_t n;
	uint8_t code[MAX_INSNS * 12];
	size_t code_size;
	uint8_t data[DATA_SIZE], stack[STACK_SIZE];
	uint64_t gpr[16], flags, ip;
	uint64_t random;
	bool others_write;
};

static uint64_t rnd(struct machine *m, uint64_t below)
{
	m->random = m->random * 6364136223846793005ull + 1442695040888963407ull;
	return (m->random >> 33) % below;
}

static void emit(struct machine *m, const void *bytes, size_t n)
{
	memcpy(m->code + m->code_size, bytes, n);
	m->code_size += n;
}

#define EMIT(...) emit(m, (uint8_t[]){ __VA_ARGS__ }, sizeof((uint8_t[]){ __VA_ARGS__ }))

static void emit_rel(struct machine *m, const struct op *op, size_t opcode_size)
{
	uint64_t target = m->ops[op->target].addr;
	int32_t rel = (int32_t)(target - (op->addr + opcode_size + 4));

	emit(m, &rel, 4);
}

static void emit_op(struct machine *m, struct op *op)
{
	size_t before = m->code_size;
	uint8_t a = (uint8_t)op->a, b = (uint8_t)op->b;
	int32_t imm = op->imm;

	switch (op->kind) {
	case ADD_IMM:
		EMIT(0x48, 0x83, 0xc0 | a, (uint8_t)imm);
		break;
	case CMP_IMM:
		EMIT(0x48, 0x83, 0xf8 | a, (uint8_t)imm);
		break;
	case AND_IMM:
		EMIT(0x48, 0x83, 0xe0 | a, (uint8_t)imm);
		break;
	case ADD_REG:
		EMIT(0x48, 0x01, 0xc0 | (b << 3) | a);
		break;
	case SUB_REG:
		EMIT(0x48, 0x29, 0xc0 | (b << 3) | a);
		break;
	case XOR_REG:
		EMIT(0x48, 0x31, 0xc0 | (b << 3) | a);
		break;
	case TEST_REG:
		EMIT(0x48, 0x85, 0xc0 | (b << 3) | a);
		break;
	case LOAD:
		EMIT(0x49, 0x8b, 0x87 | (a << 3));
		emit(m, &imm, 4);
		break;
	case STORE:
		EMIT(0x49, 0x89, 0x87 | (a << 3));
		emit(m, &imm, 4);
		break;
	case STORE_INDEXED:
		EMIT(0x49, 0x89, 0x04 | (a << 3), 0xc7 | (b << 3));
		break;
	case PUSH:
		EMIT(0x50 | a);
		break;
	case POP:
		EMIT(0x58 | a);
		break;
	case JCC:
		EMIT(0x0f, 0x80 | a);
		emit_rel(m, op, 2);
		break;
	case LOOP:
		EMIT(0xe2, 0x02, 0xeb, 0x05, 0xe9); /* loop +2; jmp +5; jmp target */
		emit_rel(m, op, 5);
		break;
	case JMP:
		EMIT(0xe9);
		emit_rel(m, op, 1);
		break;
	case CALL:
		EMIT(0xe8);
		emit_rel(m, op, 1);
		break;
	case CALL_REG:
		EMIT(0xff, 0xd0 | a);
		break;
	case RET:
		EMIT(0xc3);
		break;
	case SYSCALL:
		EMIT(0x0f, 0x05);
		break;
	case LEA_CODE:
		imm = (int32_t)m->ops[op->target].addr;
		EMIT(0x48, 0xc7, 0xc0 | a);
		emit(m, &imm, 4);
		break;
	}
	op->length = (unsigned int)(m->code_size - before);
}

static unsigned int random_reg(struct machine *m)
{
	static const uint8_t regs[] = { 0, 1, 2, 3, 5, 6, 7 };

	return regs[rnd(m, sizeof(regs))];
}

static void random_op(struct machine *m, struct op *op, size_t index)
{
	/* How often each kind comes. */
	static const uint8_t weights[] = { 6, 8, 4,  4, 3, 5, 10, 6, 2, 3,
					   4, 4, 22, 5, 5, 1, 4,  2, 1, 2 };
	uint64_t total = 0, pick;
	size_t span;

	for (size_t i = 0; i < sizeof(weights); i++)
		total += weights[i];
	pick = rnd(m, total);
	for (op->kind = 0; pick >= weights[op->kind]; op->kind++)
		pick -= weights[op->kind];
	op->a = random_reg(m);
	op->b = random_reg(m);
	op->imm = (int)rnd(m, 16) - 4;
	if (op->kind == LOAD || op->kind == STORE)
		op->imm = (int)rnd(m, 24) * 8;
	if (op->kind == AND_IMM)
		op->imm = 15;
	if (op->kind == JCC)
		op->a = (unsigned int)rnd(m, 16);
	/* Near targets make loops and joins; calls go anywhere. */
	span = op->kind == CALL || op->kind == LEA_CODE ? m->n : 12;
	op->target = (index + m->n + rnd(m, 2 * span) - span / 2) % m->n;
}

static void generate(struct machine *m)
{
	m->n = 20 + rnd(m, MAX_INSNS - 20);
	for (size_t i = 0; i < m->n; i++)
		random_op(m, &m->ops[i], i);
	/* Twice, because targets need addresses; lengths do not depend on them. */
	for (int pass = 0; pass < 2; pass++) {
		uint64_t addr = CODE;

		m->code_size = 0;
		for (size_t i = 0; i < m->n; i++) {
			m->ops[i].addr = addr;
			emit_op(m, &m->ops[i]);
			addr += m->ops[i].length;
		}
	}
	for (size_t i = 0; i < 16; i++)
		m->gpr[i] = rnd(m, 20) - 5;
	for (size_t i = 0; i < sizeof(m->data); i += 8)
		*(uint64_t *)(m->data + i) = rnd(m, 12) - 3;
	memset(m->stack, 0, sizeof(m->stack));
	m->gpr[15] = DATA;
	m->gpr[4] = STACK + STACK_SIZE / 2;
	m->ip = CODE;
	m->flags = 2;
}

static void *at(struct machine *m, uint64_t addr, size_t size)
{
	if (addr >= DATA && addr + size <= DATA + DATA_SIZE)
		return m->data + (addr - DATA);
	if (addr >= STACK && addr + size <= STACK + STACK_SIZE)
		return m->stack + (addr - STACK);
	return NULL;
}

static size_t read_code(void *ctx, uint64_t addr, void *buf, size_t size)
{
	struct machine *m = ctx;

	if (addr < CODE || addr >= CODE + m->code_size)
		return 0;
	if (size > CODE + m->code_size - addr)
		size = CODE + m->code_size - addr;
	memcpy(buf, m->code + (addr - CODE), size);
	return size;
}

static size_t read_memory(void *ctx, uint64_t addr, void *buf, size_t size)
{
	void *from = at(ctx, addr, size);

	if (!from)
		return 0;
	memcpy(buf, from, size);
	return size;
}

static void set_flags(struct machine *m, uint64_t result, bool carry, bool overflow, bool adjust)
{
	m->flags = 2 | (uint64_t)carry | (uint64_t)!__builtin_parity(result & 0xff) << 2 |
		   (uint64_t)adjust << 4 | (uint64_t)!result << 6 | (result >> 63) << 7 |
		   (uint64_t)overflow << 11;
}

static void add(struct machine *m, uint64_t *dst, uint64_t b)
{
	uint64_t a = *dst, r = a + b;

	*dst = r;
	set_flags(m, r, r < a, ((a ^ r) & (b ^ r)) >> 63, (a ^ b ^ r) >> 4 & 1);
}

static uint64_t sub(struct machine *m, uint64_t a, uint64_t b)
{
	uint64_t r = a - b;

	set_flags(m, r, a < b, ((a ^ b) & (a ^ r)) >> 63, (a ^ b ^ r) >> 4 & 1);
	return r;
}

static bool holds(const struct machine *m, unsigned int code)
{
	bool cf = m->flags & 1, pf = m->flags >> 2 & 1, zf = m->flags >> 6 & 1,
	     sf = m->flags >> 7 & 1, of = m->flags >> 11 & 1;
	bool values[8] = { of, cf, zf, cf || zf, sf, pf, sf != of, zf || sf != of };

	return values[code >> 1] != (code & 1);
}

/* The parts of LOOP are three instructions. */
static const struct op *find_op(const struct machine *m, uint64_t ip, unsigned int *part)
{
	size_t low = 0, high = m->n;

	while (high - low > 1) {
		size_t middle = (low + high) / 2;

		if (m->ops[middle].addr <= ip)
			low = middle;
		else
			high = middle;
	}
	*part = (unsigned int)(ip - m->ops[low].addr);
	return &m->ops[low];
}

/* Flow of one step: the event, if it was one. */
struct flow {
	bool has_event;
	struct block_event event;
};

static void branch(struct machine *m, struct flow *flow, uint8_t kind, uint64_t to,
		   uint64_t return_address)
{
	flow->has_event = true;
	flow->event = (struct block_event){ m->ip, to, return_address, kind };
	m->ip = to;
}

static bool push(struct machine *m, uint64_t value)
{
	uint64_t *slot = at(m, m->gpr[4] - 8, 8);

	if (!slot)
		return false;
	m->gpr[4] -= 8;
	*slot = value;
	return true;
}

static bool step_flow(struct machine *m, const struct op *op, unsigned int part, struct flow *flow)
{
	uint64_t after = m->ip + op->length, target = m->ops[op->target].addr, *slot;
	bool taken;

	switch (op->kind) {
	case JCC:
		taken = holds(m, op->a);
		branch(m, flow, taken ? BLOCK_TAKEN : BLOCK_NOT_TAKEN, taken ? target : after, 0);
		return true;
	case LOOP:
		if (part == 0) {
			taken = --m->gpr[1];
			branch(m, flow, taken ? BLOCK_TAKEN : BLOCK_NOT_TAKEN,
			       m->ip + (taken ? 4 : 2), 0);
			return true;
		}
		m->ip = part == 2 ? op->addr + op->length : target;
		return true;
	case JMP:
		m->ip = target;
		return true;
	case CALL:
	case CALL_REG:
		if (op->kind == CALL_REG)
			target = m->gpr[op->a];
		if (!push(m, after))
			return false;
		branch(m, flow, op->kind == CALL ? BLOCK_CALL : BLOCK_INDIRECT, target, after);
		return true;
	default: /* RET */
		slot = at(m, m->gpr[4], 8);
		if (!slot)
			return false;
		m->gpr[4] += 8;
		branch(m, flow, BLOCK_RETURN, *slot, 0);
		return true;
	}
}

/* One instruction; false: the program is over. */
static bool step(struct machine *m, struct flow *flow)
{
	unsigned int part;
	const struct op *op = find_op(m, m->ip, &part);
	uint64_t *a = &m->gpr[op->a], b = m->gpr[op->b], imm = (uint64_t)(int64_t)op->imm, *slot;

	flow->has_event = false;
	if (m->ip < CODE || m->ip >= CODE + m->code_size ||
	    (part && (op->kind != LOOP || (part != 2 && part != 4))))
		return false;
	switch (op->kind) {
	case ADD_IMM:
		add(m, a, imm);
		break;
	case ADD_REG:
		add(m, a, b);
		break;
	case SUB_REG:
		*a = sub(m, *a, b);
		break;
	case CMP_IMM:
		sub(m, *a, imm);
		break;
	case AND_IMM:
	case XOR_REG:
		*a = op->kind == AND_IMM ? *a & imm : *a ^ b;
		set_flags(m, *a, false, false, false);
		break;
	case TEST_REG:
		set_flags(m, *a & b, false, false, false);
		break;
	case LOAD:
	case STORE:
	case STORE_INDEXED:
		slot = at(m, DATA + (op->kind == STORE_INDEXED ? 8 * b : imm), 8);
		if (!slot)
			return false;
		if (op->kind == LOAD)
			*a = *slot;
		else
			*slot = *a;
		break;
	case PUSH:
		if (!push(m, *a))
			return false;
		break;
	case POP:
		slot = at(m, m->gpr[4], 8);
		if (!slot)
			return false;
		m->gpr[4] += 8;
		*a = *slot;
		break;
	case SYSCALL:
		m->gpr[0] = rnd(m, 10);
		m->gpr[1] = m->ip + 2;
		break;
	case LEA_CODE:
		*a = m->ops[op->target].addr;
		break;
	default:
		return step_flow(m, op, part, flow);
	}
	m->ip += op->length;
	return true;
}

static void get_regs(const struct machine *m, struct user_regs_struct *regs)
{
	memset(regs, 0, sizeof(*regs));
	regs->rax = m->gpr[0];
	regs->rcx = m->gpr[1];
	regs->rdx = m->gpr[2];
	regs->rbx = m->gpr[3];
	regs->rsp = m->gpr[4];
	regs->rbp = m->gpr[5];
	regs->rsi = m->gpr[6];
	regs->rdi = m->gpr[7];
	regs->r8 = m->gpr[8];
	regs->r9 = m->gpr[9];
	regs->r10 = m->gpr[10];
	regs->r11 = m->gpr[11];
	regs->r12 = m->gpr[12];
	regs->r13 = m->gpr[13];
	regs->r14 = m->gpr[14];
	regs->r15 = m->gpr[15];
	regs->rip = m->ip;
	regs->eflags = m->flags;
	regs->cs = 0x33;
}

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

UNIT_MAIN("unit/block")
