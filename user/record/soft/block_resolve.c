// SPDX-License-Identifier: GPL-2.0-only
/* From the place of a stop to the path that led there. */
#include "record/soft/block_plan.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"

/* A place on a leaf's path: before the instruction at a step. */
struct place {
	size_t leaf;
	uint32_t step;
};

static uint32_t path_steps(const struct block_leaf *leaf)
{
	return leaf->prefix_steps + leaf->n_steps;
}

static uint32_t step_node(const struct block_plan *plan, const struct block_leaf *leaf,
			  uint32_t step)
{
	if (step < leaf->prefix_steps)
		return plan->steps.data[step];
	return plan->steps.data[leaf->first_step + step - leaf->prefix_steps];
}

/* Steps at @ip; *place is the first. Other leaves than 0 are looked at beyond the main path only.
 */
static size_t find_places(const struct block_plan *plan, const struct block_cache *cache,
			  uint64_t ip, struct place *place)
{
	size_t found = 0;

	for (size_t i = 0; i < plan->n_leaves; i++) {
		const struct block_leaf *leaf = &plan->leaves[i];

		for (uint32_t step = i ? leaf->prefix_steps : 0; step < path_steps(leaf); step++) {
			if (cache->nodes[step_node(plan, leaf, step)].addr != ip)
				continue;
			if (!found++)
				*place = (struct place){ i, step };
		}
	}
	return found;
}

static const struct block_event *path_event(const struct block_plan *plan,
					    const struct block_leaf *leaf, uint32_t index,
					    uint32_t *step)
{
	uint32_t at = index < leaf->prefix_events ? index :
						    leaf->first_event + index - leaf->prefix_events;

	*step = plan->event_steps.data[at];
	return &plan->events.data[at];
}

/* Called before each step of a path that is gone along again; event is NULL or the step's. */
typedef void (*step_fn)(void *ctx, uint32_t step, const struct block_node *node,
			const struct block_event *event);

static void go_along(struct block_plan *plan, struct block_cache *cache,
		     const struct block_leaf *leaf, step_fn before_step, void *ctx)
{
	uint32_t event_step = 0, n_event = 0, n_events = leaf->prefix_events + leaf->n_events;
	struct block_event ignored;
	uint64_t next;

	block_state_init(&plan->state, &plan->root);
	for (uint32_t step = 0; step < path_steps(leaf); step++) {
		const struct block_node *node = &cache->nodes[step_node(plan, leaf, step)];
		struct block_site site = { &node->ops, node->addr, node->length };
		const struct block_event *event = NULL;

		if (n_event < n_events)
			event = path_event(plan, leaf, n_event, &event_step);
		if (event && event_step != step)
			event = NULL;
		before_step(ctx, step, node, event);
		if (event)
			block_exec_branch(&plan->state, cache->mem, &site, event);
		else
			block_exec(&plan->state, cache->mem, &site, &next, &ignored);
		n_event += event != NULL;
	}
}

struct slot {
	uint64_t addr, value;
};

struct collect {
	struct block_plan *plan;
	struct block_mem *mem;
	VEC(struct slot) slots;
	int err;
};

/* A return tells what lay on the stack from the beginning, unless the path has put it there. */
static void collect_slot(void *ctx, uint32_t step, const struct block_node *node,
			 const struct block_event *event)
{
	struct collect *collect = ctx;
	const struct block_state *state = &collect->plan->state;
	struct slot slot = { state->gpr[4], event ? event->to : 0 };

	(void)step;
	if (!event || node->ops.op != INSN_OP_RET || state->known[4] != UINT64_MAX ||
	    !block_mem_is_untouched(collect->mem, slot.addr))
		return;
	if (vec_push(&collect->slots, slot))
		collect->err = -ENOMEM;
}

struct match {
	const struct block_plan *plan;
	struct block_mem *mem;
	const struct user_regs_struct *regs;
	const struct block_reader *reader;
	size_t found;
	uint32_t step;
};

static void match_place(void *ctx, uint32_t step, const struct block_node *node,
			const struct block_event *event)
{
	struct match *match = ctx;

	(void)event;
	if (node->addr != match->regs->rip ||
	    !block_state_matches(&match->plan->state, match->regs) ||
	    !block_mem_matches(match->mem, match->reader))
		return;
	match->step = step;
	match->found++;
}

