/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Block stepping: where to stop a thread next so that one stop covers as many control-flow
 * decisions as four debug registers can, and what the place of the stop then tells. Pure:
 * registers, code bytes and memory come through callbacks; the stepper sets the registers and
 * continues the thread.
 *
 * A plan is a tree. Its root is the thread's present ip; what is known there (a decision at ip
 * itself is computed from registers, flags and memory) is walked through; an unknown conditional
 * branch may be passed when the next stops of both its sides have distinct places. Every
 * instruction address lies in at most one segment of a plan, so that any stop, a signal's too,
 * tells the path that led to it.
 */
#ifndef PTBPF_RECORD_SOFT_BLOCK_H
#define PTBPF_RECORD_SOFT_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#define BLOCK_REGISTERS 4
#define BLOCK_MAX_EVENTS 64

/* One control transfer or conditional decision that was passed, in order; what the encoder needs.
 */
enum block_event_kind {
	BLOCK_TAKEN, /* conditional: a TNT bit */
	BLOCK_NOT_TAKEN,
	BLOCK_INDIRECT, /* jump or call through register or memory: TIP(to) */
	BLOCK_RETURN,   /* near return: TIP(to), or a TNT bit when compressed */
	BLOCK_CALL,     /* direct call: no packet, but the encoder's return stack grows */
};

struct block_event {
	uint64_t from, to;
	uint64_t return_address; /* of CALL and an INDIRECT that calls; 0: not a call */
	uint8_t kind;            /* enum block_event_kind */
};

/* Bytes as the thread would execute them (without our or uprobes' int3); the count read. */
typedef size_t (*block_read_fn)(void *ctx, uint64_t addr, void *buf, size_t size);

struct block_reader {
	block_read_fn code;
	block_read_fn memory;
	void *ctx;
};

struct block_cache; /* decoded instructions of one address space */
struct block_plan;

int block_cache_new(struct block_cache **out);
void block_cache_free(struct block_cache *cache);
/* Code in [addr, addr + len) changed, or may have: forget it. */
void block_cache_invalidate(struct block_cache *cache, uint64_t addr, uint64_t len);
/* Code here is writable as well: it is read anew for each plan and never looked ahead of. */
int block_cache_mark_volatile(struct block_cache *cache, uint64_t addr, uint64_t len);
/* Addresses that a plan must not run past: triggers' and uprobes' instructions. */
int block_cache_set_barriers(struct block_cache *cache, const uint64_t *addrs, size_t n);

int block_plan_new(struct block_plan **out);
void block_plan_free(struct block_plan *plan);

/*
 * Makes a plan for a thread stopped at regs->rip. 0: set the plan's stops and continue; -EAGAIN:
 * single step this instruction instead (far transfer, rep string, volatile code, TF touched, no
 * stop ahead).
 */
int block_plan_make(struct block_plan *plan, struct block_cache *cache,
		    const struct user_regs_struct *regs, const struct block_reader *reader);

/* The addresses for DR0..DR3; 1 to 4. */
size_t block_plan_stops(const struct block_plan *plan, uint64_t stops[BLOCK_REGISTERS]);

/*
 * The thread now stands at @ip (about to execute it). Fills the events of the path from the plan's
 * root to there and the number of instructions executed. 0; -ENOENT: @ip is on no path of the plan,
 * the prediction was wrong: a bug, or code or memory that changed under it.
 */
int block_plan_resolve(const struct block_plan *plan, uint64_t ip, struct block_event *events,
		       size_t *n_events, uint64_t *instructions);

/*
 * The outcome of the one instruction at regs->rip from registers, flags and memory, for `insn` mode
 * and `verify`. 0: *event filled when it is a decision or a call (*has_event), *next its successor;
 * -EAGAIN: only executing it can tell.
 */
int block_outcome(struct block_cache *cache, const struct user_regs_struct *regs,
		  const struct block_reader *reader, struct block_event *event, bool *has_event,
		  uint64_t *next);

#endif
