// SPDX-License-Identifier: GPL-2.0-only
#include "image/insn.h"

#include <errno.h>

#include <Zydis/Zydis.h>

static int decoder_init(ZydisDecoder *decoder, unsigned int mode_bits)
{
	ZyanStatus status;

	switch (mode_bits) {
	case 64:
		status =
			ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
		break;
	case 32:
		status = ZydisDecoderInit(decoder, ZYDIS_MACHINE_MODE_LEGACY_32,
					  ZYDIS_STACK_WIDTH_32);
		break;
	default:
		return -EINVAL;
	}
	return ZYAN_SUCCESS(status) ? 0 : -EINVAL;
}

static enum insn_class classify_branch(const ZydisDecodedInstruction *decoded, enum insn_class near,
				       enum insn_class indirect)
{
	if (decoded->meta.branch_type == ZYDIS_BRANCH_TYPE_FAR)
		return INSN_FAR;
	return decoded->raw.imm[0].is_relative ? near : indirect;
}

static enum insn_class classify(const ZydisDecodedInstruction *decoded)
{
	switch (decoded->mnemonic) {
	case ZYDIS_MNEMONIC_XBEGIN:
		return INSN_XBEGIN;
	case ZYDIS_MNEMONIC_XEND:
		return INSN_XEND;
	case ZYDIS_MNEMONIC_JMP:
		return classify_branch(decoded, INSN_JMP, INSN_JMP_IND);
	case ZYDIS_MNEMONIC_CALL:
		return classify_branch(decoded, INSN_CALL, INSN_CALL_IND);
	case ZYDIS_MNEMONIC_RET:
		return classify_branch(decoded, INSN_RET, INSN_RET);
	case ZYDIS_MNEMONIC_INT:
	case ZYDIS_MNEMONIC_INT1:
	case ZYDIS_MNEMONIC_INT3:
	case ZYDIS_MNEMONIC_INTO:
	case ZYDIS_MNEMONIC_IRET:
	case ZYDIS_MNEMONIC_IRETD:
	case ZYDIS_MNEMONIC_IRETQ:
	case ZYDIS_MNEMONIC_SYSCALL:
	case ZYDIS_MNEMONIC_SYSENTER:
	case ZYDIS_MNEMONIC_SYSEXIT:
	case ZYDIS_MNEMONIC_SYSRET:
	case ZYDIS_MNEMONIC_UIRET:
	case ZYDIS_MNEMONIC_VMCALL:
	case ZYDIS_MNEMONIC_VMLAUNCH:
	case ZYDIS_MNEMONIC_VMRESUME:
		return INSN_FAR;
	default:
		break;
	}
	return decoded->meta.category == ZYDIS_CATEGORY_COND_BR && decoded->raw.imm[0].is_relative ?
		       INSN_JCC :
		       INSN_OTHER;
}

/* F2 repeats MOVS, STOS, ... just as F3 does, so the prefix byte counts, not its meaning. */
static bool is_rep_string(const ZydisDecodedInstruction *decoded)
{
	if (decoded->meta.category != ZYDIS_CATEGORY_STRINGOP &&
	    decoded->meta.category != ZYDIS_CATEGORY_IOSTRINGOP)
		return false;
	for (unsigned int i = 0; i < decoded->raw.prefix_count; i++) {
		uint8_t prefix = decoded->raw.prefixes[i].value;

		if (prefix == 0xf2 || prefix == 0xf3)
			return true;
	}
	return false;
}

static bool touches_tf(const ZydisDecodedInstruction *decoded, const ZydisDecodedOperand *operands)
{
	switch (decoded->mnemonic) {
	case ZYDIS_MNEMONIC_PUSHF:
	case ZYDIS_MNEMONIC_PUSHFD:
	case ZYDIS_MNEMONIC_PUSHFQ:
	case ZYDIS_MNEMONIC_POPF:
	case ZYDIS_MNEMONIC_POPFD:
	case ZYDIS_MNEMONIC_POPFQ:
	case ZYDIS_MNEMONIC_IRET:
	case ZYDIS_MNEMONIC_IRETD:
	case ZYDIS_MNEMONIC_IRETQ:
	case ZYDIS_MNEMONIC_LSS:
		return true;
	case ZYDIS_MNEMONIC_MOV:
	case ZYDIS_MNEMONIC_POP:
		return operands[0].type == ZYDIS_OPERAND_TYPE_REGISTER &&
		       operands[0].reg.value == ZYDIS_REGISTER_SS;
	default:
		return false;
	}
}

static bool writes_memory(const ZydisDecodedInstruction *decoded,
			  const ZydisDecodedOperand *operands)
{
	for (unsigned int i = 0; i < decoded->operand_count; i++) {
		if (operands[i].type == ZYDIS_OPERAND_TYPE_MEMORY &&
		    (operands[i].actions & ZYDIS_OPERAND_ACTION_MASK_WRITE))
			return true;
	}
	return false;
}

static uint64_t branch_target(const ZydisDecodedInstruction *decoded, uint64_t ip,
			      unsigned int mode_bits)
{
	uint64_t target = ip + decoded->length + (uint64_t)decoded->raw.imm[0].value.s;

	if (mode_bits == 64)
		return target;
	return target & (decoded->operand_width == 16 ? 0xffff : 0xffffffff);
}

int insn_decode(const uint8_t *bytes, size_t size, uint64_t ip, unsigned int mode_bits,
		struct insn *insn)
{
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZydisDecodedInstruction decoded;
	ZydisDecoder decoder;
	ZyanStatus status;

	*insn = (struct insn){ .class = INSN_INVALID };
	if (decoder_init(&decoder, mode_bits))
		return -EINVAL;
	status = ZydisDecoderDecodeFull(&decoder, bytes, size, &decoded, operands);
	if (status == ZYDIS_STATUS_NO_MORE_DATA)
		return -ENODATA;
	if (!ZYAN_SUCCESS(status))
		return -EINVAL;
	/* Branches that only Knights Corner had. */
	if (decoded.mnemonic == ZYDIS_MNEMONIC_JKZD || decoded.mnemonic == ZYDIS_MNEMONIC_JKNZD)
		return -EINVAL;
	insn->class = classify(&decoded);
	insn->length = decoded.length;
	insn->is_rep_string = is_rep_string(&decoded);
	insn->touches_tf = touches_tf(&decoded, operands);
	insn->writes_memory = writes_memory(&decoded, operands);
	if (decoded.raw.imm[0].is_relative)
		insn->target = branch_target(&decoded, ip, mode_bits);
	return 0;
}
