// SPDX-License-Identifier: GPL-2.0-only
/*
 * Rings move towards the wanted state in small steps: at most one change per thread and plan, one
 * doubling or halving at a time. What keeps them from flapping: a ring rests (patience) before it
 * grows, longer each time it had to shrink again; one thread pays for another only when its
 * look-back is four times as long, so that rates must change fourfold before the move reverses.
 */
#include "record/budget.h"

#include <errno.h>
#include <stdlib.h>

#include "base/size.h"
#include "record/budget_books.h"

#define MAX_PATIENCE_NS (64 * BUDGET_NS_PER_S)
/* A grow that costs history waits until the ring was filled this many times since its last change.
 */
#define LOSSY_LOOKBACKS 8
/* An untraced thread takes a ring when it is twice as active as its holder, and active at all. */
#define SWAP_FACTOR 2
#define SWAP_FLOOR_NS (BUDGET_NS_PER_S / 1000)
/* Reports come now and then: what a ring holds is more than what was reported. */
#define UNREPORTED (64u * 1024)

static uint64_t room(const struct budget *budget)
{
	return budget->bytes - budget->used;
}

static bool can_change(const struct budget_thread *t)
{
	return t->state == BUDGET_LIVE && t->ring && !t->step;
}

/* What the thread's ring and tail hold, guessed high. */
static uint64_t held(const struct budget_thread *t)
{
	uint64_t bytes = t->written + t->written / 2 + UNREPORTED;

	if (bytes > t->ring || bytes < t->written)
		bytes = t->ring;
	return bytes + t->tail;
}

/* Room for the step was reserved by budget_plan(). */
static void add_step(struct budget *budget, struct budget_thread *t, enum budget_step_kind kind)
{
	budget->steps.data[budget->steps.len++] =
		(struct budget_step){ kind, t->tid, t->ring, t->tail };
	t->step = budget->steps.len;
}

static void drop_tail(struct budget *budget, struct budget_thread *t)
{
	const size_t step = t->step;

	budget_set_bytes(budget, t, t->ring, 0);
	if (step && budget->steps.data[step - 1].kind == BUDGET_RESIZE) {
		budget->steps.data[step - 1].tail = 0;
		return;
	}
	add_step(budget, t, BUDGET_DROP_TAIL);
	t->step = step; /* a ring without a change may still have one */
}

static void take(struct budget *budget, struct budget_thread *t, uint64_t now_ns)
{
	budget_set_bytes(budget, t, 0, 0);
	add_step(budget, t, BUDGET_TAKE);
	t->written = 0;
	t->changed_ns = now_ns;
}

static void give(struct budget *budget, struct budget_thread *t, uint64_t ring, uint64_t now_ns)
{
	budget_set_bytes(budget, t, ring, t->tail);
	add_step(budget, t, BUDGET_GIVE);
	t->state = BUDGET_LIVE;
	t->written = 0;
	t->changed_ns = now_ns;
	t->grown = false;
}

static void resize(struct budget *budget, struct budget_thread *t, uint64_t ring, uint64_t tail,
		   uint64_t now_ns)
{
	const bool grows = ring > t->ring;

	if (!grows && t->grown && t->patience_ns < MAX_PATIENCE_NS)
		t->patience_ns *= 2;
	t->grown = grows;
	budget_set_bytes(budget, t, ring, tail);
	add_step(budget, t, BUDGET_RESIZE);
	t->written = 0;
	t->changed_ns = now_ns;
}

/* Shrinks a ring; a quarter of what it was at most is kept beside it. */
static void shrink(struct budget *budget, struct budget_thread *t, uint64_t ring, uint64_t now_ns)
{
	const uint64_t most = t->ring / 4, has = held(t);

	resize(budget, t, ring, has < most ? has : most, now_ns);
}

static size_t live_threads(const struct budget *budget)
{
	const struct budget_thread *t;
	size_t n = 0;

	vec_for_each(t, &budget->threads)
		n += t->state != BUDGET_EXITED;
	return n;
}

