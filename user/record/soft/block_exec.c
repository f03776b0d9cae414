// SPDX-License-Identifier: GPL-2.0-only
#include "record/soft/block_exec.h"

#include <string.h>

#include "base/mem.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI };

static void load_gpr(uint64_t gpr[16], const struct user_regs_struct *regs)
{
	const uint64_t values[16] = { regs->rax, regs->rcx, regs->rdx, regs->rbx,
				      regs->rsp, regs->rbp, regs->rsi, regs->rdi,
				      regs->r8,  regs->r9,  regs->r10, regs->r11,
				      regs->r12, regs->r13, regs->r14, regs->r15 };

	memcpy(gpr, values, sizeof(values));
}

void block_state_init(struct block_state *state, const struct user_regs_struct *regs)
{
	load_gpr(state->gpr, regs);
	memset(state->known, 0xff, sizeof(state->known));
	state->flags = (uint32_t)regs->eflags & (BLOCK_ARITH | BLOCK_DF);
	state->flags_known = BLOCK_ARITH | BLOCK_DF;
	state->fs_base = regs->fs_base;
	state->gs_base = regs->gs_base;
	memset(state->vec_known, 0, sizeof(state->vec_known));
}

bool block_state_matches(const struct block_state *state, const struct user_regs_struct *regs)
{
	uint64_t gpr[16];

	load_gpr(gpr, regs);
	for (size_t i = 0; i < ARRAY_SIZE(gpr); i++) {
		if ((gpr[i] ^ state->gpr[i]) & state->known[i])
			return false;
	}
	return !(((uint32_t)regs->eflags ^ state->flags) & state->flags_known);
}

bool block_address(const struct block_state *state, const struct insn_ops *ops, uint64_t *addr)
{
	uint64_t mask = ops->addr32 ? UINT32_MAX : UINT64_MAX;

	*addr = (uint64_t)ops->displacement;
	if (ops->base != INSN_REG_NONE) {
		if ((state->known[ops->base] & mask) != mask)
			return false;
		*addr += state->gpr[ops->base];
	}
	if (ops->index != INSN_REG_NONE) {
		if ((state->known[ops->index] & mask) != mask)
			return false;
		*addr += state->gpr[ops->index] * ops->scale;
	}
	*addr &= mask;
	if (ops->segment == INSN_SEGMENT_FS)
		*addr += state->fs_base;
	else if (ops->segment == INSN_SEGMENT_GS)
		*addr += state->gs_base;
	return true;
}

static struct block_value read_operand(struct block_state *state, struct block_mem *mem,
				       const struct insn_ops *ops,
				       const struct insn_operand *operand, unsigned int size)
{
	uint64_t mask = block_mask(size), addr;
	unsigned int shift = operand->kind == INSN_OPERAND_HIGH ? 8 : 0;

	switch (operand->kind) {
	case INSN_OPERAND_REG:
	case INSN_OPERAND_HIGH:
		return (struct block_value){ state->gpr[operand->reg] >> shift & mask,
					     state->known[operand->reg] >> shift & mask };
	case INSN_OPERAND_IMM:
		return (struct block_value){ ops->imm & mask, mask };
	case INSN_OPERAND_MEM:
		return block_address(state, ops, &addr) ? block_mem_load(mem, addr, size) :
							  block_unknown();
	default:
		return block_unknown();
	}
}

void block_write_gpr(struct block_state *state, unsigned int reg, unsigned int size,
		     unsigned int shift, struct block_value value)
{
	uint64_t mask = block_mask(size), keep = size >= 4 ? 0 : ~(mask << shift);

	state->gpr[reg] = (state->gpr[reg] & keep) | (value.value & mask) << shift;
	state->known[reg] = (state->known[reg] & keep) | (value.known & mask) << shift |
			    (size == 4 ? ~mask : 0);
}

static void write_memory(struct block_state *state, struct block_mem *mem,
			 const struct insn_ops *ops, unsigned int size, struct block_value value)
{
	uint64_t addr;

	if (block_address(state, ops, &addr))
		block_mem_store(mem, addr, size, value, false);
	else
		block_mem_clobber_all(mem);
}

static void write_operand(struct block_state *state, struct block_mem *mem,
			  const struct insn_ops *ops, const struct insn_operand *operand,
			  struct block_value value)
{
	switch (operand->kind) {
	case INSN_OPERAND_REG:
	case INSN_OPERAND_HIGH:
		block_write_gpr(state, operand->reg, operand->size,
				operand->kind == INSN_OPERAND_HIGH ? 8 : 0, value);
		return;
	case INSN_OPERAND_MEM:
		write_memory(state, mem, ops, operand->size, value);
		return;
	default:
		return;
	}
}

