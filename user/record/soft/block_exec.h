/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One instruction computed on a partly known state. What a processor leaves undefined, or what we
 * do not model, becomes unknown; what is known is exact.
 */
#ifndef PTBPF_RECORD_SOFT_BLOCK_EXEC_H
#define PTBPF_RECORD_SOFT_BLOCK_EXEC_H

#include "image/insn_ops.h"
#include "record/soft/block_mem.h"

struct block_vector {
	uint8_t bytes[64];
};

struct block_state {
	uint64_t gpr[16];   /* RAX RCX RDX RBX RSP RBP RSI RDI R8.. as encoded */
	uint64_t known[16]; /* certain bits; the others are 0 in gpr */
	uint32_t flags;     /* EFLAGS bits */
	uint32_t flags_known;
	uint64_t fs_base, gs_base;
	uint64_t vec_known[32]; /* bit per byte */
	struct block_vector vec[32];
};

/* All general registers known, no vectors. */
void block_state_init(struct block_state *state, const struct user_regs_struct *regs);
/* False: what is known contradicts @regs. */
bool block_state_matches(const struct block_state *state, const struct user_regs_struct *regs);

enum block_flow {
	BLOCK_FLOW_NEXT,  /* next is certain, no event */
	BLOCK_FLOW_EVENT, /* next is certain, and so is the event */
	BLOCK_FLOW_SPLIT, /* conditional, outcome unknown: falls through or goes to ops->target */
	BLOCK_FLOW_STOP,  /* where it leads is unknown; the state is unchanged */
};

struct block_site {
	const struct insn_ops *ops;
	uint64_t addr;
	unsigned int length;
};

/* @next and @event->to are filled for NEXT and EVENT. */
enum block_flow block_exec(struct block_state *state, struct block_mem *mem,
			   const struct block_site *site, uint64_t *next,
			   struct block_event *event);

/* A branch whose outcome is recorded. */
void block_exec_branch(struct block_state *state, struct block_mem *mem,
		       const struct block_site *site, const struct block_event *event);

/* Parts that block_exec.c, block_alu.c and block_vec.c share. */

#define BLOCK_CF (1u << 0)
#define BLOCK_PF (1u << 2)
#define BLOCK_AF (1u << 4)
#define BLOCK_ZF (1u << 6)
#define BLOCK_SF (1u << 7)
#define BLOCK_DF (1u << 10)
#define BLOCK_OF (1u << 11)
#define BLOCK_ARITH (BLOCK_CF | BLOCK_PF | BLOCK_AF | BLOCK_ZF | BLOCK_SF | BLOCK_OF)

static inline uint64_t block_mask(unsigned int size)
{
	return size >= 8 ? UINT64_MAX : (1ull << 8 * size) - 1;
}

static inline struct block_value block_unknown(void)
{
	return (struct block_value){ 0, 0 };
}

static inline void block_flags_forget(struct block_state *state, uint32_t flags)
{
	state->flags &= ~flags;
	state->flags_known &= ~flags;
}

/* dst = dst OP src of @size bytes with its flags; for one-operand operations src is unused. */
struct block_value block_alu(struct block_state *state, uint8_t op, unsigned int size,
			     struct block_value dst, struct block_value src, bool same_register);
/* The double-width multiplications and divisions: RAX and RDX. */
void block_alu_wide(struct block_state *state, uint8_t op, unsigned int size,
		    struct block_value src);

/* Moves between vector registers, general registers and memory. */
void block_vec_exec(struct block_state *state, struct block_mem *mem, const struct insn_ops *ops);
/* The memory operand's address; false: it is not known. */
bool block_address(const struct block_state *state, const struct insn_ops *ops, uint64_t *addr);
/* @shift 8 for AH and its like. */
void block_write_gpr(struct block_state *state, unsigned int reg, unsigned int size,
		     unsigned int shift, struct block_value value);

#endif