/* What each live thread gets by `equal`. */
static uint64_t equal_share(const struct budget *budget)
{
	const size_t n = live_threads(budget);
	const uint64_t share = size_floor_pow2(budget->bytes / (n ? n : 1));

	return share < BUDGET_MIN_RING ? BUDGET_MIN_RING : share;
}

static struct budget_thread *oldest_exited(struct budget *budget)
{
	struct budget_thread *t, *best = NULL;

	vec_for_each(t, &budget->threads) {
		if (t->state == BUDGET_EXITED && (t->ring || t->tail) &&
		    (!best || t->exited_ns < best->exited_ns))
			best = t;
	}
	return best;
}

/* Takes rings of exited threads, oldest first, that ended before @before_ns. */
static void take_exited(struct budget *budget, uint64_t wanted, uint64_t before_ns, uint64_t now_ns)
{
	struct budget_thread *t;

	while (room(budget) < wanted) {
		t = oldest_exited(budget);
		if (!t || t->exited_ns >= before_ns)
			return;
		take(budget, t, now_ns);
	}
}

/* The ring holds as much as its tail. */
static bool is_ripe(const struct budget_thread *t)
{
	return t->tail && t->written >= t->tail;
}

/* Drops the largest tails but @keep's, all or ripe ones only, until there is room. */
static void cut_tails(struct budget *budget, uint64_t wanted, bool ripe,
		      const struct budget_thread *keep)
{
	struct budget_thread *t, *best;

	while (room(budget) < wanted) {
		best = NULL;
		vec_for_each(t, &budget->threads) {
			if (t != keep && t->tail && (!ripe || is_ripe(t)) &&
			    (!best || t->tail > best->tail))
				best = t;
		}
		if (!best)
			return;
		drop_tail(budget, best);
	}
}

/* The thread that can best do with less: longest look-back, then largest ring, above @floor. */
static struct budget_thread *richest(struct budget *budget, uint64_t floor, uint64_t min_lookback)
{
	struct budget_thread *t, *best = NULL;

	vec_for_each(t, &budget->threads) {
		const uint64_t lookback = budget_lookback_ns(t);

		if (!can_change(t) || t->ring <= floor || lookback < min_lookback)
			continue;
		if (!best || lookback > budget_lookback_ns(best) ||
		    (lookback == budget_lookback_ns(best) && t->ring > best->ring))
			best = t;
	}
	return best;
}

/* A first ring for @t, as near to @share as can be had. */
static bool place(struct budget *budget, struct budget_thread *t, uint64_t share, uint64_t now_ns)
{
	uint64_t ring = share < t->max_ring ? share : t->max_ring;
	struct budget_thread *donor;

	cut_tails(budget, ring, true, t);
	/* half a share to begin with costs less than the history of the dead */
	take_exited(budget, ring > BUDGET_MIN_RING ? ring / 2 : ring, UINT64_MAX, now_ns);
	while (room(budget) < ring) {
		donor = richest(budget, share, 0);
		if (!donor)
			break;
		shrink(budget, donor, donor->ring / 2, now_ns);
	}
	/* a smaller ring costs less than the history of those that made room for it */
	if (room(budget) < ring && ring > BUDGET_MIN_RING)
		ring /= 2;
	cut_tails(budget, ring, false, t);
	while (room(budget) < ring && ring > BUDGET_MIN_RING)
		ring /= 2;
	if (room(budget) < ring)
		return false;
	give(budget, t, ring, now_ns);
	return true;
}

/* Who gets a ring first: a newborn, of which nothing is known yet; then the most active. */
static struct budget_thread *next_untraced(struct budget *budget)
{
	struct budget_thread *t, *best = NULL;

	vec_for_each(t, &budget->threads) {
		if (t->state != BUDGET_UNTRACED || t->step || t->max_ring < BUDGET_MIN_RING)
			continue;
		if (!best || t->measured < best->measured ||
		    (t->measured == best->measured && t->oncpu_ns > best->oncpu_ns))
			best = t;
	}
	return best;
}