static void push(struct block_state *state, struct block_mem *mem, unsigned int size,
		 struct block_value value, bool is_return)
{
	state->gpr[RSP] -= size;
	if (state->known[RSP] == UINT64_MAX) {
		block_mem_store(mem, state->gpr[RSP], size, value, is_return);
		return;
	}
	state->gpr[RSP] = state->known[RSP] = 0;
	block_mem_clobber_all(mem);
}

static void adjust_rsp(struct block_state *state, uint64_t by)
{
	if (state->known[RSP] == UINT64_MAX)
		state->gpr[RSP] += by;
	else
		state->gpr[RSP] = state->known[RSP] = 0;
}

static struct block_value stack_top(struct block_state *state, struct block_mem *mem,
				    unsigned int size)
{
	return state->known[RSP] == UINT64_MAX ? block_mem_load(mem, state->gpr[RSP], size) :
						 block_unknown();
}

/* Condition codes 0 to 15; false: unknown. */
static bool condition(const struct block_state *state, unsigned int code, bool *holds)
{
	static const uint32_t needs[8] = {
		BLOCK_OF,
		BLOCK_CF,
		BLOCK_ZF,
		BLOCK_CF | BLOCK_ZF,
		BLOCK_SF,
		BLOCK_PF,
		BLOCK_SF | BLOCK_OF,
		BLOCK_SF | BLOCK_OF | BLOCK_ZF,
	};
	uint32_t need = needs[code >> 1], flags = state->flags, known = state->flags_known;
	bool differ = !(flags & BLOCK_SF) != !(flags & BLOCK_OF);

	if (code >> 1 == 3 && (flags & need)) /* one of the two that is set is enough */
		need = flags & need;
	else if (code >> 1 == 7 && (flags & BLOCK_ZF))
		need = BLOCK_ZF;
	if ((known & need) != need)
		return false;
	if (code >> 1 == 6)
		*holds = differ;
	else if (code >> 1 == 7)
		*holds = (flags & BLOCK_ZF) || differ;
	else
		*holds = flags & need;
	if (code & 1)
		*holds = !*holds;
	return true;
}

/* JrCXZ and LOOPcc, which counts down first. */
static bool count_condition(struct block_state *state, const struct insn_ops *ops, bool *holds)
{
	unsigned int size = ops->addr32 ? 4 : 8;
	uint64_t mask = block_mask(size), count = state->gpr[RCX] & mask;
	bool is_known = (state->known[RCX] & mask) == mask;

	if (ops->condition == INSN_CC_RCXZ) {
		*holds = !count;
		return is_known;
	}
	count = (count - 1) & mask;
	block_write_gpr(state, RCX, size, 0,
			(struct block_value){ is_known ? count : 0, is_known ? mask : 0 });
	if (ops->condition == INSN_CC_LOOP) {
		*holds = count;
		return is_known;
	}
	*holds = count && !(state->flags & BLOCK_ZF) == (ops->condition == INSN_CC_LOOPNE);
	return is_known && (!count || (state->flags_known & BLOCK_ZF));
}

static enum block_flow exec_jcc(struct block_state *state, const struct block_site *site,
				uint64_t *next, struct block_event *event)
{
	const struct insn_ops *ops = site->ops;
	bool holds;

	if (ops->condition >= INSN_CC_LOOPNE ? !count_condition(state, ops, &holds) :
					       !condition(state, ops->condition, &holds))
		return BLOCK_FLOW_SPLIT;
	event->kind = holds ? BLOCK_TAKEN : BLOCK_NOT_TAKEN;
	event->to = *next = holds ? ops->target : site->addr + site->length;
	return BLOCK_FLOW_EVENT;
}

static enum block_flow exec_branch(struct block_state *state, struct block_mem *mem,
				   const struct block_site *site, uint64_t *next,
				   struct block_event *event)
{
	const struct insn_ops *ops = site->ops;
	uint64_t after = site->addr + site->length;
	struct block_value to = { ops->target, UINT64_MAX };

