/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Ground truth without a processor: a random program, a random walk through it, the PT packets that
 * the walk makes and the branch events that a decoder must find in them.
 */
#ifndef PTBPF_TESTS_WALKER_H
#define PTBPF_TESTS_WALKER_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <intel-pt.h>

#include "base/vec.h"
#include "decode/branch.h"

enum walker_op { W_NOP, W_JCC, W_JMP, W_CALL, W_JMP_IND, W_CALL_IND, W_RET, W_SYSCALL };

struct walker_insn {
	uint32_t offset, target; /* in the code; target: index of an instruction */
	uint8_t op, size;
};

struct walker {
	unsigned int seed;
	uint64_t base; /* address of the code */
	uint8_t *code;
	size_t code_size, n_insns;
	struct walker_insn *insns;

	uint8_t *trace;
	size_t trace_cap, trace_size, psb_at, psb_period;
	struct pt_encoder *encoder;
	uint64_t last_ip, tsc;
	uint64_t bits;
	unsigned int n_bits, max_bits;
	uint64_t compressed[64]; /* return addresses that RET compression knows */
	unsigned int n_compressed;
	uint32_t stack[256]; /* the program's: indices of instructions */
	unsigned int depth;

	VEC(struct branch) events;
	uint64_t insns_since;
	uint64_t executed;
	size_t at;      /* the next instruction */
	bool no_events; /* only the trace is wanted */
};

static inline uint32_t walker_random(struct walker *w, uint32_t n)
{
	return (uint32_t)(((uint64_t)rand_r(&w->seed) << 12 ^ (uint64_t)rand_r(&w->seed)) % n);
}

static inline uint64_t walker_ip(const struct walker *w, size_t index)
{
	return w->base + w->insns[index].offset;
}

/* --- the program --- */

static inline void walker_put(struct walker *w, struct walker_insn *insn)
{
	static const uint8_t bytes[][6] = {
		[W_NOP] = { 0x90 },  [W_JCC] = { 0x0f, 0x85 },     [W_JMP] = { 0xe9 },
		[W_CALL] = { 0xe8 }, [W_JMP_IND] = { 0xff, 0xe0 }, [W_CALL_IND] = { 0xff, 0xd0 },
		[W_RET] = { 0xc3 },  [W_SYSCALL] = { 0x0f, 0x05 },
	};
	static const uint8_t sizes[] = { 1, 6, 5, 5, 2, 2, 1, 2 };

	insn->size = sizes[insn->op];
	insn->offset = (uint32_t)w->code_size;
	memcpy(w->code + w->code_size, bytes[insn->op], insn->size);
	w->code_size += insn->size;
}

/* Branches go anywhere, except that a cycle always holds a conditional branch. */
static inline void walker_link(struct walker *w)
{
	for (size_t i = 0; i < w->n_insns; i++) {
		struct walker_insn *insn = &w->insns[i];
		int32_t displacement;

		if (insn->op != W_JCC && insn->op != W_JMP && insn->op != W_CALL)
			continue;
		insn->target = walker_random(w, (uint32_t)w->n_insns);
		if (insn->op == W_JMP && insn->target <= i)
			insn->target =
				(uint32_t)i + 1 + walker_random(w, (uint32_t)(w->n_insns - i - 1));
		while (insn->op == W_CALL && w->insns[insn->target].op != W_JCC)
			insn->target = (insn->target + 1) % (uint32_t)w->n_insns;
		displacement = (int32_t)w->insns[insn->target].offset -
			       (int32_t)(insn->offset + insn->size);
		memcpy(w->code + insn->offset + insn->size - 4, &displacement, 4);
	}
}

static inline bool walker_make_program(struct walker *w, size_t n_insns)
{
	static const uint8_t mix[] = { W_NOP,      W_NOP,     W_NOP, W_NOP, W_NOP, W_NOP,
				       W_NOP,      W_JCC,     W_JCC, W_JCC, W_JMP, W_CALL,
				       W_CALL_IND, W_JMP_IND, W_RET, W_RET };

	w->n_insns = n_insns;
	w->insns = calloc(n_insns, sizeof(*w->insns));
	w->code = calloc(n_insns, 6);
	if (!w->insns || !w->code)
		return false;
	for (size_t i = 0; i < n_insns; i++) {
		w->insns[i].op = mix[walker_random(w, sizeof(mix))];
		if (!walker_random(w, 64))
			w->insns[i].op = W_SYSCALL;
		if (i + 1 == n_insns)
			w->insns[i].op = W_RET;
		if (!i)
			w->insns[i].op = W_JCC;
		walker_put(w, &w->insns[i]);
	}
	walker_link(w);
	return true;
}

/* --- packets --- */

static inline void walker_packet(struct walker *w, struct pt_packet *packet)
{
	int size = pt_enc_next(w->encoder, packet);

	if (size < 0)
		abort();
	w->trace_size += (size_t)size;
}

