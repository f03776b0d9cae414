// SPDX-License-Identifier: GPL-2.0-only
#include "record/soft/block_exec.h"

static void flags_set(struct block_state *state, uint32_t known, uint32_t value)
{
	state->flags = (state->flags & ~known) | (value & known);
	state->flags_known |= known;
}

static uint64_t sign_bit(unsigned int size)
{
	return 1ull << (8 * size - 1);
}

static bool is_whole(struct block_value value, unsigned int size)
{
	return (value.known & block_mask(size)) == block_mask(size);
}

static struct block_value whole(uint64_t value, unsigned int size)
{
	return (struct block_value){ value & block_mask(size), block_mask(size) };
}

/* ZF, SF and PF as far as the result's known bits tell. */
static void flags_of_result(struct block_state *state, struct block_value result, unsigned int size)
{
	uint64_t mask = block_mask(size), sign = sign_bit(size);
	uint32_t known = 0, value = 0;

	if (result.value & mask) {
		known |= BLOCK_ZF;
	} else if (is_whole(result, size)) {
		known |= BLOCK_ZF;
		value |= BLOCK_ZF;
	}
	if (result.known & sign) {
		known |= BLOCK_SF;
		value |= result.value & sign ? BLOCK_SF : 0;
	}
	if ((result.known & 0xff) == 0xff) {
		known |= BLOCK_PF;
		value |= __builtin_parity(result.value & 0xff) ? 0 : BLOCK_PF;
	}
	block_flags_forget(state, BLOCK_ZF | BLOCK_SF | BLOCK_PF);
	flags_set(state, known, value);
}

/* a + b + carry; for subtractions the caller complements. */
static struct block_value add(struct block_state *state, unsigned int size, uint64_t a, uint64_t b,
			      unsigned int carry, bool is_sub)
{
	uint64_t mask = block_mask(size), sign = sign_bit(size), operand = is_sub ? ~b & mask : b;
	uint64_t sum = (a + operand + carry) & mask;
	bool carry_out = carry ? sum <= a : sum < a;
	bool overflow = (~(a ^ operand) & (a ^ sum) & sign) != 0;
	uint32_t flags = 0;

	if (carry_out != is_sub)
		flags |= BLOCK_CF;
	if (overflow)
		flags |= BLOCK_OF;
	if ((a ^ b ^ sum) & 0x10)
		flags |= BLOCK_AF;
	flags_set(state, BLOCK_CF | BLOCK_OF | BLOCK_AF, flags);
	flags_of_result(state, whole(sum, size), size);
	return whole(sum, size);
}

static struct block_value alu_add(struct block_state *state, uint8_t op, unsigned int size,
				  struct block_value dst, struct block_value src)
{
	bool is_sub = op == INSN_OP_SUB || op == INSN_OP_SBB || op == INSN_OP_CMP;
	bool with_carry = op == INSN_OP_ADC || op == INSN_OP_SBB;
	unsigned int carry = with_carry && (state->flags & BLOCK_CF);

	if (!is_whole(dst, size) || !is_whole(src, size) ||
	    (with_carry && !(state->flags_known & BLOCK_CF))) {
		block_flags_forget(state, BLOCK_ARITH);
		return block_unknown();
	}
	return add(state, size, dst.value & block_mask(size), src.value & block_mask(size),
		   is_sub ? !carry : carry, is_sub);
}

/* INC and DEC leave CF alone. */
static struct block_value alu_step(struct block_state *state, uint8_t op, unsigned int size,
				   struct block_value dst)
{
	uint32_t carry = state->flags & BLOCK_CF, carry_known = state->flags_known & BLOCK_CF;
	struct block_value result = alu_add(state, op == INSN_OP_INC ? INSN_OP_ADD : INSN_OP_SUB,
					    size, dst, whole(1, size));

	block_flags_forget(state, BLOCK_CF);
	flags_set(state, carry_known, carry);
	return result;
}

static struct block_value alu_logic(struct block_state *state, uint8_t op, unsigned int size,
				    struct block_value dst, struct block_value src)
{
	uint64_t mask = block_mask(size), both = dst.known & src.known;
	struct block_value result;

	switch (op) {
	case INSN_OP_OR:
		result.value = dst.value | src.value;
		result.known = both | dst.value | src.value;
		break;
	case INSN_OP_XOR:
		result.value = dst.value ^ src.value;
		result.known = both;
		break;
	default: /* AND, TEST */
		result.value = dst.value & src.value;
		result.known = both | (dst.known & ~dst.value) | (src.known & ~src.value);
	}
	result.known &= mask;
	result.value &= result.known;
	flags_set(state, BLOCK_CF | BLOCK_OF, 0);
	block_flags_forget(state, BLOCK_AF);
	flags_of_result(state, result, size);
	return result;
}

