/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The truth that block plans are checked against: random programs of a few instruction kinds and a
 * small interpreter that runs them one instruction at a time. For test_block.c.
 */
#ifndef PTBPF_TESTS_BLOCK_MACHINE_H
#define PTBPF_TESTS_BLOCK_MACHINE_H

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

#endif
