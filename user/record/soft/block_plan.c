// SPDX-License-Identifier: GPL-2.0-only
/*
 * Making a plan. The main path is computed from the root on; at a branch of unknown outcome it
 * takes the side that was taken more often before and a stop is put on the other. A stop can only
 * stand where the path comes by for the first time, and no address belongs to two segments (what
 * lies between two unknown branches), so a stop tells the path. Within a segment a loop may turn
 * many times: all its branches are known.
 */
#include "record/soft/block_plan.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

/* Instructions of one plan; a limit only for the time that making it takes. */
#define MAX_STEPS 100000
/* Of the main path; the others add at most one for each of theirs. */
#define MAX_EVENTS (BLOCK_MAX_EVENTS - MAX_SIDE_STEPS - 1)
/* Where no debug register can stand: the vsyscall page, wild jumps. */
#define USER_END (1ull << 47)
/* Those beside the main path: short, because they are seldom taken. */
#define MAX_SIDE_STEPS 64
/*
 * A loop may turn without passing a new address; when it has not ended after run_limit
 * instructions, the time was wasted, so the limit adapts, and now and then more is tried. A tight
 * loop gets more time, but after it was in vain, the less often the more often it was.
 */
#define MIN_RUN_LIMIT 128
#define MAX_RUN_LIMIT 16384
#define TRY_RUN_LIMIT 2048
#define TRY_EVERY 256
#define TIGHT_BYTES 512
#define TIGHT_LIMIT 20000
#define TIGHT_MAX_LEVEL 10

/* Arrays that a long loop needed are given back when so many plans in a row did not. */
#define LARGE_STEPS 32768
#define LARGE_PLANS 256

#define RESUME_FLAG (1u << 16)
#define USER_CS_64 0x33

/* One path being followed. */
struct walk {
	struct block_plan *plan;
	struct block_cache *cache;
	const struct block_reader *reader;
	struct block_state *state;
	uint64_t ip;
	uint32_t node;
	uint32_t first_step, first_event; /* of this path in the plan's arrays */
	uint32_t base;                    /* steps of the main path before it */
	uint32_t max_steps, run_limit;
	bool is_main;
	uint8_t segment;
	uint32_t longest, wasted; /* instructions between new addresses; after the last one */
	uint64_t low, high;       /* of the addresses met since the last new one */
	uint32_t low_node;
	uint32_t tight; /* the loop's lowest node, once run_limit is passed; 0 */
	/* there, the last time */
	uint64_t gpr[16], known[16];
	uint32_t flags;
	size_t mark;
	/* the last place where a stop can stand */
	struct {
		uint64_t ip;
		uint32_t n_steps, n_events; /* ends in the plan's arrays */
		size_t mark;
	} fresh;
};

int block_plan_new(struct block_plan **out)
{
	*out = calloc(1, sizeof(**out));
	return *out ? 0 : -ENOMEM;
}

void block_plan_free(struct block_plan *plan)
{
	if (!plan)
		return;
	vec_free(&plan->steps);
	vec_free(&plan->events);
	vec_free(&plan->event_steps);
	vec_free(&plan->path);
	free(plan);
}

static void note_fresh(struct walk *walk)
{
	uint32_t stretch = (uint32_t)walk->plan->steps.len - walk->fresh.n_steps;

	if (walk->tight)
		walk->cache->nodes[walk->tight].in_vain = 0;
	else if (stretch > walk->longest)
		walk->longest = stretch;
	walk->tight = 0;
	walk->low = UINT64_MAX;
	walk->high = 0;
	walk->fresh.ip = walk->ip;
	walk->fresh.n_steps = (uint32_t)walk->plan->steps.len;
	walk->fresh.n_events = (uint32_t)walk->plan->events.len;
	walk->fresh.mark = block_mem_mark(walk->cache->mem);
}

/* Takes the path back to the last place where a stop can stand. */
static void cut(struct walk *walk)
{
	if (walk->tight) {
		struct block_node *loop = &walk->cache->nodes[walk->tight];

		loop->in_vain += loop->in_vain < TIGHT_MAX_LEVEL;
		loop->skip = (uint16_t)(1u << loop->in_vain);
	}
	walk->wasted = (uint32_t)walk->plan->steps.len - walk->fresh.n_steps;
	walk->plan->steps.len = walk->fresh.n_steps;
	walk->plan->events.len = walk->fresh.n_events;
	walk->plan->event_steps.len = walk->fresh.n_events;
	block_mem_undo(walk->cache->mem, walk->fresh.mark);
}