static void give_first_rings(struct budget *budget, uint64_t share, uint64_t now_ns)
{
	struct budget_thread *t;

	while ((t = next_untraced(budget))) {
		if (!place(budget, t, share, now_ns))
			return;
	}
}

static bool rested(const struct budget_thread *t, uint64_t now_ns)
{
	return now_ns - t->changed_ns >= t->patience_ns;
}

/* More threads than rings: an active untraced thread gets the ring of one that is far less so. */
static void swap_untraced(struct budget *budget, uint64_t now_ns)
{
	struct budget_thread *t, *idle, *waiting;
	uint64_t ring;

	while ((waiting = next_untraced(budget)) && waiting->measured) {
		idle = NULL;
		vec_for_each(t, &budget->threads) {
			if (can_change(t) && t->measured && rested(t, now_ns) &&
			    t->ring <= waiting->max_ring && (!idle || t->oncpu_ns < idle->oncpu_ns))
				idle = t;
		}
		if (!idle || waiting->oncpu_ns < SWAP_FACTOR * idle->oncpu_ns + SWAP_FLOOR_NS)
			return;
		ring = idle->ring;
		take(budget, idle, now_ns);
		idle->state = BUDGET_UNTRACED;
		if (idle->patience_ns < MAX_PATIENCE_NS)
			idle->patience_ns *= 2;
		give(budget, waiting, ring, now_ns);
	}
}

/* What doubling @t takes, beside what its tail gives back: at least, and to keep all it holds. */
static uint64_t growth_least(const struct budget_thread *t)
{
	return t->ring > t->tail ? t->ring - t->tail : 0;
}

static uint64_t growth_wanted(const struct budget_thread *t)
{
	return growth_least(t) + held(t) - t->tail;
}

/* Filled so often since its last change that losing some of its history once more is fair. */
static bool may_lose(const struct budget_thread *t, uint64_t now_ns)
{
	const uint64_t lookback = budget_lookback_ns(t);

	return lookback <= UINT64_MAX / LOSSY_LOOKBACKS &&
	       now_ns - t->changed_ns >= LOSSY_LOOKBACKS * lookback;
}

/* Doubles @t with as much of its history as there is room for. False: it has to wait. */
static bool grow(struct budget *budget, struct budget_thread *t, uint64_t now_ns)
{
	const uint64_t has = held(t) - t->tail;
	uint64_t tail;

	if (room(budget) < growth_least(t))
		return false;
	tail = room(budget) + t->tail - t->ring;
	if (tail < has && !may_lose(t, now_ns))
		return false;
	resize(budget, t, 2 * t->ring, tail < has ? tail : has, now_ns);
	return true;
}

/* A tail that is not ripe would be lost by another resize. */
static bool settled(const struct budget_thread *t, uint64_t now_ns)
{
	return now_ns - t->changed_ns >= t->patience_ns && (!t->tail || is_ripe(t));
}

static bool may_grow(const struct budget_thread *t, uint64_t limit)
{
	return can_change(t) && 2 * t->ring <= limit && 2 * t->ring <= t->max_ring;
}

static void balance_equally(struct budget *budget, uint64_t share, uint64_t now_ns)
{
	struct budget_thread *t;

	vec_for_each(t, &budget->threads) {
		if (!may_grow(t, share) || !settled(t, now_ns))
			continue;
		cut_tails(budget, growth_wanted(t), true, t);
		take_exited(budget, growth_wanted(t), now_ns - t->patience_ns, now_ns);
		grow(budget, t, now_ns);
	}
}

/* The thread with the shortest look-back that was not yet looked at and may grow at all. */
static struct budget_thread *poorest(struct budget *budget, uint64_t above_ns)
{
	struct budget_thread *t, *best = NULL;