static inline void walker_plain(struct walker *w, enum pt_packet_type type)
{
	struct pt_packet packet = { .type = type };

	walker_packet(w, &packet);
}

static inline void walker_flush(struct walker *w)
{
	struct pt_packet packet = { .type = w->n_bits > 6 ? ppt_tnt_64 : ppt_tnt_8 };

	if (!w->n_bits)
		return;
	packet.payload.tnt.bit_size = (uint8_t)w->n_bits;
	packet.payload.tnt.payload = w->bits;
	w->bits = w->n_bits = 0;
	walker_packet(w, &packet);
}

static inline void walker_bit(struct walker *w, bool bit)
{
	w->bits = w->bits << 1 | bit;
	if (++w->n_bits == w->max_bits)
		walker_flush(w);
}

/* @ip 0: suppressed. Compressed as the hardware may, against the last one sent. */
static inline void walker_address(struct walker *w, enum pt_packet_type type, uint64_t ip)
{
	struct pt_packet packet = { .type = type, .payload.ip.ip = ip };

	walker_flush(w);
	if (!ip)
		packet.payload.ip.ipc = pt_ipc_suppressed;
	else if (ip >> 16 == w->last_ip >> 16)
		packet.payload.ip.ipc = pt_ipc_update_16;
	else if (ip >> 32 == w->last_ip >> 32)
		packet.payload.ip.ipc = pt_ipc_update_32;
	else
		packet.payload.ip.ipc = pt_ipc_full;
	if (packet.payload.ip.ipc == pt_ipc_update_16)
		packet.payload.ip.ip &= 0xffff;
	else if (packet.payload.ip.ipc == pt_ipc_update_32)
		packet.payload.ip.ip &= 0xffffffff;
	if (ip)
		w->last_ip = ip;
	walker_packet(w, &packet);
}

static inline void walker_time(struct walker *w)
{
	struct pt_packet packet = { .type = ppt_tsc };

	walker_flush(w);
	w->tsc += 1 + walker_random(w, 1000);
	packet.payload.tsc.tsc = w->tsc;
	walker_packet(w, &packet);
}

/* PSB+; @ip 0: tracing is off. */
static inline void walker_psb(struct walker *w, uint64_t ip)
{
	struct pt_packet mode = { .type = ppt_mode };

	walker_flush(w);
	walker_plain(w, ppt_psb);
	walker_time(w);
	mode.payload.mode.leaf = pt_mol_exec;
	mode.payload.mode.bits.exec.csl = 1;
	walker_packet(w, &mode);
	w->last_ip = 0;
	if (ip)
		walker_address(w, ppt_fup, ip);
	walker_plain(w, ppt_psbend);
	w->psb_at = w->trace_size;
	w->n_compressed = 0;
}

/* --- the walk --- */

static inline void walker_event(struct walker *w, enum branch_kind kind, uint64_t from, uint64_t to,
				uint8_t size)
{
	struct branch branch = { .from = from,
				 .to = to,
				 .insns = (uint32_t)w->insns_since,
				 .kind = (uint8_t)kind,
				 .from_size = size };

	w->insns_since = 0;
	if (!w->no_events && vec_push(&w->events, branch))
		abort();
}

static inline void walker_enter(struct walker *w, size_t index)
{
	w->at = index;
	walker_address(w, ppt_tip_pge, walker_ip(w, index));
	walker_event(w, BRANCH_BEGIN, 0, walker_ip(w, index), 0);
}

/* A direct call to the next instruction is no call to RET compression. */
static inline void walker_push(struct walker *w, size_t back, bool compressible)
{
	if (w->depth == 256) {
		memmove(w->stack, w->stack + 1, 255 * sizeof(*w->stack));
		w->depth--;
	}
	w->stack[w->depth++] = (uint32_t)back;
	if (!compressible)
		return;
	if (w->n_compressed == 64) {
		memmove(w->compressed, w->compressed + 1, 63 * sizeof(*w->compressed));
		w->n_compressed--;
	}
	w->compressed[w->n_compressed++] = walker_ip(w, back);
}

static inline size_t walker_return(struct walker *w)
{
	size_t to = w->depth ? w->stack[--w->depth] : walker_random(w, (uint32_t)w->n_insns);

	/* Now and then to somewhere else, as longjmp and switches of stacks do. */
	if (!walker_random(w, 50))
		to = walker_random(w, (uint32_t)w->n_insns);
	if (w->n_compressed && w->compressed[w->n_compressed - 1] == walker_ip(w, to)) {
		w->n_compressed--;
		walker_bit(w, true);
		return to;
	}
	w->n_compressed = 0;
	walker_address(w, ppt_tip, walker_ip(w, to));
	return to;
}