static bool add_event(struct walk *walk, const struct block_event *event)
{
	struct block_plan *plan = walk->plan;
	uint32_t step = (uint32_t)plan->steps.len - 1 - walk->first_step + walk->base;

	if (vec_reserve(&plan->events, 1) || vec_reserve(&plan->event_steps, 1))
		return false;
	plan->events.data[plan->events.len++] = *event;
	plan->event_steps.data[plan->event_steps.len++] = step;
	return true;
}

static bool is_met(const struct walk *walk, uint64_t addr)
{
	uint32_t node = block_cache_node(walk->cache, walk->reader, addr);

	return node == BLOCK_NO_NODE || walk->cache->nodes[node].serial == walk->plan->serial;
}

static void claim(const struct walk *walk, uint32_t node, uint8_t segment)
{
	walk->cache->nodes[node].serial = walk->plan->serial;
	walk->cache->nodes[node].segment = segment;
}

/*
 * Passes a branch whose outcome is unknown: the path goes on where it mostly went, and the other
 * side's first instruction is kept for a stop. False: it cannot be passed.
 */
static bool split(struct walk *walk, struct block_event *event)
{
	struct block_plan *plan = walk->plan;
	struct block_node *node = &walk->cache->nodes[walk->node];
	uint64_t target = node->ops.target, after = node->addr + node->length;
	struct block_split *made = &plan->splits[plan->n_leaves - 1];
	bool taken = node->bias > 0;
	uint64_t to = taken ? target : after;
	uint32_t other;

	if (!walk->is_main || plan->n_leaves == BLOCK_REGISTERS || target == after ||
	    target >= USER_END || after >= USER_END || is_met(walk, target) || is_met(walk, after))
		return false;
	other = block_cache_node(walk->cache, walk->reader, taken ? after : target);
	if (other == BLOCK_NO_NODE)
		return false;
	plan->leaves[plan->n_leaves] = (struct block_leaf){
		.prefix_steps = (uint32_t)plan->steps.len,
		.prefix_events = (uint32_t)plan->events.len,
	};
	made->other = taken ? after : target;
	made->node = walk->node;
	made->main_taken = taken;
	made->mark = block_mem_mark(walk->cache->mem);
	made->state = *walk->state;
	claim(walk, other, (uint8_t)plan->n_leaves);
	plan->n_leaves++;
	walk->segment = (uint8_t)(BLOCK_REGISTERS + plan->n_leaves);
	event->kind = taken ? BLOCK_TAKEN : BLOCK_NOT_TAKEN;
	event->to = to;
	if (add_event(walk, event))
		return true;
	plan->n_leaves--;
	return false;
}

/* The node at the new ip, by the link of the node before where there is one. */
static uint32_t follow(struct walk *walk, uint32_t from)
{
	struct block_node *node = &walk->cache->nodes[from];
	uint64_t after = node->addr + node->length;
	uint32_t index = walk->ip == after            ? node->next :
			 walk->ip == node->ops.target ? node->target :
							0;

	if (index && walk->cache->nodes[index].addr == walk->ip &&
	    walk->cache->nodes[index].is_valid)
		return index;
	index = block_cache_node(walk->cache, walk->reader, walk->ip);
	if (index == BLOCK_NO_NODE)
		return index;
	node = &walk->cache->nodes[from]; /* it may have moved */
	if (walk->ip == after)
		node->next = index;
	else if (walk->ip == node->ops.target)
		node->target = index;
	return index;
}

/* A turn of a tight loop that changed nothing: it waits for others. */
static bool changed_nothing(struct walk *walk)
{
	const struct block_state *state = walk->state;
	size_t mark = block_mem_mark(walk->cache->mem);
	bool same = mark == walk->mark && state->flags == walk->flags &&
		    memcmp(walk->gpr, state->gpr, sizeof(walk->gpr)) == 0 &&
		    memcmp(walk->known, state->known, sizeof(walk->known)) == 0;

	memcpy(walk->gpr, state->gpr, sizeof(walk->gpr));
	memcpy(walk->known, state->known, sizeof(walk->known));
	walk->flags = state->flags;
	walk->mark = mark;
	return same;
}

/* Whether the path may go on by addresses that it has met before. */
static bool may_repeat(struct walk *walk)
{
	uint32_t stretch = (uint32_t)walk->plan->steps.len - walk->fresh.n_steps;
	struct block_node *loop;

	if (walk->plan->events.len >= MAX_EVENTS)
		return false;
	if (stretch < walk->run_limit) {
		if (walk->ip < walk->low) {
			walk->low = walk->ip;
			walk->low_node = walk->node;
		}
		if (walk->ip > walk->high)
			walk->high = walk->ip;
		return true;
	}
	if (walk->tight)
		return stretch < TIGHT_LIMIT &&
		       (walk->node != walk->tight || !changed_nothing(walk));
	if (!walk->is_main || walk->high - walk->low >= TIGHT_BYTES)
		return false;
	loop = &walk->cache->nodes[walk->low_node];
	if (loop->skip) {
		loop->skip--;
		return false;
	}
	walk->tight = walk->low_node;
	return true;
}

