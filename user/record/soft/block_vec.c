// SPDX-License-Identifier: GPL-2.0-only
#include "record/soft/block_exec.h"

#include <string.h>

static void write_vector(struct block_state *state, const struct insn_ops *ops, unsigned int from,
			 const uint8_t *data, uint64_t known, unsigned int n)
{
	struct block_vector *vec = &state->vec[ops->dst.reg];
	unsigned int end = ops->keeps_upper ? 16 : 64;
	uint64_t written = end == 64 ? UINT64_MAX : 0xffff;

	memset(vec->bytes + from + n, 0, end - from - n);
	memcpy(vec->bytes + from, data, n);
	if (n < 64)
		known |= ~((1ull << n) - 1);
	if (from) {
		written &= ~((1ull << from) - 1);
		known <<= from;
	}
	state->vec_known[ops->dst.reg] =
		(state->vec_known[ops->dst.reg] & ~written) | (known & written);
}

static uint64_t read_vector(struct block_state *state, struct block_mem *mem,
			    const struct insn_ops *ops, uint8_t *data, unsigned int n)
{
	uint64_t addr, known = UINT64_MAX;

	switch (ops->src.kind) {
	case INSN_OPERAND_VEC:
		memcpy(data, state->vec[ops->src.reg].bytes, n);
		return state->vec_known[ops->src.reg];
	case INSN_OPERAND_MEM:
		return block_address(state, ops, &addr) ? block_mem_load_bytes(mem, addr, data, n) :
							  0;
	default:
		memcpy(data, &state->gpr[ops->src.reg], n);
		for (unsigned int i = 0; i < n; i++) {
			if ((state->known[ops->src.reg] >> 8 * i & 0xff) != 0xff)
				known &= ~(1ull << i);
		}
		return known;
	}
}

static void store_vector(struct block_state *state, struct block_mem *mem,
			 const struct insn_ops *ops, const uint8_t *data, uint64_t known,
			 unsigned int n)
{
	struct block_value value = { 0, 0 };
	uint64_t addr;

	if (ops->dst.kind == INSN_OPERAND_MEM) {
		if (block_address(state, ops, &addr))
			block_mem_store_bytes(mem, addr, data, known, n);
		else
			block_mem_clobber_all(mem);
		return;
	}
	for (unsigned int i = 0; i < n; i++) {
		if (known >> i & 1) {
			value.value |= (uint64_t)data[i] << 8 * i;
			value.known |= 0xffull << 8 * i;
		}
	}
	block_write_gpr(state, ops->dst.reg, n, 0, value);
}

void block_vec_exec(struct block_state *state, struct block_mem *mem, const struct insn_ops *ops)
{
	uint8_t data[64] = { 0 };
	uint64_t known;

	switch (ops->op) {
	case INSN_OP_VEC_ZEROUPPER:
		for (unsigned int i = 0; i < 16; i++) {
			memset(state->vec[i].bytes + 16, 0, 48);
			state->vec_known[i] |= ~0xffffull;
		}
		return;
	case INSN_OP_VEC_ZERO:
		write_vector(state, ops, 0, data, UINT64_MAX, ops->dst.size);
		return;
	case INSN_OP_VEC_UNPACKQ:
		known = read_vector(state, mem, ops, data, 8);
		write_vector(state, ops, 8, data, known, 8);
		return;
	case INSN_OP_VEC_HIGH:
		if (ops->dst.kind == INSN_OPERAND_VEC) {
			known = read_vector(state, mem, ops, data, 8);
			write_vector(state, ops, 8, data, known, 8);
			return;
		}
		known = read_vector(state, mem, ops, data, 16) >> 8;
		store_vector(state, mem, ops, data + 8, known, 8);
		return;
	default:
		known = read_vector(state, mem, ops, data, ops->dst.size);
		if (ops->dst.kind == INSN_OPERAND_VEC)
			write_vector(state, ops, 0, data, known, ops->dst.size);
		else
			store_vector(state, mem, ops, data, known, ops->dst.size);
	}
}