/* Lost packets, right after the instruction that made the last one. */
static inline void walker_overflow(struct walker *w, size_t to)
{
	uint64_t from = w->events.data[w->events.len - 1].from;

	walker_flush(w);
	walker_plain(w, ppt_ovf);
	w->last_ip = 0;
	walker_address(w, ppt_fup, walker_ip(w, to));
	w->n_compressed = 0;
	if (w->insns_since)
		return;
	/* The branch is in the trace, but where it led is not told by libipt: part of the gap. */
	w->insns_since = w->events.data[--w->events.len].insns;
	walker_event(w, BRANCH_GAP, from, walker_ip(w, to), 0);
	w->events.data[w->events.len - 1].gap = GAP_OVERFLOW;
	walker_event(w, BRANCH_BEGIN, 0, walker_ip(w, to), 0);
	w->at = to;
}

static inline void walker_syscall(struct walker *w, uint64_t ip, uint8_t size)
{
	walker_address(w, ppt_tip_pgd, 0);
	walker_event(w, BRANCH_SYSCALL, ip, 0, size);
	if (!walker_random(w, 8)) {
		walker_flush(w);
		walker_psb(w, 0);
	}
	walker_time(w);
	walker_enter(w, w->at + 1);
}

static inline void walker_signal(struct walker *w)
{
	uint64_t ip = walker_ip(w, w->at);

	walker_address(w, ppt_fup, ip);
	walker_address(w, ppt_tip_pgd, 0);
	walker_event(w, BRANCH_ASYNC, ip, 0, 0);
	walker_time(w);
	walker_enter(w, walker_random(w, (uint32_t)w->n_insns));
}

static inline void walker_step(struct walker *w)
{
	const struct walker_insn *insn = &w->insns[w->at];
	uint64_t ip = walker_ip(w, w->at);
	size_t next = w->at + 1, target = insn->target;

	w->insns_since++;
	w->executed++;
	switch ((enum walker_op)insn->op) {
	case W_NOP:
		break;
	case W_JCC:
		if (walker_random(w, 2)) {
			walker_bit(w, true);
			/* One that leads to where not taking it leads is not told apart. */
			if (target != next)
				walker_event(w, BRANCH_COND, ip, walker_ip(w, target), insn->size);
			next = target;
			break;
		}
		walker_bit(w, false);
		break;
	case W_JMP:
		next = target;
		walker_event(w, BRANCH_JUMP, ip, walker_ip(w, next), insn->size);
		break;
	case W_CALL:
		walker_push(w, next, target != next);
		next = target;
		walker_event(w, BRANCH_CALL, ip, walker_ip(w, next), insn->size);
		break;
	case W_JMP_IND:
	case W_CALL_IND:
		if (insn->op == W_CALL_IND)
			walker_push(w, next, true);
		next = walker_random(w, (uint32_t)w->n_insns);
		walker_address(w, ppt_tip, walker_ip(w, next));
		walker_event(w, insn->op == W_CALL_IND ? BRANCH_CALL : BRANCH_JUMP, ip,
			     walker_ip(w, next), insn->size);
		break;
	case W_RET:
		next = walker_return(w);
		walker_event(w, BRANCH_RETURN, ip, walker_ip(w, next), insn->size);
		break;
	case W_SYSCALL:
		walker_syscall(w, ip, insn->size);
		return;
	}
	w->at = next;
}

/*
 * Walks until @bytes of trace are there. @rare: out of this many steps one is interrupted, and of
 * four times as many one is lost; 0: never.
 */
static inline bool walker_walk(struct walker *w, size_t bytes, uint32_t rare)
{
	struct pt_config config;

	w->trace_cap = bytes + 4096;
	w->trace = malloc(w->trace_cap);
	pt_config_init(&config);
	config.begin = w->trace;
	config.end = w->trace + w->trace_cap;
	w->encoder = w->trace ? pt_alloc_encoder(&config) : NULL;
	if (!w->encoder)
		return false;
	walker_psb(w, 0);
	walker_enter(w, 0);
	while (w->trace_size < bytes) {
		bool used_trace;

		if (w->trace_size - w->psb_at > w->psb_period)
			walker_psb(w, walker_ip(w, w->at));
		if (!walker_random(w, 200))
			walker_time(w);
		if (rare && !walker_random(w, rare))
			walker_signal(w);
		used_trace = w->insns[w->at].op == W_JMP_IND || w->insns[w->at].op == W_RET;
		walker_step(w);
		if (rare && used_trace && !walker_random(w, rare))
			walker_overflow(w, walker_random(w, (uint32_t)w->n_insns));
	}
	walker_address(w, ppt_fup, walker_ip(w, w->at));
	walker_address(w, ppt_tip_pgd, 0);
	walker_event(w, BRANCH_END, walker_ip(w, w->at), 0, 0);
	pt_free_encoder(w->encoder);
	w->encoder = NULL;
	return true;
}

static inline void walker_fini(struct walker *w)
{
	free(w->code);
	free(w->insns);
	free(w->trace);
	vec_free(&w->events);
}

#endif