static struct block_value shift_value(uint8_t op, unsigned int size, struct block_value dst,
				      unsigned int count)
{
	uint64_t mask = block_mask(size), sign = sign_bit(size), shifted_in;
	unsigned int bits = 8 * size;
	struct block_value result;

	if (op == INSN_OP_SHL) {
		result.value = count >= bits ? 0 : dst.value << count;
		result.known = count >= bits ? mask : dst.known << count | ((1ull << count) - 1);
	} else {
		shifted_in = count >= bits ? mask : ~(mask >> count) & mask;
		result.value = count >= bits ? 0 : (dst.value & mask) >> count;
		result.known = count >= bits ? 0 : (dst.known & mask) >> count;
		if (op == INSN_OP_SHR || (dst.known & sign))
			result.known |= shifted_in;
		if (op == INSN_OP_SAR && (dst.value & sign))
			result.value |= shifted_in;
	}
	result.known &= mask;
	result.value &= result.known;
	return result;
}

static void shift_flags(struct block_state *state, uint8_t op, unsigned int size,
			struct block_value dst, struct block_value result, unsigned int count)
{
	unsigned int bits = 8 * size;
	/* The bit that was shifted out last; beyond the width it is undefined, or the sign. */
	unsigned int last = op == INSN_OP_SHL ? bits - count : count - 1;
	uint32_t known = 0, value = 0;

	block_flags_forget(state, BLOCK_ARITH);
	if (op == INSN_OP_SAR && count > bits)
		last = bits - 1;
	if ((count <= bits || op == INSN_OP_SAR) && (dst.known >> last & 1)) {
		known |= BLOCK_CF;
		value |= dst.value >> last & 1 ? BLOCK_CF : 0;
	}
	/* Some processors leave CF undefined when count equals the width of 8 and 16 bits. */
	if (count == bits && op != INSN_OP_SAR)
		known &= ~BLOCK_CF;
	if (count == 1 && is_whole(dst, size)) {
		bool old_sign = dst.value & sign_bit(size),
		     new_sign = result.value & sign_bit(size);

		known |= BLOCK_OF;
		if (op == INSN_OP_SAR ? false : op == INSN_OP_SHR ? old_sign : old_sign != new_sign)
			value |= BLOCK_OF;
	}
	flags_set(state, known, value);
	flags_of_result(state, result, size);
}

static struct block_value alu_rotate(struct block_state *state, uint8_t op, unsigned int size,
				     struct block_value dst, unsigned int count)
{
	unsigned int bits = 8 * size, turn = count % bits;
	uint64_t mask = block_mask(size), value = dst.value & mask, result = value;
	bool top, next;

	block_flags_forget(state, BLOCK_CF | BLOCK_OF);
	if (!is_whole(dst, size))
		return block_unknown();
	if (op == INSN_OP_ROR && turn)
		turn = bits - turn;
	if (turn)
		result = (value << turn | value >> (bits - turn)) & mask;
	top = result & sign_bit(size);
	next = result & sign_bit(size) >> 1;
	if (op == INSN_OP_ROL)
		flags_set(state, BLOCK_CF, result & 1 ? BLOCK_CF : 0);
	else
		flags_set(state, BLOCK_CF, top ? BLOCK_CF : 0);
	if (count == 1)
		flags_set(state, BLOCK_OF,
			  (op == INSN_OP_ROL ? top != (result & 1) : top != next) ? BLOCK_OF : 0);
	return whole(result, size);
}

static struct block_value alu_shift(struct block_state *state, uint8_t op, unsigned int size,
				    struct block_value dst, struct block_value src)
{
	bool is_rotate = op == INSN_OP_ROL || op == INSN_OP_ROR;
	unsigned int limit = size == 8 ? 63 : 31, count;
	struct block_value result;

	if ((src.known & limit) != limit) {
		block_flags_forget(state, is_rotate ? BLOCK_CF | BLOCK_OF : BLOCK_ARITH);
		return block_unknown();
	}
	count = src.value & limit;
	if (!count)
		return dst;
	if (is_rotate)
		return alu_rotate(state, op, size, dst, count);
	result = shift_value(op, size, dst, count);
	shift_flags(state, op, size, dst, result, count);
	return result;
}

static struct block_value alu_bit(struct block_state *state, uint8_t op, unsigned int size,
				  struct block_value dst, struct block_value src)
{
	uint64_t limit = 8 * size - 1, bit;