/*
 * Goes along the leaf's path again, first to see which memory it touches, then to find the one
 * place at regs->rip where all that is known of the thread is so now.
 */
static int replay(struct block_plan *plan, struct block_cache *cache,
		  const struct user_regs_struct *regs, const struct block_reader *reader,
		  struct place *place)
{
	const struct block_leaf *leaf = &plan->leaves[place->leaf];
	struct collect collect = { .plan = plan, .mem = cache->mem };
	struct match match = { .plan = plan, .mem = cache->mem, .regs = regs, .reader = reader };
	int err;

	if (plan->exclusive && cache->serial != plan->serial)
		return -ENOENT;
	if (plan->exclusive)
		block_mem_attach(cache->mem, reader);
	else
		block_mem_begin(cache->mem, reader, false);
	go_along(plan, cache, leaf, collect_slot, &collect);
	err = collect.err ? collect.err : block_mem_watch(cache->mem);
	block_mem_undo(cache->mem, 0);
	for (size_t i = 0; i < collect.slots.len; i++)
		block_mem_store(cache->mem, collect.slots.data[i].addr, 8,
				(struct block_value){ collect.slots.data[i].value, UINT64_MAX },
				true);
	vec_free(&collect.slots);
	if (err)
		return err;
	go_along(plan, cache, leaf, match_place, &match);
	block_mem_undo(cache->mem, 0);
	place->step = match.step;
	return match.found == 1 ? 0 : -ENOENT;
}

static void learn(const struct block_plan *plan, struct block_cache *cache, size_t leaf,
		  uint32_t step)
{
	for (size_t i = 1; i < plan->n_leaves; i++) {
		struct block_node *node = &cache->nodes[plan->splits[i - 1].node];
		bool taken = plan->splits[i - 1].main_taken;

		/* Leaf i leaves the main path at split i - 1, those above it pass there. */
		if (leaf && i > leaf)
			break;
		if (!leaf && plan->leaves[i].prefix_steps > step)
			break;
		if (i == leaf)
			taken = !taken;
		if (taken && node->bias < 4)
			node->bias++;
		else if (!taken && node->bias > -4)
			node->bias--;
	}
}

/* The events of the path's first @steps steps. */
static int give_path(struct block_plan *plan, const struct block_leaf *leaf, uint32_t steps,
		     struct block_path *path)
{
	uint32_t n = leaf->prefix_events + leaf->n_events, step;

	while (n && (path_event(plan, leaf, n - 1, &step), step >= steps))
		n--;
	path->n_events = n;
	path->instructions = steps;
	path->events = plan->events.data;
	if (n <= leaf->prefix_events)
		return 0;
	plan->path.len = 0;
	if (vec_reserve(&plan->path, n))
		return -ENOMEM;
	memcpy(plan->path.data, plan->events.data,
	       leaf->prefix_events * sizeof(*plan->events.data));
	memcpy(plan->path.data + leaf->prefix_events, plan->events.data + leaf->first_event,
	       (n - leaf->prefix_events) * sizeof(*plan->events.data));
	path->events = plan->path.data;
	return 0;
}

int block_plan_resolve(struct block_plan *plan, struct block_cache *cache,
		       const struct user_regs_struct *regs, const struct block_reader *reader,
		       struct block_path *path)
{
	struct place place = { 0, 0 };
	size_t found;
	int err;

	for (size_t i = 0; i < plan->n_leaves; i++) {
		if (plan->leaves[i].addr != regs->rip)
			continue;
		learn(plan, cache, i, path_steps(&plan->leaves[i]));
		return give_path(plan, &plan->leaves[i], path_steps(&plan->leaves[i]), path);
	}
	found = find_places(plan, cache, regs->rip, &place);
	if (!found)
		return -ENOENT;
	if (found > 1) {
		err = replay(plan, cache, regs, reader, &place);
		if (err)
			return err;
	}
	learn(plan, cache, place.leaf, place.step);
	return give_path(plan, &plan->leaves[place.leaf], place.step, path);
}
