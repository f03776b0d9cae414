/* SPDX-License-Identifier: GPL-2.0-only */
/* Decoded instructions of one address space, found by address; internal to the block planner. */
#ifndef PTBPF_RECORD_SOFT_BLOCK_CACHE_H
#define PTBPF_RECORD_SOFT_BLOCK_CACHE_H

#include "image/insn_ops.h"
#include "record/soft/block_mem.h"

#define BLOCK_NO_NODE UINT32_MAX

struct block_node {
	uint64_t addr;
	struct insn_ops ops;
	uint8_t length;
	bool is_valid;    /* decoded and cached; false: decoded anew at each look */
	bool is_end;      /* a plan may stop here, never pass */
	bool is_volatile; /* likewise, because the code may change */
	bool is_barrier;
	uint8_t in_vain;       /* how often computing a loop from here led to no end */
	uint16_t skip;         /* plans that will not try */
	int8_t bias;           /* of a conditional branch: above 0 it is mostly taken */
	uint8_t segment;       /* of the plan @serial */
	uint32_t serial;       /* of the last plan that met the node */
	uint32_t next, target; /* nodes of the two successors; 0: not looked up */
};

struct block_cache {
	struct block_mem *mem;
	struct block_node *nodes; /* [0] is not used */
	size_t n_nodes, cap_nodes;
	uint32_t *slots; /* node indices, open addressing; 0: free */
	size_t n_slots;
	uint64_t low, high; /* all nodes lie in [low, high) */
	struct block_region *volatiles;
	size_t n_volatiles, cap_volatiles;
	uint64_t *barriers; /* sorted */
	size_t n_barriers;
	uint32_t serial;    /* of the last plan */
	uint32_t run_limit; /* see block_plan.c */
	bool exclusive;
};

/* The node at @addr, decoded; BLOCK_NO_NODE without memory. May move all nodes. */
uint32_t block_cache_node(struct block_cache *cache, const struct block_reader *reader,
			  uint64_t addr);

#endif