	if (ops->op == INSN_OP_RET)
		to = state->known[RSP] == UINT64_MAX ? block_mem_load_return(mem, state->gpr[RSP]) :
						       block_unknown();
	else if (ops->op == INSN_OP_JMP_IND || ops->op == INSN_OP_CALL_IND)
		to = read_operand(state, mem, ops, &ops->src, 8);
	if (to.known != UINT64_MAX)
		return BLOCK_FLOW_STOP;
	*next = event->to = to.value;
	switch (ops->op) {
	case INSN_OP_JMP:
		return BLOCK_FLOW_NEXT;
	case INSN_OP_RET:
		event->kind = BLOCK_RETURN;
		adjust_rsp(state, 8 + ops->imm);
		return BLOCK_FLOW_EVENT;
	case INSN_OP_JMP_IND:
		event->kind = BLOCK_INDIRECT;
		return BLOCK_FLOW_EVENT;
	default:
		event->kind = ops->op == INSN_OP_CALL ? BLOCK_CALL : BLOCK_INDIRECT;
		event->return_address = after;
		push(state, mem, 8, (struct block_value){ after, UINT64_MAX }, true);
		return BLOCK_FLOW_EVENT;
	}
}

static void exec_alu(struct block_state *state, struct block_mem *mem, const struct insn_ops *ops)
{
	unsigned int size = ops->dst.size;
	bool only_dst = ops->src.kind == INSN_OPERAND_NONE;
	bool same = ops->dst.kind == INSN_OPERAND_REG && ops->src.kind == INSN_OPERAND_REG &&
		    ops->dst.reg == ops->src.reg;
	struct block_value dst = read_operand(state, mem, ops, &ops->dst, size), src, result;

	src = only_dst ? block_unknown() : read_operand(state, mem, ops, &ops->src, size);
	if (ops->op == INSN_OP_IMUL && ops->src2.kind == INSN_OPERAND_IMM)
		dst = (struct block_value){ ops->imm & block_mask(size), block_mask(size) };
	result = block_alu(state, ops->op, size, dst, src, same);
	switch (ops->op) {
	case INSN_OP_CMP:
	case INSN_OP_TEST:
	case INSN_OP_BT:
		return;
	case INSN_OP_BSF:
	case INSN_OP_BSR:
		/* Of zero the whole register may stay as it was. */
		if (!result.known) {
			state->gpr[ops->dst.reg] = state->known[ops->dst.reg] = 0;
			return;
		}
		break;
	case INSN_OP_SHL:
	case INSN_OP_SHR:
	case INSN_OP_SAR:
	case INSN_OP_ROL:
	case INSN_OP_ROR:
		break;
	}
	write_operand(state, mem, ops, &ops->dst, result);
}

static struct block_value sign_extended(struct block_value value, unsigned int from)
{
	unsigned int shift = 64 - 8 * from;

	return (struct block_value){ (uint64_t)((int64_t)(value.value << shift) >> shift),
				     (uint64_t)((int64_t)(value.known << shift) >> shift) };
}

static void exec_convert(struct block_state *state, const struct insn_ops *ops)
{
	unsigned int size = ops->op_size;
	struct block_value a = { state->gpr[RAX], state->known[RAX] };

	if (ops->op == INSN_OP_CONVERT_A) {
		block_write_gpr(state, RAX, size, 0, sign_extended(a, size / 2));
		return;
	}
	a.value = a.value >> (8 * size - 1) & 1 ? UINT64_MAX : 0;
	a.known = a.known >> (8 * size - 1) & 1 ? UINT64_MAX : 0;
	block_write_gpr(state, RDX, size, 0, a);
}

static void exec_cmov(struct block_state *state, struct block_mem *mem, const struct insn_ops *ops)
{
	unsigned int size = ops->dst.size;
	struct block_value src = read_operand(state, mem, ops, &ops->src, size);
	struct block_value dst = read_operand(state, mem, ops, &ops->dst, size);
	bool holds;

	if (condition(state, ops->condition, &holds)) {
		write_operand(state, mem, ops, &ops->dst, holds ? src : dst);
		return;
	}
	dst.known &= src.known & ~(dst.value ^ src.value);
	dst.value &= dst.known;
	write_operand(state, mem, ops, &ops->dst, dst);
}

