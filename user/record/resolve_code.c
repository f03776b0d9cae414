// SPDX-License-Identifier: GPL-2.0-only
#include "record/resolve_code.h"

#include <elf.h>
#include <string.h>

#include "image/insn.h"

#define MODE_BITS 64
#define MAX_WALK (1u << 20) /* bytes of one function that are looked at */
#define MAX_INSN 15

/* A walk over the instructions of one function, in order of address. */
struct walk {
	const struct object *object;
	uint64_t ip, end;
	uint8_t bytes[MAX_INSN]; /* of the present instruction */
	size_t n;
	struct insn insn;
};

static size_t read_code(const struct object *object, uint64_t vaddr, void *buf, size_t size)
{
	uint64_t offset;

	return object_vaddr_to_offset(object, vaddr, &offset) ?
		       0 :
		       object_read(object, offset, buf, size);
}

static struct walk walk_start(const struct object *object, const struct symbol *symbol)
{
	const uint64_t size = symbol->size < MAX_WALK ? symbol->size : MAX_WALK;

	return (struct walk){ .object = object, .ip = symbol->start, .end = symbol->start + size };
}

/* Decodes the instruction at walk->ip; the caller moves on by its length. */
static bool walk_decode(struct walk *walk)
{
	if (walk->ip >= walk->end)
		return false;
	walk->n = read_code(walk->object, walk->ip, walk->bytes, sizeof(walk->bytes));
	return !insn_decode(walk->bytes, walk->n, walk->ip, MODE_BITS, &walk->insn) &&
	       walk->insn.length && walk->insn.class != INSN_INVALID;
}

bool code_is_executable(const struct object *object, uint64_t vaddr)
{
	const struct object_segment *segments;
	const size_t n = object_segments(object, &segments);

	for (size_t i = 0; i < n; i++) {
		if (segments[i].flags & PF_X && vaddr >= segments[i].vaddr &&
		    vaddr - segments[i].vaddr < segments[i].file_size)
			return true;
	}
	return false;
}

bool code_is_boundary(const struct object *object, const struct symbol *symbol, uint64_t vaddr,
		      uint64_t *before, uint64_t *after)
{
	struct walk walk = walk_start(object, symbol);

	while (walk.ip < vaddr) {
		if (!walk_decode(&walk))
			return true;
		if (walk.ip + walk.insn.length > vaddr) {
			*before = walk.ip;
			*after = walk.ip + walk.insn.length;
			return false;
		}
		walk.ip += walk.insn.length;
	}
	return true;
}

/* PUSH of a register in the two forms that the kernel's uprobes emulate. */
static bool is_emulated_push(const uint8_t *bytes, size_t n)
{
	if (n >= 1 && (bytes[0] & 0xf8) == 0x50)
		return true;
	return n >= 2 && bytes[0] == 0x41 && (bytes[1] & 0xf8) == 0x50;
}

static bool jumps_to(const struct object *object, const struct symbol *symbol, uint64_t vaddr)
{
	struct walk walk = walk_start(object, symbol);

	for (; walk_decode(&walk); walk.ip += walk.insn.length) {
		const bool direct = walk.insn.class == INSN_JCC || walk.insn.class == INSN_JMP ||
				    walk.insn.class == INSN_CALL || walk.insn.class == INSN_XBEGIN;

		if (direct && walk.insn.target == vaddr)
			return true;
	}
	return false;
}

uint64_t code_probe_address(const struct object *object, const struct symbol *symbol)
{
	static const uint8_t endbr64[] = { 0xf3, 0x0f, 0x1e, 0xfa };
	const uint64_t behind = symbol->start + sizeof(endbr64);
	uint8_t bytes[sizeof(endbr64) + 2];
	const size_t n = read_code(object, symbol->start, bytes, sizeof(bytes));

	if (n <= sizeof(endbr64) || memcmp(bytes, endbr64, sizeof(endbr64)) ||
	    symbol->size <= sizeof(endbr64) ||
	    !is_emulated_push(bytes + sizeof(endbr64), n - sizeof(endbr64)))
		return symbol->start;
	return jumps_to(object, symbol, behind) ? symbol->start : behind;
}

static int32_t read_s32(const uint8_t *bytes)
{
	int32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* The address that LEA REG,[rip+X] or, in programs at fixed addresses, MOV REG,X loads; 0: none. */
static uint64_t loaded_address(const struct walk *walk)
{
	const uint8_t *const b = walk->bytes;
	const uint64_t next = walk->ip + walk->insn.length;

	if (walk->insn.length == 7 && (b[0] & 0xfb) == 0x48 && b[1] == 0x8d &&
	    (b[2] & 0xc7) == 0x05)
		return next + (uint64_t)(int64_t)read_s32(b + 3);
	if (walk->insn.length == 7 && (b[0] & 0xfe) == 0x48 && b[1] == 0xc7 &&
	    (b[2] & 0xf8) == 0xc0)
		return (uint64_t)(int64_t)read_s32(b + 3);
	if (walk->insn.length == 5 && (b[0] & 0xf8) == 0xb8)
		return (uint32_t)read_s32(b + 1);
	if (walk->insn.length == 6 && b[0] == 0x41 && (b[1] & 0xf8) == 0xb8)
		return (uint32_t)read_s32(b + 2);
	return 0;
}

/* Does a function begin there? Without a symbol, compilers' alignment must do as evidence. */
static bool is_function(const struct object *object, uint64_t vaddr)
{
	const struct symbol *const symbol = object_symbol_at(object, vaddr);

	if (!code_is_executable(object, vaddr))
		return false;
	return symbol ? symbol->start == vaddr : vaddr % 16 == 0;
}

size_t code_ifunc_targets(const struct object *object, const struct symbol *symbol,
			  uint64_t targets[CODE_MAX_TARGETS])
{
	struct walk walk = walk_start(object, symbol);
	size_t n = 0;

	for (; walk_decode(&walk) && n < CODE_MAX_TARGETS; walk.ip += walk.insn.length) {
		const uint64_t target = loaded_address(&walk);
		bool known = target == symbol->start;

		for (size_t i = 0; i < n; i++)
			known |= targets[i] == target;
		if (target && !known && is_function(object, target))
			targets[n++] = target;
	}
	return n;
}
