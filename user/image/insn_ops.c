// SPDX-License-Identifier: GPL-2.0-only
#include "image/insn_ops.h"

#include <errno.h>
#include <string.h>

#include <Zydis/Zydis.h>

#define STATUS_FLAGS                                                                 \
	(ZYDIS_CPUFLAG_CF | ZYDIS_CPUFLAG_PF | ZYDIS_CPUFLAG_AF | ZYDIS_CPUFLAG_ZF | \
	 ZYDIS_CPUFLAG_SF | ZYDIS_CPUFLAG_DF | ZYDIS_CPUFLAG_OF)

struct source {
	ZydisDecodedInstruction insn;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	uint64_t ip;
	unsigned int mode_bits;
};

/* How the visible operands become dst, src and src2. */
enum shape {
	SHAPE_NONE,
	SHAPE_DST,
	SHAPE_SRC,
	SHAPE_DST_SRC,
	SHAPE_SHIFT,    /* dst, count: immediate or CL */
	SHAPE_BIT,      /* dst, bit number; a register bit number reaches beyond a memory dst */
	SHAPE_IMUL,     /* one to three operands */
	SHAPE_VEC_MOV,  /* dst, src of which one is a vector */
	SHAPE_VEC_SELF, /* x ^ x */
};

struct mapping {
	uint16_t mnemonic;
	uint8_t op;
	uint8_t shape;
};

#define MAP(name, op_name, shape_name)                                       \
	{                                                                    \
		ZYDIS_MNEMONIC_##name, INSN_OP_##op_name, SHAPE_##shape_name \
	}

