/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What an instruction does to registers, flags and memory: enough to compute it, or to know what it
 * makes unknown. Pure.
 */
#ifndef PTBPF_IMAGE_INSN_OPS_H
#define PTBPF_IMAGE_INSN_OPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum insn_op {
	INSN_OP_OPAQUE, /* only executing it can tell where it leads: far, TF, segment loads, ... */
	INSN_OP_OTHER,  /* falls through; changes what the clobber fields say */
	INSN_OP_REP,    /* rep string; falls through; clobber fields but for memory */
	INSN_OP_NOP,
	/* control flow; a call pushes the address after it, a return pops and adds imm to RSP */
	INSN_OP_JCC, /* condition */
	INSN_OP_JMP,
	INSN_OP_CALL,
	INSN_OP_JMP_IND,  /* src */
	INSN_OP_CALL_IND, /* src */
	INSN_OP_RET,
	/* dst = src, with what their names say */
	INSN_OP_MOV,
	INSN_OP_MOVSX,
	INSN_OP_LEA,
	INSN_OP_PUSH, /* src */
	INSN_OP_POP,  /* dst, a register */
	INSN_OP_LEAVE,
	INSN_OP_XCHG,
	INSN_OP_XADD,
	INSN_OP_CMPXCHG,
	INSN_OP_SETCC,
	INSN_OP_CMOVCC,
	/* dst = dst OP src, flags */
	INSN_OP_ADD,
	INSN_OP_ADC,
	INSN_OP_SUB,
	INSN_OP_SBB,
	INSN_OP_CMP,
	INSN_OP_AND,
	INSN_OP_OR,
	INSN_OP_XOR,
	INSN_OP_TEST,
	INSN_OP_SHL,
	INSN_OP_SHR,
	INSN_OP_SAR,
	INSN_OP_ROL,
	INSN_OP_ROR,
	INSN_OP_BT, /* the bit number is within dst: register or immediate */
	INSN_OP_BTS,
	INSN_OP_BTR,
	INSN_OP_BTC,
	/* dst only */
	INSN_OP_INC,
	INSN_OP_DEC,
	INSN_OP_NEG,
	INSN_OP_NOT,
	INSN_OP_BSWAP,
	/* dst = OP src, flags */
	INSN_OP_BSF,
	INSN_OP_BSR,
	INSN_OP_TZCNT,
	INSN_OP_LZCNT,
	INSN_OP_POPCNT,
	INSN_OP_IMUL, /* dst = src * (has_imm ? imm : dst) */
	/* of RAX and RDX; size is src's or, without one, op_size */
	INSN_OP_MUL_WIDE,
	INSN_OP_IMUL_WIDE,
	INSN_OP_DIV,
	INSN_OP_IDIV,
	INSN_OP_CONVERT_A,  /* CBW CWDE CDQE: RAX of size op_size from its lower half */
	INSN_OP_CONVERT_DA, /* CWD CDQ CQO: RDX of size op_size from RAX's sign */
	INSN_OP_CLC,
	INSN_OP_STC,
	INSN_OP_CMC,
	INSN_OP_CLD,
	INSN_OP_STD,
	/* vectors */
	INSN_OP_VEC_MOV,     /* dst = src, the rest of a vector dst zero or, if keeps_upper, kept */
	INSN_OP_VEC_ZERO,    /* dst = 0, likewise */
	INSN_OP_VEC_HIGH,    /* MOVHPS: dst's upper half of 16 bytes is src or the reverse */
	INSN_OP_VEC_UNPACKQ, /* PUNPCKLQDQ: dst = low 8 bytes of src2 or dst, low 8 of src */
	INSN_OP_VEC_ZEROUPPER,
};

/* Conditions 0 to 15 are as in the opcode of Jcc. */
enum { INSN_CC_LOOPNE = 16, INSN_CC_LOOPE, INSN_CC_LOOP, INSN_CC_RCXZ };

enum insn_operand_kind {
	INSN_OPERAND_NONE,
	INSN_OPERAND_REG,
	INSN_OPERAND_HIGH, /* AH CH DH BH: reg 0 to 3 */
	INSN_OPERAND_MEM,
	INSN_OPERAND_IMM,
	INSN_OPERAND_VEC,
};

struct insn_operand {
	uint8_t kind; /* enum insn_operand_kind */
	uint8_t reg;  /* RAX RCX RDX RBX RSP RBP RSI RDI R8.. or vector number */
	uint8_t size; /* bytes */
};

#define INSN_REG_NONE 0xff
enum { INSN_SEGMENT_FLAT, INSN_SEGMENT_FS, INSN_SEGMENT_GS };

enum insn_memory_effect {
	INSN_MEMORY_KEPT,
	INSN_MEMORY_WRITES,   /* at the memory operand, mem_size bytes */
	INSN_MEMORY_ANYWHERE, /* wherever */
};

struct insn_ops {
	uint8_t op; /* enum insn_op */
	uint8_t condition;
	uint8_t op_size; /* bytes of the operation, of stack slots for PUSH, POP, CALL, RET */
	bool has_imm;
	bool keeps_upper;
	bool addr32; /* addresses and the counters of LOOP and JRCXZ are 32 bits wide */
	struct insn_operand dst, src, src2;
	/* the memory operand, if there is one; displacement is absolute for RIP-relative */
	uint8_t base, index, scale, segment;
	uint16_t mem_size;
	int64_t displacement;
	uint64_t imm;    /* sign-extended to 64 bits */
	uint64_t target; /* direct branches */
	/* what OTHER and REP make unknown */
	uint8_t memory; /* enum insn_memory_effect */
	uint16_t clobbers_gpr;
	uint32_t clobbers_flags; /* EFLAGS bits */
	uint64_t clobbers_vec;   /* registers 0 to 31 */
};

/* 0; -EINVAL invalid; -ENODATA cut off. */
int insn_ops_decode(const uint8_t *bytes, size_t size, uint64_t ip, unsigned int mode_bits,
		    struct insn_ops *ops);

#endif