	vec_for_each(t, &budget->threads) {
		const uint64_t lookback = budget_lookback_ns(t);

		if (may_grow(t, budget->bytes) && lookback > above_ns && lookback != UINT64_MAX &&
		    (!best || lookback < budget_lookback_ns(best)))
			best = t;
	}
	return best;
}

/* The shortest look-back that `equal` would give at the present rates. */
static uint64_t equal_lookback(const struct budget *budget, uint64_t share)
{
	const struct budget_thread *t;
	uint64_t shortest = UINT64_MAX;

	vec_for_each(t, &budget->threads) {
		struct budget_thread with_share = *t;
		uint64_t lookback;

		with_share.ring = share;
		lookback = budget_lookback_ns(&with_share);
		if (t->state == BUDGET_LIVE && t->ring && lookback < shortest)
			shortest = lookback;
	}
	return shortest;
}

/* Who pays for a thread that looks back @poor_ns. */
struct donors {
	uint64_t floor;        /* no ring shrinks below */
	uint64_t min_lookback; /* of a donor */
	uint64_t poor_ns;
};

/* A donor's new size: half; a quarter, where it looks back far longer even then. */
static uint64_t donor_ring(const struct budget_thread *t, const struct donors *donors)
{
	if (t->ring / 4 >= donors->floor && budget_lookback_ns(t) >= 8 * donors->poor_ns)
		return t->ring / 4;
	return t->ring / 2;
}

static uint64_t donations(const struct budget *budget, const struct donors *donors)
{
	const struct budget_thread *t;
	uint64_t sum = 0;

	vec_for_each(t, &budget->threads) {
		if (can_change(t) && t->ring > donors->floor &&
		    budget_lookback_ns(t) >= donors->min_lookback)
			sum += t->ring - donor_ring(t, donors) - t->ring / 4;
	}
	return sum;
}

static void collect(struct budget *budget, uint64_t wanted, const struct donors *donors,
		    uint64_t now_ns)
{
	struct budget_thread *t;

	if (room(budget) + donations(budget, donors) < wanted)
		return;
	while (room(budget) < wanted && (t = richest(budget, donors->floor, donors->min_lookback)))
		shrink(budget, t, donor_ring(t, donors), now_ns);
}

/* Makes room to double @t from those that can do without, and more when @t has less than its share.
 */
static void make_room(struct budget *budget, struct budget_thread *t, uint64_t share,
		      uint64_t now_ns)
{
	const uint64_t lookback = budget_lookback_ns(t), age = 2 * lookback;
	const bool claims = t->ring < share && lookback < equal_lookback(budget, share);
	const struct donors idle = { BUDGET_MIN_RING, 4 * lookback, lookback };
	const struct donors rich = { share, 0, lookback };

	if (lookback > UINT64_MAX / 8)
		return;
	t->step = SIZE_MAX; /* is no donor of its own */
	cut_tails(budget, growth_wanted(t), true, t);
	take_exited(budget, growth_wanted(t), now_ns > age ? now_ns - age : 0, now_ns);
	collect(budget, growth_least(t), &idle, now_ns);
	if (claims) {
		/* a ring that is not full yet loses nothing by waiting */
		if (t->written >= t->ring / 2)
			take_exited(budget, growth_least(t), UINT64_MAX, now_ns);
		collect(budget, growth_least(t), &rich, now_ns);
		if (may_lose(t, now_ns)) /* else it would not grow, and the tails be gone */
			cut_tails(budget, growth_least(t), false, t);
	}
	t->step = 0;
}

static void balance_by_activity(struct budget *budget, uint64_t share, uint64_t now_ns)
{
	struct budget_thread *t;
	uint64_t done_ns = 0;

	while ((t = poorest(budget, done_ns))) {
		done_ns = budget_lookback_ns(t);
		if (!settled(t, now_ns))
			return; /* what it will need is not given to others */
		make_room(budget, t, share, now_ns);
		grow(budget, t, now_ns);
	}
}