static void exec_cmpxchg(struct block_state *state, struct block_mem *mem,
			 const struct insn_ops *ops)
{
	unsigned int size = ops->dst.size;
	struct block_value acc = { state->gpr[RAX] & block_mask(size),
				   state->known[RAX] & block_mask(size) };
	struct block_value dst = read_operand(state, mem, ops, &ops->dst, size);
	struct block_value src = read_operand(state, mem, ops, &ops->src, size);

	block_alu(state, INSN_OP_CMP, size, acc, dst, false);
	if (!(state->flags_known & BLOCK_ZF)) {
		/* A 32-bit accumulator is written or not, so its upper half is unknown too. */
		state->gpr[RAX] = state->known[RAX] = 0;
		write_operand(state, mem, ops, &ops->dst, block_unknown());
		if (ops->dst.kind == INSN_OPERAND_REG)
			state->gpr[ops->dst.reg] = state->known[ops->dst.reg] = 0;
	} else if (state->flags & BLOCK_ZF) {
		write_operand(state, mem, ops, &ops->dst, src);
	} else {
		/* The destination is rewritten, but a register's upper half may not be zeroed. */
		if (ops->dst.kind == INSN_OPERAND_MEM) {
			write_operand(state, mem, ops, &ops->dst, dst);
		} else if (size == 4) {
			state->known[ops->dst.reg] &= UINT32_MAX | ~state->gpr[ops->dst.reg];
			state->gpr[ops->dst.reg] &= state->known[ops->dst.reg];
		}
		block_write_gpr(state, RAX, size, 0, dst);
	}
}

static void exec_exchange(struct block_state *state, struct block_mem *mem,
			  const struct insn_ops *ops)
{
	unsigned int size = ops->dst.size;
	struct block_value dst = read_operand(state, mem, ops, &ops->dst, size);
	struct block_value src = read_operand(state, mem, ops, &ops->src, size), result = src;
	uint64_t addr = 0;
	bool known = ops->dst.kind != INSN_OPERAND_MEM || block_address(state, ops, &addr);

	if (ops->op == INSN_OP_XADD)
		result = block_alu(state, INSN_OP_ADD, size, dst, src, false);
	/* The address counts as it was before the register changes. */
	write_operand(state, mem, ops, &ops->src, dst);
	if (ops->dst.kind != INSN_OPERAND_MEM)
		write_operand(state, mem, ops, &ops->dst, result);
	else if (known)
		block_mem_store(mem, addr, size, result, false);
	else
		block_mem_clobber_all(mem);
}

static void exec_flag(struct block_state *state, uint8_t op)
{
	uint32_t flag = op == INSN_OP_CLD || op == INSN_OP_STD ? BLOCK_DF : BLOCK_CF;

	if (op == INSN_OP_CMC) {
		state->flags ^= state->flags_known & BLOCK_CF;
		return;
	}
	state->flags_known |= flag;
	state->flags &= ~flag;
	if (op == INSN_OP_STC || op == INSN_OP_STD)
		state->flags |= flag;
}

static void exec_stack(struct block_state *state, struct block_mem *mem, const struct insn_ops *ops)
{
	struct block_value value;

	switch (ops->op) {
	case INSN_OP_PUSH:
		value = read_operand(state, mem, ops, &ops->src, ops->op_size);
		push(state, mem, ops->op_size, value, false);
		return;
	case INSN_OP_POP:
		value = stack_top(state, mem, ops->dst.size);
		adjust_rsp(state, ops->dst.size);
		write_operand(state, mem, ops, &ops->dst, value);
		return;
	default: /* LEAVE */
		state->gpr[RSP] = state->gpr[RBP];
		state->known[RSP] = state->known[RBP];
		value = stack_top(state, mem, 8);
		adjust_rsp(state, 8);
		block_write_gpr(state, RBP, 8, 0, value);
	}
}

/* What is stored by a rep string: from RDI upwards, or downwards with DF. */
static void clobber_rep(struct block_state *state, struct block_mem *mem,
			const struct insn_ops *ops)
{
	bool known = state->known[RCX] == UINT64_MAX && state->known[RDI] == UINT64_MAX &&
		     (state->flags_known & BLOCK_DF) && !(state->flags & BLOCK_DF) && !ops->addr32;

	if (ops->memory == INSN_MEMORY_KEPT)
		return;
	if (!known || state->gpr[RCX] > UINT32_MAX)
		block_mem_clobber_all(mem);
	else
		block_mem_clobber(mem, state->gpr[RDI], state->gpr[RCX] * ops->mem_size);
}

static void exec_other(struct block_state *state, struct block_mem *mem, const struct insn_ops *ops)
{
	uint64_t addr;

	if (ops->op == INSN_OP_REP)
		clobber_rep(state, mem, ops);
	else if (ops->memory == INSN_MEMORY_WRITES && block_address(state, ops, &addr))
		block_mem_clobber(mem, addr, ops->mem_size);
	else if (ops->memory != INSN_MEMORY_KEPT)
		block_mem_clobber_all(mem);
	for (unsigned int i = 0; i < 16; i++) {
		if (ops->clobbers_gpr >> i & 1)
			state->gpr[i] = state->known[i] = 0;
	}
	for (uint64_t left = ops->clobbers_vec & UINT32_MAX; left; left &= left - 1)
		state->vec_known[__builtin_ctzll(left)] = 0;
	block_flags_forget(state, ops->clobbers_flags);
}