/* Whether the path may pass the instruction at walk->ip, at @position of its own steps. */
static bool may_pass(struct walk *walk, uint32_t position)
{
	struct block_node *node = &walk->cache->nodes[walk->node];
	bool is_first = walk->is_main && position == 0;

	if (node->serial == walk->plan->serial && (position || walk->is_main)) {
		if (node->segment != walk->segment || node->ops.op == INSN_OP_REP ||
		    node->is_barrier)
			return false;
		if (walk->ip == walk->plan->root.rip)
			walk->plan->passes_root = true;
		return may_repeat(walk);
	}
	if (walk->ip >= USER_END)
		return false;
	claim(walk, walk->node, walk->segment);
	note_fresh(walk);
	if (node->is_end || (node->is_barrier && !is_first))
		return false;
	return position < walk->max_steps && walk->plan->events.len < MAX_EVENTS;
}

/*
 * Follows the path as far as it is certain. The plan's arrays then end at the last place where a
 * stop can stand, walk->fresh.ip.
 */
static void run(struct walk *walk)
{
	struct block_plan *plan = walk->plan;

	for (;;) {
		uint32_t position = (uint32_t)plan->steps.len - walk->first_step, from = walk->node;
		struct block_event event;
		struct block_node *node;
		struct block_site site;

		if (!may_pass(walk, position))
			break;
		node = &walk->cache->nodes[walk->node];
		site = (struct block_site){ &node->ops, node->addr, node->length };
		if (vec_push(&plan->steps, walk->node))
			break;
		switch (block_exec(walk->state, walk->cache->mem, &site, &walk->ip, &event)) {
		case BLOCK_FLOW_NEXT:
			break;
		case BLOCK_FLOW_EVENT:
			if (!add_event(walk, &event)) {
				cut(walk);
				return;
			}
			break;
		case BLOCK_FLOW_SPLIT:
			if (!split(walk, &event)) {
				cut(walk);
				return;
			}
			walk->ip = event.to;
			break;
		case BLOCK_FLOW_STOP:
			cut(walk);
			return;
		}
		walk->node = follow(walk, from);
		if (walk->node == BLOCK_NO_NODE)
			break;
	}
	cut(walk);
}

static void adapt_run_limit(struct block_cache *cache, const struct walk *walk)
{
	if (walk->tight)
		return;
	if (walk->wasted >= cache->run_limit && cache->run_limit > MIN_RUN_LIMIT)
		cache->run_limit /= 2;
	else if (walk->longest > cache->run_limit / 2 && cache->run_limit < MAX_RUN_LIMIT)
		cache->run_limit *= 2;
}

static void walk_main(struct block_plan *plan, struct block_cache *cache,
		      const struct block_reader *reader, uint32_t root)
{
	struct walk walk = {
		.plan = plan,
		.cache = cache,
		.reader = reader,
		.state = &plan->state,
		.ip = plan->root.rip,
		.node = root,
		.is_main = true,
		.max_steps = MAX_STEPS,
		.run_limit = cache->serial % TRY_EVERY || cache->run_limit > TRY_RUN_LIMIT ?
				     cache->run_limit :
				     TRY_RUN_LIMIT,
		.segment = BLOCK_REGISTERS,
	};

	note_fresh(&walk);
	plan->n_leaves = 1;
	run(&walk);
	plan->leaves[0] = (struct block_leaf){
		.addr = walk.fresh.ip,
		.prefix_steps = walk.fresh.n_steps,
		.prefix_events = walk.fresh.n_events,
	};
	adapt_run_limit(cache, &walk);
}

/* The path on the other side of a split, up to its first unknown branch. */
static void walk_side(struct block_plan *plan, struct block_cache *cache,
		      const struct block_reader *reader, size_t index)
{
	struct block_leaf *leaf = &plan->leaves[index];
	struct block_split *made = &plan->splits[index - 1];
	const struct block_node *branch = &cache->nodes[made->node];
	struct block_event event = {
		.from = branch->addr,
		.to = made->other,
		.kind = made->main_taken ? BLOCK_NOT_TAKEN : BLOCK_TAKEN,
	};
	struct walk walk = {
		.plan = plan,
		.cache = cache,
		.reader = reader,
		.state = &made->state,
		.ip = made->other,
		.first_step = (uint32_t)plan->steps.len,
		.first_event = (uint32_t)plan->events.len,
		.base = leaf->prefix_steps,
		.max_steps = MAX_SIDE_STEPS,
		.run_limit = MAX_SIDE_STEPS,
		.segment = (uint8_t)index,
	};

	block_mem_undo(cache->mem, made->mark);
	walk.node = block_cache_node(cache, reader, made->other);
	leaf->first_step = walk.first_step;
	leaf->first_event = walk.first_event;
	leaf->addr = made->other;
	/* The branch itself is the prefix's last step, one before this path's first. */
	if (add_event(&walk, &event) && walk.node != BLOCK_NO_NODE) {
		note_fresh(&walk);
		run(&walk);
		leaf->addr = walk.fresh.ip;
	}
	leaf->n_steps = (uint32_t)plan->steps.len - leaf->first_step;
	leaf->n_events = (uint32_t)plan->events.len - leaf->first_event;
}