static const struct mapping mappings[] = {
	MAP(NOP, NOP, NONE),
	MAP(PAUSE, NOP, NONE),
	MAP(ENDBR64, NOP, NONE),
	MAP(ENDBR32, NOP, NONE),
	MAP(LFENCE, NOP, NONE),
	MAP(SFENCE, NOP, NONE),
	MAP(MFENCE, NOP, NONE),
	MAP(PREFETCHT0, NOP, NONE),
	MAP(PREFETCHT1, NOP, NONE),
	MAP(PREFETCHT2, NOP, NONE),
	MAP(PREFETCHNTA, NOP, NONE),
	MAP(PREFETCHW, NOP, NONE),
	MAP(MOV, MOV, DST_SRC),
	MAP(MOVZX, MOV, DST_SRC),
	MAP(MOVSX, MOVSX, DST_SRC),
	MAP(MOVSXD, MOVSX, DST_SRC),
	MAP(LEA, LEA, DST_SRC),
	MAP(PUSH, PUSH, SRC),
	MAP(POP, POP, DST),
	MAP(LEAVE, LEAVE, NONE),
	MAP(XCHG, XCHG, DST_SRC),
	MAP(XADD, XADD, DST_SRC),
	MAP(CMPXCHG, CMPXCHG, DST_SRC),
	MAP(ADD, ADD, DST_SRC),
	MAP(ADC, ADC, DST_SRC),
	MAP(SUB, SUB, DST_SRC),
	MAP(SBB, SBB, DST_SRC),
	MAP(CMP, CMP, DST_SRC),
	MAP(AND, AND, DST_SRC),
	MAP(OR, OR, DST_SRC),
	MAP(XOR, XOR, DST_SRC),
	MAP(TEST, TEST, DST_SRC),
	MAP(SHL, SHL, SHIFT),
	MAP(SHR, SHR, SHIFT),
	MAP(SAR, SAR, SHIFT),
	MAP(ROL, ROL, SHIFT),
	MAP(ROR, ROR, SHIFT),
	MAP(BT, BT, BIT),
	MAP(BTS, BTS, BIT),
	MAP(BTR, BTR, BIT),
	MAP(BTC, BTC, BIT),
	MAP(INC, INC, DST),
	MAP(DEC, DEC, DST),
	MAP(NEG, NEG, DST),
	MAP(NOT, NOT, DST),
	MAP(BSWAP, BSWAP, DST),
	MAP(BSF, BSF, DST_SRC),
	MAP(BSR, BSR, DST_SRC),
	MAP(TZCNT, TZCNT, DST_SRC),
	MAP(LZCNT, LZCNT, DST_SRC),
	MAP(POPCNT, POPCNT, DST_SRC),
	MAP(IMUL, IMUL, IMUL),
	MAP(MUL, MUL_WIDE, SRC),
	MAP(DIV, DIV, SRC),
	MAP(IDIV, IDIV, SRC),
	MAP(CBW, CONVERT_A, NONE),
	MAP(CWDE, CONVERT_A, NONE),
	MAP(CDQE, CONVERT_A, NONE),
	MAP(CWD, CONVERT_DA, NONE),
	MAP(CDQ, CONVERT_DA, NONE),
	MAP(CQO, CONVERT_DA, NONE),
	MAP(CLC, CLC, NONE),
	MAP(STC, STC, NONE),
	MAP(CMC, CMC, NONE),
	MAP(CLD, CLD, NONE),
	MAP(STD, STD, NONE),
	MAP(MOVUPS, VEC_MOV, VEC_MOV),
	MAP(MOVAPS, VEC_MOV, VEC_MOV),
	MAP(MOVUPD, VEC_MOV, VEC_MOV),
	MAP(MOVAPD, VEC_MOV, VEC_MOV),
	MAP(MOVDQU, VEC_MOV, VEC_MOV),
	MAP(MOVDQA, VEC_MOV, VEC_MOV),
	MAP(LDDQU, VEC_MOV, VEC_MOV),
	MAP(MOVNTDQ, VEC_MOV, VEC_MOV),
	MAP(MOVNTPS, VEC_MOV, VEC_MOV),
	MAP(MOVD, VEC_MOV, VEC_MOV),
	MAP(MOVQ, VEC_MOV, VEC_MOV),
	MAP(VMOVUPS, VEC_MOV, VEC_MOV),
	MAP(VMOVAPS, VEC_MOV, VEC_MOV),
	MAP(VMOVUPD, VEC_MOV, VEC_MOV),
	MAP(VMOVAPD, VEC_MOV, VEC_MOV),
	MAP(VMOVDQU, VEC_MOV, VEC_MOV),
	MAP(VMOVDQA, VEC_MOV, VEC_MOV),
	MAP(VMOVDQU8, VEC_MOV, VEC_MOV),
	MAP(VMOVDQU16, VEC_MOV, VEC_MOV),
	MAP(VMOVDQU32, VEC_MOV, VEC_MOV),
	MAP(VMOVDQU64, VEC_MOV, VEC_MOV),
	MAP(VMOVDQA32, VEC_MOV, VEC_MOV),
	MAP(VMOVDQA64, VEC_MOV, VEC_MOV),
	MAP(VMOVD, VEC_MOV, VEC_MOV),
	MAP(VMOVQ, VEC_MOV, VEC_MOV),
	MAP(PXOR, VEC_ZERO, VEC_SELF),
	MAP(XORPS, VEC_ZERO, VEC_SELF),
	MAP(XORPD, VEC_ZERO, VEC_SELF),
	MAP(VPXOR, VEC_ZERO, VEC_SELF),
	MAP(VXORPS, VEC_ZERO, VEC_SELF),
	MAP(MOVHPS, VEC_HIGH, VEC_MOV),
	MAP(MOVHPD, VEC_HIGH, VEC_MOV),
	MAP(PUNPCKLQDQ, VEC_UNPACKQ, VEC_MOV),
	MAP(VZEROUPPER, VEC_ZEROUPPER, NONE),
};

static uint8_t gpr_number(ZydisMachineMode mode, ZydisRegister reg)
{
	ZydisRegister whole = ZydisRegisterGetLargestEnclosing(mode, reg);
	ZydisRegisterClass class = ZydisRegisterGetClass(whole);

	if (class != ZYDIS_REGCLASS_GPR64 && class != ZYDIS_REGCLASS_GPR32)
		return INSN_REG_NONE;
	return (uint8_t)ZydisRegisterGetId(whole);
}

static uint8_t vec_number(ZydisRegister reg)
{
	switch (ZydisRegisterGetClass(reg)) {
	case ZYDIS_REGCLASS_XMM:
	case ZYDIS_REGCLASS_YMM:
	case ZYDIS_REGCLASS_ZMM:
		return (uint8_t)ZydisRegisterGetId(reg);
	default:
		return INSN_REG_NONE;
	}
}

static ZydisMachineMode machine_mode(unsigned int mode_bits)
{
	return mode_bits == 64 ? ZYDIS_MACHINE_MODE_LONG_64 : ZYDIS_MACHINE_MODE_LEGACY_32;
}

