/* SPDX-License-Identifier: GPL-2.0-only */
/* A plan's insides, shared by making (block_plan.c) and resolving (block_resolve.c). */
#ifndef PTBPF_RECORD_SOFT_BLOCK_PLAN_H
#define PTBPF_RECORD_SOFT_BLOCK_PLAN_H

#include "base/vec.h"
#include "record/soft/block_cache.h"
#include "record/soft/block_exec.h"

/*
 * A stop and the path that ends there: a prefix of the main path, which is leaf 0's whole, then the
 * leaf's own steps and events. The first own event is the other outcome of the branch before.
 */
struct block_leaf {
	uint64_t addr;
	uint32_t prefix_steps, prefix_events;
	uint32_t first_step, n_steps; /* in plan->steps */
	uint32_t first_event, n_events;
};

/* Where the main path passed a branch of unknown outcome. */
struct block_split {
	struct block_state state; /* after the branch */
	uint64_t other;           /* where the main path did not go */
	size_t mark;              /* of memory */
	uint32_t node;
	bool main_taken;
};

struct block_plan {
	VEC(uint32_t) steps; /* the node of each instruction passed: main path, then the others' */
	VEC(struct block_event) events;
	VEC(uint32_t) event_steps; /* the step of each event, counted from its path's begin */
	VEC(struct block_event) path;
	size_t n_leaves;
	struct block_leaf leaves[BLOCK_REGISTERS];
	struct block_split splits[BLOCK_REGISTERS - 1];
	struct user_regs_struct root;
	struct block_state state;
	uint32_t serial;
	unsigned int small_plans; /* in a row, while the arrays are large */
	bool exclusive;
	bool passes_root; /* the path comes by its first address again */
};

#endif