static void exec_move(struct block_state *state, struct block_mem *mem, const struct insn_ops *ops)
{
	bool is_imm = ops->src.kind == INSN_OPERAND_IMM, holds;
	unsigned int size = is_imm ? ops->dst.size : ops->src.size;
	struct block_value value = block_unknown();
	uint64_t addr;

	switch (ops->op) {
	case INSN_OP_LEA:
		if (block_address(state, ops, &addr))
			value = (struct block_value){ addr, UINT64_MAX };
		break;
	case INSN_OP_SETCC:
		if (condition(state, ops->condition, &holds))
			value = (struct block_value){ holds, UINT64_MAX };
		break;
	case INSN_OP_MOVSX:
		value = sign_extended(read_operand(state, mem, ops, &ops->src, size), size);
		break;
	default: /* MOV, MOVZX */
		value = read_operand(state, mem, ops, &ops->src, size);
		value.known |= ~block_mask(size);
	}
	write_operand(state, mem, ops, &ops->dst, value);
}

static void exec_data(struct block_state *state, struct block_mem *mem, const struct insn_ops *ops)
{
	switch (ops->op) {
	case INSN_OP_NOP:
		return;
	case INSN_OP_OTHER:
	case INSN_OP_REP:
		exec_other(state, mem, ops);
		return;
	case INSN_OP_MOV:
	case INSN_OP_MOVSX:
	case INSN_OP_LEA:
	case INSN_OP_SETCC:
		exec_move(state, mem, ops);
		return;
	case INSN_OP_CMOVCC:
		exec_cmov(state, mem, ops);
		return;
	case INSN_OP_PUSH:
	case INSN_OP_POP:
	case INSN_OP_LEAVE:
		exec_stack(state, mem, ops);
		return;
	case INSN_OP_XCHG:
	case INSN_OP_XADD:
		exec_exchange(state, mem, ops);
		return;
	case INSN_OP_CMPXCHG:
		exec_cmpxchg(state, mem, ops);
		return;
	case INSN_OP_MUL_WIDE:
	case INSN_OP_IMUL_WIDE:
	case INSN_OP_DIV:
	case INSN_OP_IDIV:
		block_alu_wide(state, ops->op, ops->src.size,
			       read_operand(state, mem, ops, &ops->src, ops->src.size));
		return;
	case INSN_OP_CONVERT_A:
	case INSN_OP_CONVERT_DA:
		exec_convert(state, ops);
		return;
	case INSN_OP_CLC:
	case INSN_OP_STC:
	case INSN_OP_CMC:
	case INSN_OP_CLD:
	case INSN_OP_STD:
		exec_flag(state, ops->op);
		return;
	case INSN_OP_VEC_MOV:
	case INSN_OP_VEC_ZERO:
	case INSN_OP_VEC_HIGH:
	case INSN_OP_VEC_UNPACKQ:
	case INSN_OP_VEC_ZEROUPPER:
		block_vec_exec(state, mem, ops);
		return;
	default:
		exec_alu(state, mem, ops);
	}
}

void block_exec_branch(struct block_state *state, struct block_mem *mem,
		       const struct block_site *site, const struct block_event *event)
{
	bool holds;

	if (site->ops->op == INSN_OP_RET)
		adjust_rsp(state, 8 + site->ops->imm);
	else if (site->ops->op == INSN_OP_JCC && site->ops->condition >= INSN_CC_LOOPNE)
		count_condition(state, site->ops, &holds);
	else if (event->return_address)
		push(state, mem, 8, (struct block_value){ event->return_address, UINT64_MAX },
		     true);
}

enum block_flow block_exec(struct block_state *state, struct block_mem *mem,
			   const struct block_site *site, uint64_t *next, struct block_event *event)
{
	const struct insn_ops *ops = site->ops;

	switch (ops->op) {
	case INSN_OP_OPAQUE:
		return BLOCK_FLOW_STOP;
	case INSN_OP_JCC:
		*event = (struct block_event){ .from = site->addr };
		return exec_jcc(state, site, next, event);
	case INSN_OP_JMP:
	case INSN_OP_CALL:
	case INSN_OP_JMP_IND:
	case INSN_OP_CALL_IND:
	case INSN_OP_RET:
		*event = (struct block_event){ .from = site->addr };
		return exec_branch(state, mem, site, next, event);
	default:
		*next = site->addr + site->length;
		exec_data(state, mem, ops);
		return BLOCK_FLOW_NEXT;
	}
}