/* False: an addressing form that we do not model. */
static bool fill_memory(const struct source *source, const ZydisDecodedOperand *operand,
			struct insn_ops *ops)
{
	ZydisMachineMode mode = machine_mode(source->mode_bits);
	const ZydisDecodedOperandMem *mem = &operand->mem;

	ops->base = ops->index = INSN_REG_NONE;
	ops->scale = mem->scale;
	ops->displacement = mem->disp.has_displacement ? mem->disp.value : 0;
	ops->mem_size = operand->size / 8;
	ops->segment = mem->segment == ZYDIS_REGISTER_FS ? INSN_SEGMENT_FS :
		       mem->segment == ZYDIS_REGISTER_GS ? INSN_SEGMENT_GS :
							   INSN_SEGMENT_FLAT;
	if (mem->type != ZYDIS_MEMOP_TYPE_MEM && mem->type != ZYDIS_MEMOP_TYPE_AGEN)
		return false;
	if (mem->base == ZYDIS_REGISTER_RIP || mem->base == ZYDIS_REGISTER_EIP) {
		ops->displacement += (int64_t)(source->ip + source->insn.length);
	} else if (mem->base != ZYDIS_REGISTER_NONE) {
		ops->base = gpr_number(mode, mem->base);
		if (ops->base == INSN_REG_NONE)
			return false;
	}
	if (mem->index == ZYDIS_REGISTER_NONE)
		return true;
	ops->index = gpr_number(mode, mem->index);
	return ops->index != INSN_REG_NONE;
}

static bool fill_operand(const struct source *source, const ZydisDecodedOperand *operand,
			 struct insn_ops *ops, struct insn_operand *out)
{
	ZydisRegister reg = operand->reg.value;

	out->size = (uint8_t)(operand->size / 8);
	switch (operand->type) {
	case ZYDIS_OPERAND_TYPE_MEMORY:
		out->kind = INSN_OPERAND_MEM;
		return fill_memory(source, operand, ops);
	case ZYDIS_OPERAND_TYPE_IMMEDIATE:
		out->kind = INSN_OPERAND_IMM;
		ops->imm = operand->imm.is_signed ? (uint64_t)operand->imm.value.s :
						    operand->imm.value.u;
		ops->has_imm = true;
		return true;
	case ZYDIS_OPERAND_TYPE_REGISTER:
		break;
	default:
		return false;
	}
	if (reg >= ZYDIS_REGISTER_AH && reg <= ZYDIS_REGISTER_BH) {
		out->kind = INSN_OPERAND_HIGH;
		out->reg = (uint8_t)(reg - ZYDIS_REGISTER_AH);
		return true;
	}
	out->kind = INSN_OPERAND_VEC;
	out->reg = vec_number(reg);
	if (out->reg != INSN_REG_NONE)
		return true;
	out->kind = INSN_OPERAND_REG;
	out->reg = gpr_number(machine_mode(source->mode_bits), reg);
	return out->reg != INSN_REG_NONE;
}

static bool fill_imul(const struct source *source, struct insn_ops *ops)
{
	const ZydisDecodedOperand *operands = source->operands;

	switch (source->insn.operand_count_visible) {
	case 1:
		ops->op = INSN_OP_IMUL_WIDE;
		return fill_operand(source, &operands[0], ops, &ops->src);
	case 2:
		return fill_operand(source, &operands[0], ops, &ops->dst) &&
		       fill_operand(source, &operands[1], ops, &ops->src);
	default:
		return fill_operand(source, &operands[0], ops, &ops->dst) &&
		       fill_operand(source, &operands[1], ops, &ops->src) &&
		       fill_operand(source, &operands[2], ops, &ops->src2);
	}
}

static bool is_plain_vector(const ZydisDecodedInstruction *insn)
{
	return insn->avx.mask.mode <= ZYDIS_MASK_MODE_DISABLED &&
	       insn->avx.broadcast.mode == ZYDIS_BROADCAST_MODE_INVALID;
}

static bool fill_vector(const struct source *source, enum shape shape, struct insn_ops *ops)
{
	const ZydisDecodedOperand *operands = source->operands;
	unsigned int n = source->insn.operand_count_visible;

	ops->keeps_upper = source->insn.encoding == ZYDIS_INSTRUCTION_ENCODING_LEGACY;
	if (!is_plain_vector(&source->insn) || n < 2)
		return false;
	if (!fill_operand(source, &operands[0], ops, &ops->dst) ||
	    !fill_operand(source, &operands[n - 1], ops, &ops->src))
		return false;
	if (shape == SHAPE_VEC_SELF)
		return ops->dst.kind == INSN_OPERAND_VEC && ops->src.kind == INSN_OPERAND_VEC &&
		       operands[n - 2].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		       vec_number(operands[n - 2].reg.value) == ops->src.reg;
	return n == 2;
}