static void next_serial(struct block_cache *cache)
{
	if (++cache->serial)
		return;
	for (size_t i = 0; i < cache->n_nodes; i++)
		cache->nodes[i].serial = 0;
	cache->serial = 1;
}

static void shrink(struct block_plan *plan)
{
	if (plan->steps.cap <= LARGE_STEPS || plan->steps.len > LARGE_STEPS / 2) {
		plan->small_plans = 0;
	} else if (++plan->small_plans == LARGE_PLANS) {
		vec_free(&plan->steps);
		vec_free(&plan->events);
		vec_free(&plan->event_steps);
		vec_free(&plan->path);
		plan->small_plans = 0;
	}
}

int block_plan_make(struct block_plan *plan, struct block_cache *cache,
		    const struct user_regs_struct *regs, const struct block_reader *reader)
{
	size_t mark;
	uint32_t root;

	shrink(plan);
	plan->n_leaves = 0;
	plan->steps.len = plan->events.len = plan->event_steps.len = 0;
	if (regs->cs != USER_CS_64)
		return -EAGAIN;
	root = block_cache_node(cache, reader, regs->rip);
	if (root == BLOCK_NO_NODE || cache->nodes[root].is_end)
		return -EAGAIN;
	next_serial(cache);
	plan->serial = cache->serial;
	plan->exclusive = cache->exclusive;
	plan->passes_root = false;
	plan->root = *regs;
	block_state_init(&plan->state, regs);
	block_mem_begin(cache->mem, reader, cache->exclusive);
	mark = block_mem_mark(cache->mem);
	walk_main(plan, cache, reader, root);
	for (size_t i = plan->n_leaves; i-- > 1;)
		walk_side(plan, cache, reader, i);
	block_mem_undo(cache->mem, mark);
	if (plan->leaves[0].prefix_steps)
		return 0;
	plan->n_leaves = 0;
	return -EAGAIN;
}

size_t block_plan_stops(const struct block_plan *plan, uint64_t stops[BLOCK_REGISTERS])
{
	for (size_t i = 0; i < plan->n_leaves; i++)
		stops[i] = plan->leaves[i].addr;
	return plan->n_leaves;
}

/* Whether the thread could come by @addr before it reaches a stop. */
static bool may_meet(const struct block_plan *plan, const struct block_cache *cache, uint64_t addr)
{
	if (addr == plan->root.rip)
		return plan->passes_root || !(plan->root.eflags & RESUME_FLAG);
	for (size_t i = 0; i < plan->steps.len; i++) {
		if (cache->nodes[plan->steps.data[i]].addr == addr)
			return true;
	}
	return false;
}

void block_plan_registers(const struct block_plan *plan, const struct block_cache *cache,
			  const uint64_t current[BLOCK_REGISTERS], uint64_t next[BLOCK_REGISTERS])
{
	bool is_kept[BLOCK_REGISTERS] = { false };
	size_t missing = 0;
	uint64_t wanted[BLOCK_REGISTERS];

	memcpy(next, current, BLOCK_REGISTERS * sizeof(*next));
	for (size_t i = 0; i < plan->n_leaves; i++) {
		size_t r = 0;

		while (r < BLOCK_REGISTERS && (is_kept[r] || next[r] != plan->leaves[i].addr))
			r++;
		if (r < BLOCK_REGISTERS)
			is_kept[r] = true;
		else
			wanted[missing++] = plan->leaves[i].addr;
	}
	/* First what would be in the way, then what was never set, then any. */
	for (int pass = 0; pass < 3; pass++) {
		for (size_t r = 0; r < BLOCK_REGISTERS; r++) {
			bool in_way = next[r] && may_meet(plan, cache, next[r]);

			if (is_kept[r] || (pass == 0 && !in_way) || (pass == 1 && next[r]))
				continue;
			if (missing)
				next[r] = wanted[--missing];
			else if (in_way || !next[r])
				next[r] = plan->leaves[0].addr;
			is_kept[r] = true;
		}
	}
}
