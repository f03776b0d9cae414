/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Block stepping: where to stop a thread next so that one stop covers as many control-flow
 * decisions as four debug registers can, and what the place of the stop then tells. Pure:
 * registers, code bytes and memory come through callbacks; the stepper sets the registers and
 * continues the thread.
 *
 * From the thread's present ip and registers a plan follows the code by computing what each
 * instruction does to registers, flags and memory, as far as that is certain. A conditional branch
 * whose outcome is not certain may be passed when a stop stands on the other side: the place of the
 * next stop tells. Nothing is guessed: a path that resolve() returns is the one that was executed.
 *
 * What is certain: registers always; memory that nothing can change while the thread runs to its
 * next stop, as block_cache_set_regions() and block_cache_set_exclusive() say. A return address on
 * the thread's own stack counts as certain while this thread does not write there.
 */
#ifndef PTBPF_RECORD_SOFT_BLOCK_H
#define PTBPF_RECORD_SOFT_BLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/user.h>

#define BLOCK_REGISTERS 4
#define BLOCK_MAX_EVENTS 16384 /* no path has more */

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

/* What a thread executed: valid until the plan is made or resolved again. */
struct block_path {
	const struct block_event *events;
	size_t n_events;
	uint64_t instructions;
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
/*
 * Code in [addr, addr + len) changed, or may have: forget it, and the volatile marks that lie
 * within. (0, UINT64_MAX) forgets all code but no mark.
 */
void block_cache_invalidate(struct block_cache *cache, uint64_t addr, uint64_t len);
/* Code here is writable as well: it is read anew for each plan and never looked ahead of. */
int block_cache_mark_volatile(struct block_cache *cache, uint64_t addr, uint64_t len);
/* Addresses that a plan must not run past: triggers' and uprobes' instructions. */
int block_cache_set_barriers(struct block_cache *cache, const uint64_t *addrs, size_t n);

enum block_region_kind {
	BLOCK_UNSTABLE, /* others write here at any time: shared mappings, vvar, the rseq area */
	BLOCK_CONSTANT, /* not writable by anyone: private read-only mappings of files */
	BLOCK_PRIVATE,  /* only threads of this process write here: private mappings, heap, stack */
};

struct block_region {
	uint64_t addr, len;
	uint8_t kind; /* enum block_region_kind */
};

/*
 * What memory can be relied on; the first region that holds an address counts, and what is in none
 * is unstable. Replaces the last set, so it is to be called again when mappings change. Without it
 * plans are right, only shorter.
 */
int block_cache_set_regions(struct block_cache *cache, const struct block_region *regions,
			    size_t n);
/* One more unstable range, for the plans to come: the planned thread's rseq area. Cheap. */
void block_cache_set_unstable(struct block_cache *cache, uint64_t addr, uint64_t len);
/*
 * True: while the planned thread runs, no other thread or async I/O (io_uring, aio) writes to the
 * BLOCK_PRIVATE regions; so for a process of one thread, or when all others are held. False at
 * first. Cheap, may change from plan to plan.
 */
void block_cache_set_exclusive(struct block_cache *cache, bool exclusive);

int block_plan_new(struct block_plan **out);
void block_plan_free(struct block_plan *plan);

/*
 * Makes a plan for a thread stopped at regs->rip. 0: set the plan's stops and continue; -EAGAIN:
 * single step this instruction instead (far transfer, volatile code, TF touched, no stop ahead). A
 * rep string is part of plans: it runs at full speed.
 */
int block_plan_make(struct block_plan *plan, struct block_cache *cache,
		    const struct user_regs_struct *regs, const struct block_reader *reader);

/* The addresses for DR0..DR3; 1 to 4. */
size_t block_plan_stops(const struct block_plan *plan, uint64_t stops[BLOCK_REGISTERS]);

/*
 * What the debug registers must hold, with as few changes as possible from @current (0: never set):
 * all four stay enabled, an old address that the thread cannot meet on this plan stays. To be
 * called right after block_plan_make().
 */
void block_plan_registers(const struct block_plan *plan, const struct block_cache *cache,
			  const uint64_t current[BLOCK_REGISTERS], uint64_t next[BLOCK_REGISTERS]);

/*
 * The thread now stands at @regs->rip (about to execute it), at a stop of the plan or anywhere
 * before one (a signal, a fault, an interrupt). Gives what it executed since the plan was made. 0;
 * -ENOENT: the thread is on no path of the plan: a bug, or code or memory that changed under it.
 */
int block_plan_resolve(struct block_plan *plan, struct block_cache *cache,
		       const struct user_regs_struct *regs, const struct block_reader *reader,
		       struct block_path *path);

/*
 * The outcome of the one instruction at regs->rip from registers, flags and memory, for `insn` mode
 * and `verify`. 0: *event filled when it is a decision or a call (*has_event), *next its successor;
 * -EAGAIN: only executing it can tell.
 */
int block_outcome(struct block_cache *cache, const struct user_regs_struct *regs,
		  const struct block_reader *reader, struct block_event *event, bool *has_event,
		  uint64_t *next);

#endif