/* MOVQ and MOVD into a vector zero its other bytes up to 16; loads of 16 bytes have none. */
static bool finish_vector(struct insn_ops *ops)
{
	if (ops->dst.kind != INSN_OPERAND_VEC && ops->src.kind != INSN_OPERAND_VEC)
		return false; /* MMX */
	if (ops->op == INSN_OP_VEC_HIGH)
		return ops->keeps_upper;
	if (ops->op == INSN_OP_VEC_MOV && ops->dst.size > ops->src.size)
		ops->dst.size = ops->src.size;
	if (ops->op == INSN_OP_VEC_MOV && ops->src.size > ops->dst.size)
		ops->src.size = ops->dst.size;
	return true;
}

static bool fill_shape(const struct source *source, enum shape shape, struct insn_ops *ops)
{
	const ZydisDecodedOperand *operands = source->operands;

	switch (shape) {
	case SHAPE_NONE:
		return true;
	case SHAPE_DST:
		return fill_operand(source, &operands[0], ops, &ops->dst) &&
		       (ops->op != INSN_OP_POP || ops->dst.kind == INSN_OPERAND_REG);
	case SHAPE_SRC:
		return fill_operand(source, &operands[0], ops, &ops->src) &&
		       ops->src.kind != INSN_OPERAND_VEC;
	case SHAPE_DST_SRC:
	case SHAPE_SHIFT:
		return fill_operand(source, &operands[0], ops, &ops->dst) &&
		       fill_operand(source, &operands[1], ops, &ops->src);
	case SHAPE_BIT:
		return fill_operand(source, &operands[0], ops, &ops->dst) &&
		       fill_operand(source, &operands[1], ops, &ops->src) &&
		       (ops->dst.kind == INSN_OPERAND_REG || ops->src.kind == INSN_OPERAND_IMM);
	case SHAPE_IMUL:
		return fill_imul(source, ops);
	case SHAPE_VEC_MOV:
	case SHAPE_VEC_SELF:
		return fill_vector(source, shape, ops) && finish_vector(ops);
	}
	return false;
}

static bool is_segment_load(const struct source *source)
{
	switch (source->insn.mnemonic) {
	case ZYDIS_MNEMONIC_LFS:
	case ZYDIS_MNEMONIC_LGS:
	case ZYDIS_MNEMONIC_LDS:
	case ZYDIS_MNEMONIC_LES:
	case ZYDIS_MNEMONIC_LSS:
	case ZYDIS_MNEMONIC_WRFSBASE:
	case ZYDIS_MNEMONIC_WRGSBASE:
		return true;
	case ZYDIS_MNEMONIC_MOV:
	case ZYDIS_MNEMONIC_POP:
		return source->operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		       ZydisRegisterGetClass(source->operands[0].reg.value) ==
			       ZYDIS_REGCLASS_SEGMENT;
	default:
		return false;
	}
}

static bool is_opaque(const struct source *source)
{
	switch (source->insn.meta.category) {
	case ZYDIS_CATEGORY_INTERRUPT:
	case ZYDIS_CATEGORY_SYSCALL:
	case ZYDIS_CATEGORY_SYSRET:
	case ZYDIS_CATEGORY_VTX:
	case ZYDIS_CATEGORY_SGX:
	case ZYDIS_CATEGORY_UINTR:
	case ZYDIS_CATEGORY_IO:
	case ZYDIS_CATEGORY_IOSTRINGOP:
		return true;
	default:
		break;
	}
	switch (source->insn.mnemonic) {
	case ZYDIS_MNEMONIC_UD0:
	case ZYDIS_MNEMONIC_UD1:
	case ZYDIS_MNEMONIC_UD2:
	case ZYDIS_MNEMONIC_HLT:
	case ZYDIS_MNEMONIC_XBEGIN:
	case ZYDIS_MNEMONIC_XEND:
	case ZYDIS_MNEMONIC_XABORT:
	case ZYDIS_MNEMONIC_VMMCALL:
	case ZYDIS_MNEMONIC_PUSHF:
	case ZYDIS_MNEMONIC_PUSHFD:
	case ZYDIS_MNEMONIC_PUSHFQ:
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFD:
	case ZYDIS_MNEMONIC_POPFQ:
	case ZYDIS_MNEMONIC_IRET:
	case ZYDIS_MNEMONIC_IRETD:
	case ZYDIS_MNEMONIC_IRETQ:
		return true;
	default:
		return is_segment_load(source);
	}
}