	/* ZF stays, OF SF AF PF are undefined. */
	block_flags_forget(state, BLOCK_CF | BLOCK_OF | BLOCK_SF | BLOCK_AF | BLOCK_PF);
	if ((src.known & limit) != limit)
		return block_unknown();
	bit = 1ull << (src.value & limit);
	if (dst.known & bit)
		flags_set(state, BLOCK_CF, dst.value & bit ? BLOCK_CF : 0);
	if (op == INSN_OP_BTS) {
		dst.value |= bit;
		dst.known |= bit;
	} else if (op == INSN_OP_BTR) {
		dst.value &= ~bit;
		dst.known |= bit;
	} else if (op == INSN_OP_BTC && (dst.known & bit)) {
		dst.value ^= bit;
	}
	return dst;
}

static struct block_value alu_count(struct block_state *state, uint8_t op, unsigned int size,
				    struct block_value src)
{
	uint64_t value = src.value & block_mask(size), result;
	unsigned int bits = 8 * size;

	block_flags_forget(state, BLOCK_ARITH);
	if (!is_whole(src, size)) {
		/* A bit that is set decides BSF's and BSR's ZF. */
		if (value && (op == INSN_OP_BSF || op == INSN_OP_BSR))
			flags_set(state, BLOCK_ZF, 0);
		return block_unknown();
	}
	switch (op) {
	case INSN_OP_BSF:
	case INSN_OP_BSR:
		flags_set(state, BLOCK_ZF, value ? 0 : BLOCK_ZF);
		if (!value)
			return block_unknown();
		return whole(op == INSN_OP_BSF ? (uint64_t)__builtin_ctzll(value) :
						 63 - (uint64_t)__builtin_clzll(value),
			     size);
	case INSN_OP_POPCNT:
		flags_set(state, BLOCK_ARITH, value ? 0 : BLOCK_ZF);
		return whole((uint64_t)__builtin_popcountll(value), size);
	case INSN_OP_TZCNT:
		result = value ? (uint64_t)__builtin_ctzll(value) : bits;
		break;
	default: /* LZCNT */
		result = value ? (uint64_t)__builtin_clzll(value) - (64 - bits) : bits;
	}
	flags_set(state, BLOCK_CF | BLOCK_ZF, (value ? 0 : BLOCK_CF) | (result ? 0 : BLOCK_ZF));
	return whole(result, size);
}

static int64_t sign_extend(uint64_t value, unsigned int size)
{
	unsigned int shift = 64 - 8 * size;

	return (int64_t)(value << shift) >> shift;
}

static struct block_value alu_imul(struct block_state *state, unsigned int size,
				   struct block_value dst, struct block_value src)
{
	__int128 product;

	block_flags_forget(state, BLOCK_ARITH);
	if (!is_whole(dst, size) || !is_whole(src, size))
		return block_unknown();
	product = (__int128)sign_extend(dst.value, size) * sign_extend(src.value, size);
	flags_set(state, BLOCK_CF | BLOCK_OF,
		  product == sign_extend((uint64_t)product, size) ? 0 : BLOCK_CF | BLOCK_OF);
	return whole((uint64_t)product, size);
}

static struct block_value alu_bswap(unsigned int size, struct block_value dst)
{
	if (size == 8)
		return (struct block_value){ __builtin_bswap64(dst.value),
					     __builtin_bswap64(dst.known) };
	if (size == 4)
		return (struct block_value){ __builtin_bswap32((uint32_t)dst.value),
					     __builtin_bswap32((uint32_t)dst.known) };
	return block_unknown();
}

struct block_value block_alu(struct block_state *state, uint8_t op, unsigned int size,
			     struct block_value dst, struct block_value src, bool same_register)
{
	if (same_register && (op == INSN_OP_XOR || op == INSN_OP_SUB || op == INSN_OP_CMP))
		dst = src = whole(0, size);
	switch (op) {
	case INSN_OP_ADD:
	case INSN_OP_ADC:
	case INSN_OP_SUB:
	case INSN_OP_CMP:
		return alu_add(state, op, size, dst, src);
	case INSN_OP_SBB:
		/* x - x - carry, the idiom for a mask. */
		if (same_register)
			dst = src = whole(0, size);
		return alu_add(state, op, size, dst, src);
	case INSN_OP_NEG:
		return alu_add(state, INSN_OP_SUB, size, whole(0, size), dst);
	case INSN_OP_INC:
	case INSN_OP_DEC:
		return alu_step(state, op, size, dst);
	case INSN_OP_AND:
	case INSN_OP_OR:
	case INSN_OP_XOR:
	case INSN_OP_TEST:
		return alu_logic(state, op, size, dst, src);
	case INSN_OP_NOT:
		dst.value = ~dst.value & dst.known;
		return dst;
	case INSN_OP_SHL:
	case INSN_OP_SHR:
	case INSN_OP_SAR:
	case INSN_OP_ROL:
	case INSN_OP_ROR:
		return alu_shift(state, op, size, dst, src);
	case INSN_OP_BT:
	case INSN_OP_BTS:
	case INSN_OP_BTR:
	case INSN_OP_BTC:
		return alu_bit(state, op, size, dst, src);
	case INSN_OP_BSF:
	case INSN_OP_BSR:
	case INSN_OP_TZCNT:
	case INSN_OP_LZCNT:
	case INSN_OP_POPCNT:
		return alu_count(state, op, size, src);
	case INSN_OP_IMUL:
		return alu_imul(state, size, dst, src);
	case INSN_OP_BSWAP:
		return alu_bswap(size, dst);
	default:
		block_flags_forget(state, BLOCK_ARITH);
		return block_unknown();
	}
}