/*
 * Rule 7: an exited thread's ring goes when all others remember less. Rule 5: a tail goes when the
 * ring is full; before that, when it holds as much and the room is needed.
 */
static void expire(struct budget *budget, uint64_t now_ns)
{
	struct budget_thread *t;
	uint64_t longest = 0;
	bool any = false;

	vec_for_each(t, &budget->threads) {
		if (is_ripe(t) && t->state != BUDGET_EXITED && t->written >= t->ring)
			drop_tail(budget, t);
		if (can_change(t)) {
			any = true;
			if (budget_lookback_ns(t) > longest)
				longest = budget_lookback_ns(t);
		}
	}
	vec_for_each(t, &budget->threads) {
		if (t->state != BUDGET_EXITED || !(t->ring || t->tail))
			continue;
		if (t->reborn || (any && now_ns - t->exited_ns > longest))
			take(budget, t, now_ns);
		if (!t->reborn)
			continue;
		t->reborn = t->measured = false;
		t->bytes_per_s = t->oncpu_ns = 0;
		t->state = BUDGET_UNTRACED;
		t->step = 0;
	}
}

/* Exited threads without a ring are of no interest any more. */
static void forget_taken(struct budget *budget)
{
	size_t kept = 0;

	for (size_t i = 0; i < budget->threads.len; i++) {
		const struct budget_thread *t = &budget->threads.data[i];

		if (t->state != BUDGET_EXITED || t->ring || t->tail)
			budget->threads.data[kept++] = *t;
	}
	budget->threads.len = kept;
}

static void balance(struct budget *budget, uint64_t now_ns, bool rebalance)
{
	const uint64_t share = equal_share(budget);
	struct budget_thread *t;

	expire(budget, now_ns);
	if (rebalance && budget->balance == BALANCE_EQUAL) {
		vec_for_each(t, &budget->threads) {
			const uint64_t has = held(t);

			if (can_change(t) && t->ring > share)
				resize(budget, t, share, has < share ? has : share, now_ns);
		}
	}
	give_first_rings(budget, share, now_ns);
	if (!rebalance)
		return;
	swap_untraced(budget, now_ns);
	if (budget->balance == BALANCE_EQUAL)
		balance_equally(budget, share, now_ns);
	else
		balance_by_activity(budget, share, now_ns);
}

/* Everything that frees bytes, then everything that needs them. A thread's own order is kept. */
static void order_steps(struct budget *budget, const uint64_t *before)
{
	for (int grows = 0; grows < 2; grows++) {
		for (size_t i = 0; i < budget->steps.len; i++) {
			const struct budget_step *step = &budget->steps.data[i];
			const bool grow_step =
				step->kind == BUDGET_GIVE ||
				(step->kind == BUDGET_RESIZE &&
				 step->ring > before[budget_position(budget, step->tid)]);

			if (grow_step == (grows == 1))
				budget->ordered.data[budget->ordered.len++] = *step;
		}
	}
}

int budget_plan(struct budget *budget, uint64_t now_ns, bool rebalance,
		const struct budget_step **steps, size_t *n)
{
	/* a tail's drop, a take of a former bearer's ring and a change: three steps a thread */
	const size_t most = 3 * budget->threads.len;
	uint64_t *before;

	budget->steps.len = budget->ordered.len = 0;
	before = calloc(budget->threads.len + 1, sizeof(*before));
	if (!before)
		return -ENOMEM;
	if (vec_reserve(&budget->steps, most) || vec_reserve(&budget->ordered, most)) {
		free(before);
		return -ENOMEM;
	}
	for (size_t i = 0; i < budget->threads.len; i++) {
		before[i] = budget->threads.data[i].ring;
		budget->threads.data[i].step = 0;
	}
	balance(budget, now_ns, rebalance);
	order_steps(budget, before);
	free(before);
	forget_taken(budget);
	*steps = budget->ordered.data;
	*n = budget->ordered.len;
	return 0;
}