static bool has_prefix(const ZydisDecodedInstruction *insn, uint8_t value)
{
	for (unsigned int i = 0; i < insn->raw.prefix_count; i++) {
		if (insn->raw.prefixes[i].value == value)
			return true;
	}
	return false;
}

static void fill_target(const struct source *source, struct insn_ops *ops)
{
	ops->target = source->ip + source->insn.length + (uint64_t)source->insn.raw.imm[0].value.s;
	if (source->mode_bits == 32)
		ops->target &= 0xffffffff;
}

/*
 * Branches. With an operand size prefix and no REX.W, AMD cuts the target to 16 bits and Intel does
 * not, so these are opaque.
 */
static void map_branch(const struct source *source, struct insn_ops *ops)
{
	const ZydisDecodedInstruction *insn = &source->insn;
	bool is_direct = insn->raw.imm[0].is_relative;
	uint8_t op = INSN_OP_JCC;

	if (insn->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR ||
	    (has_prefix(insn, 0x66) && !insn->raw.rex.W))
		return;
	if (insn->mnemonic == ZYDIS_MNEMONIC_RET) {
		ops->imm = insn->operand_count_visible ? insn->raw.imm[0].value.u : 0;
		ops->op = INSN_OP_RET;
		return;
	}
	if (insn->mnemonic == ZYDIS_MNEMONIC_JMP)
		op = is_direct ? INSN_OP_JMP : INSN_OP_JMP_IND;
	if (insn->mnemonic == ZYDIS_MNEMONIC_CALL)
		op = is_direct ? INSN_OP_CALL : INSN_OP_CALL_IND;
	if (is_direct)
		fill_target(source, ops);
	else if (!fill_operand(source, &source->operands[0], ops, &ops->src))
		return;
	if (op == INSN_OP_JCC && (insn->opcode & 0xfc) == 0xe0)
		ops->condition = INSN_CC_LOOPNE + (insn->opcode & 3);
	else
		ops->condition = insn->opcode & 15;
	ops->op = op;
}