static void set_pair(struct block_state *state, unsigned int size, unsigned __int128 low_high,
		     bool is_known)
{
	uint64_t mask = block_mask(size), keep = size >= 4 ? 0 : ~mask;
	uint64_t known = is_known ? mask : 0;
	uint64_t low = (uint64_t)low_high & known;
	uint64_t high = (uint64_t)(low_high >> (size == 8 ? 64 : 8 * size)) & known;
	uint64_t zero = size == 4 ? ~mask : 0;

	if (size == 1) { /* AX */
		mask = 0xffff;
		known = is_known ? mask : 0;
		state->gpr[0] = (state->gpr[0] & ~mask) | ((uint64_t)low_high & known);
		state->known[0] = (state->known[0] & ~mask) | known;
		return;
	}
	state->gpr[0] = (state->gpr[0] & keep) | low;
	state->known[0] = (state->known[0] & keep) | known | zero;
	state->gpr[2] = (state->gpr[2] & keep) | high;
	state->known[2] = (state->known[2] & keep) | known | zero;
}

/* The quotient and remainder as set_pair() takes them; false: it faults. */
static bool divide_unsigned(unsigned int size, unsigned __int128 dividend, uint64_t divisor,
			    unsigned __int128 *pair)
{
	if (!divisor || dividend / divisor > block_mask(size))
		return false;
	*pair = dividend / divisor | (dividend % divisor) << 8 * size;
	return true;
}

static bool divide_signed(unsigned int size, unsigned __int128 dividend, uint64_t divisor,
			  unsigned __int128 *pair)
{
	unsigned int shift = 128 - 16 * size;
	__int128 value = (__int128)(dividend << shift) >> shift;
	int64_t by = sign_extend(divisor, size);
	__int128 quotient;

	if (!by || (by == -1 && dividend == (unsigned __int128)1 << 127))
		return false;
	quotient = value / by;
	if (quotient != sign_extend((uint64_t)quotient, size))
		return false;
	*pair = ((unsigned __int128)quotient & block_mask(size)) |
		((unsigned __int128)(value % by) & block_mask(size)) << 8 * size;
	return true;
}

void block_alu_wide(struct block_state *state, uint8_t op, unsigned int size,
		    struct block_value src)
{
	struct block_value low = { state->gpr[0], state->known[0] };
	struct block_value high = { state->gpr[2], state->known[2] };
	uint64_t mask = block_mask(size), a = low.value & mask, b = src.value & mask;
	bool is_known = is_whole(src, size) && is_whole(low, size);
	unsigned __int128 pair = 0;

	block_flags_forget(state, BLOCK_ARITH);
	if (op == INSN_OP_MUL_WIDE || op == INSN_OP_IMUL_WIDE) {
		bool fits;

		pair = op == INSN_OP_MUL_WIDE ? (unsigned __int128)a * b :
						(unsigned __int128)((__int128)sign_extend(a, size) *
								    sign_extend(b, size));
		fits = op == INSN_OP_MUL_WIDE ? pair <= mask :
						(__int128)pair == sign_extend((uint64_t)pair, size);
		if (is_known)
			flags_set(state, BLOCK_CF | BLOCK_OF, fits ? 0 : BLOCK_CF | BLOCK_OF);
		set_pair(state, size, pair, is_known);
		return;
	}
	if (size == 1)
		is_known = is_known && (low.known & 0xffff) == 0xffff;
	else
		is_known = is_known && is_whole(high, size);
	if (is_known) {
		unsigned __int128 dividend = size == 1 ? low.value & 0xffff :
							 a | (unsigned __int128)(high.value & mask)
									 << 8 * size;

		is_known = op == INSN_OP_DIV ? divide_unsigned(size, dividend, b, &pair) :
					       divide_signed(size, dividend, b, &pair);
	}
	set_pair(state, size, pair, is_known);
}