/* What the instruction writes, for those that are not computed. */
static void fill_clobbers(const struct source *source, struct insn_ops *ops)
{
	const ZydisDecodedInstruction *insn = &source->insn;

	ops->op = INSN_OP_OTHER;
	ops->memory = INSN_MEMORY_KEPT;
	if (insn->cpu_flags)
		ops->clobbers_flags =
			STATUS_FLAGS & (insn->cpu_flags->modified | insn->cpu_flags->set_0 |
					insn->cpu_flags->set_1 | insn->cpu_flags->undefined);
	if (insn->meta.category == ZYDIS_CATEGORY_STRINGOP)
		ops->clobbers_gpr = 1u << 1 | 1u << 6 | 1u << 7; /* RCX RSI RDI, not in operands */
	if (insn->meta.category == ZYDIS_CATEGORY_XSAVE ||
	    insn->meta.category == ZYDIS_CATEGORY_XSAVEOPT ||
	    insn->mnemonic == ZYDIS_MNEMONIC_FXRSTOR ||
	    insn->mnemonic == ZYDIS_MNEMONIC_FXRSTOR64 || insn->mnemonic == ZYDIS_MNEMONIC_VZEROALL)
		ops->clobbers_vec = UINT64_MAX;
	/* A register bit number reaches beyond the memory operand. */
	if (insn->meta.category == ZYDIS_CATEGORY_BITBYTE &&
	    source->operands[1].type == ZYDIS_OPERAND_TYPE_REGISTER)
		ops->memory = INSN_MEMORY_ANYWHERE;
	if (insn->meta.category == ZYDIS_CATEGORY_CLZERO ||
	    insn->meta.category == ZYDIS_CATEGORY_MOVDIR ||
	    insn->meta.category == ZYDIS_CATEGORY_ENQCMD || insn->mnemonic == ZYDIS_MNEMONIC_POP)
		ops->memory = INSN_MEMORY_ANYWHERE;
	for (unsigned int i = 0; i < insn->operand_count; i++) {
		const ZydisDecodedOperand *operand = &source->operands[i];
		uint8_t gpr, vec;

		if (!(operand->actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			continue;
		if (operand->type == ZYDIS_OPERAND_TYPE_MEMORY) {
			bool is_known = fill_memory(source, operand, ops) && ops->mem_size &&
					ops->mem_size <= 64 && ops->memory == INSN_MEMORY_KEPT &&
					!(operand->visibility == ZYDIS_OPERAND_VISIBILITY_HIDDEN &&
					  ops->base == 4);
			ops->memory = is_known ? INSN_MEMORY_WRITES : INSN_MEMORY_ANYWHERE;
		}
		if (operand->type != ZYDIS_OPERAND_TYPE_REGISTER)
			continue;
		gpr = gpr_number(machine_mode(source->mode_bits), operand->reg.value);
		vec = vec_number(operand->reg.value);
		if (gpr < 16)
			ops->clobbers_gpr |= (uint16_t)(1u << gpr);
		if (vec < 32)
			ops->clobbers_vec |= 1ull << vec;
	}
}

static bool is_rep_string(const ZydisDecodedInstruction *insn)
{
	return insn->meta.category == ZYDIS_CATEGORY_STRINGOP &&
	       (has_prefix(insn, 0xf2) || has_prefix(insn, 0xf3));
}

static bool map_condition(const struct source *source, struct insn_ops *ops)
{
	const ZydisDecodedInstruction *insn = &source->insn;

	ops->condition = insn->opcode & 15;
	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_SETCC:
		ops->op = INSN_OP_SETCC;
		return fill_shape(source, SHAPE_DST, ops);
	case ZYDIS_CATEGORY_CMOV:
		ops->op = INSN_OP_CMOVCC;
		return fill_shape(source, SHAPE_DST_SRC, ops);
	default:
		return false;
	}
}

static bool map_plain(const struct source *source, struct insn_ops *ops)
{
	if (source->insn.mnemonic == ZYDIS_MNEMONIC_LZCNT && !__builtin_cpu_supports("lzcnt"))
		return false;
	if (source->insn.mnemonic == ZYDIS_MNEMONIC_TZCNT && !__builtin_cpu_supports("bmi"))
		return false;
	for (size_t i = 0; i < sizeof(mappings) / sizeof(*mappings); i++) {
		if (mappings[i].mnemonic != source->insn.mnemonic)
			continue;
		ops->op = mappings[i].op;
		return fill_shape(source, mappings[i].shape, ops);
	}
	return map_condition(source, ops);
}

static void map(const struct source *source, struct insn_ops *ops)
{
	const ZydisDecodedInstruction *insn = &source->insn;

	memset(ops, 0, sizeof(*ops));
	ops->base = ops->index = INSN_REG_NONE;
	ops->op_size = insn->operand_width / 8;
	ops->addr32 = insn->address_width == 32;
	if (is_opaque(source) || insn->address_width == 16)
		return;
	switch (insn->meta.category) {
	case ZYDIS_CATEGORY_COND_BR:
	case ZYDIS_CATEGORY_UNCOND_BR:
	case ZYDIS_CATEGORY_CALL:
	case ZYDIS_CATEGORY_RET:
		map_branch(source, ops);
		return;
	default:
		break;
	}
	if (is_rep_string(insn)) {
		fill_clobbers(source, ops);
		ops->op = INSN_OP_REP;
		return;
	}
	if (!map_plain(source, ops))
		fill_clobbers(source, ops);
}

int insn_ops_decode(const uint8_t *bytes, size_t size, uint64_t ip, unsigned int mode_bits,
		    struct insn_ops *ops)
{
	struct source source = { .ip = ip, .mode_bits = mode_bits };
	ZydisDecoder decoder;
	ZyanStatus status;

	status = ZydisDecoderInit(&decoder, machine_mode(mode_bits),
				  mode_bits == 64 ? ZYDIS_STACK_WIDTH_64 : ZYDIS_STACK_WIDTH_32);
	if (!ZYAN_SUCCESS(status))
		return -EINVAL;
	status = ZydisDecoderDecodeFull(&decoder, bytes, size, &source.insn, source.operands);
	if (status == ZYDIS_STATUS_NO_MORE_DATA)
		return -ENODATA;
	if (!ZYAN_SUCCESS(status))
		return -EINVAL;
	map(&source, ops);
	return 0;
}
