// SPDX-License-Identifier: GPL-2.0-only
/* The stack of frames and its seams. Both look-ups are hash chains through the frames themselves.
 */
#include "calls/state.h"

#include <stdlib.h>
#include <string.h>

/* Matches of one return address that are looked at before the newest is taken. */
#define RETURN_CANDIDATES 64
/* How far below a gap the end looks for the function that runs above it. */
#define SETTLE_DEPTH 256

static uint32_t bucket_of(uint64_t address)
{
	return (uint32_t)((address * 0x9e3779b97f4a7c15ull) >> 54) % STACK_BUCKETS;
}

void stack_init(struct calls *calls)
{
	memset(calls->by_ra, 0xff, sizeof(calls->by_ra));
	memset(calls->by_entry, 0xff, sizeof(calls->by_entry));
}

static int frame_push(struct calls *calls, const struct frame *frame)
{
	const uint32_t index = (uint32_t)calls->frames.len;
	struct frame *pushed;
	int err = vec_push(&calls->frames, *frame);

	if (err)
		return err;
	pushed = stack_top(calls);
	if (pushed->ra) {
		pushed->ra_next = calls->by_ra[bucket_of(pushed->ra)];
		calls->by_ra[bucket_of(pushed->ra)] = index;
	}
	if (!(pushed->flags & FRAME_LOCAL)) {
		pushed->entry_next = calls->by_entry[bucket_of(pushed->entry)];
		calls->by_entry[bucket_of(pushed->entry)] = index;
	}
	return 0;
}

/* Newer frames are always nearer to the head of their chains, so the top is the head. */
static void frame_pop(struct calls *calls)
{
	const struct frame *top = stack_top(calls);

	if (top->ra)
		calls->by_ra[bucket_of(top->ra)] = top->ra_next;
	if (!(top->flags & FRAME_LOCAL))
		calls->by_entry[bucket_of(top->entry)] = top->entry_next;
	calls->frames.len--;
}

static struct frame make_frame(const struct calls_function *function, bool named, uint64_t at,
			       uint64_t ra)
{
	return (struct frame){
		.ra = ra,
		.entry = named ? function->entry : at,
		.start = function->start,
		.end = function->end,
		.flags =
			(uint8_t)((named ? FRAME_NAMED : 0) | (function->is_stub ? FRAME_STUB : 0) |
				  (function->resumes_unwind ? FRAME_RESUMES_UNWIND : 0)),
	};
}

static void seam_add_root(struct calls *calls, struct seam *seam, uint32_t slice)
{
	struct slice *slices = calls->out->slices.data;

	slices[slice].depth = NONE;
	slices[slice].parent = seam->parent;
	if (seam->first_root == NONE)
		seam->first_root = slice;
	else
		slices[seam->last_root].depth = slice;
	seam->last_root = slice;
	if (seam->key == NONE)
		seam->key = slice;
}

/* The slice of a frame that is about to be pushed. */
static int open_slice(struct calls *calls, const struct calls_function *function,
		      struct frame *frame, enum slice_edge edge)
{
	struct seam *seam = stack_seam(calls);
	const bool is_root = seam->frame == calls->frames.len;
	const uint32_t parent = is_root ? NONE : stack_top(calls)->slice;
	int err = slice_open(calls, parent, function, frame->entry, edge, &frame->slice);

	if (!err && is_root)
		seam_add_root(calls, seam, frame->slice);
	return err;
}

int stack_push(struct calls *calls, const struct calls_function *function, bool named, uint64_t at,
	       uint64_t ra, enum slice_edge edge)
{
	struct frame frame = make_frame(function, named, at, ra);
	int err = open_slice(calls, function, &frame, edge);

	return err ? err : frame_push(calls, &frame);
}

int stack_push_local(struct calls *calls, uint64_t ra)
{
	struct frame frame = *stack_top(calls);

	frame.ra = ra;
	frame.flags = (uint8_t)((frame.flags & FRAME_NAMED) | FRAME_LOCAL);
	return frame_push(calls, &frame);
}

int stack_push_seam(struct calls *calls, enum seam_kind kind)
{
	const bool joins = kind != SEAM_START && kind != SEAM_GAP && calls->frames.len;
	const struct seam seam = {
		.frame = (uint32_t)calls->frames.len,
		.kind = kind,
		.parent = joins ? stack_top(calls)->slice : NONE,
		.first_root = NONE,
		.last_root = NONE,
		.key = NONE,
	};

	return vec_push(&calls->seams, seam);
}

int stack_pop(struct calls *calls, enum slice_edge edge)
{
	const struct frame top = *stack_top(calls);

	frame_pop(calls);
	return top.flags & FRAME_LOCAL ? 0 : slice_close(calls, top.slice, edge);
}

int stack_replace(struct calls *calls, const struct calls_function *function, bool named,
		  uint64_t at)
{
	const uint64_t ra = stack_top(calls)->ra;
	int err = stack_pop(calls, EDGE_SEEN);

	return err ? err : stack_push(calls, function, named, at, ra, EDGE_SEEN);
}

void stack_rename(struct calls *calls, const struct calls_function *function)
{
	struct frame frame = make_frame(function, true, function->entry, stack_top(calls)->ra);
	struct slice *slice = &calls->out->slices.data[stack_top(calls)->slice];

	frame.slice = stack_top(calls)->slice;
	slice->name = function->id;
	slice->address = function->entry;
	frame_pop(calls);
	frame_push(calls, &frame); /* there is room: a frame just left */
}

static void park(struct calls *calls, uint32_t first, uint32_t end, uint64_t resume)
{
	struct parked *slot = &calls->parked[0];

	if (first >= end || !resume)
		return;
	for (struct parked *it = calls->parked; it < calls->parked + PARKED_STACKS; it++) {
		if (!it->n || (slot->n && it->stamp < slot->stamp))
			slot = it;
		if (!it->n)
			break;
	}
	if (!slot->frames)
		slot->frames = malloc(PARKED_FRAMES * sizeof(*slot->frames));
	if (!slot->frames)
		return; /* then it comes back as a stack that was not seen before */
	if (end - first > PARKED_FRAMES)
		first = end - PARKED_FRAMES;
	slot->n = end - first;
	slot->resume = resume;
	slot->stamp = ++calls->parked_stamp;
	memcpy(slot->frames, &calls->frames.data[first], slot->n * sizeof(*slot->frames));
	slot->frames[0].ra = 0;
}

static bool begins_stack(const struct calls *calls, uint32_t frame, const struct seam *seam)
{
	return calls->frames.data[frame].flags & FRAME_BY_RETURN ||
	       (seam->frame == frame && seam->kind == SEAM_SWITCH);
}

/*
 * Parks the stacks among the frames from @n up; returns the lowest frame that belongs to one. A
 * stack whose newest frame made the switch goes on where that frame returns to.
 */
static uint32_t park_stacks(struct calls *calls, uint32_t n)
{
	const struct seam *seam = stack_seam(calls);
	uint32_t end = (uint32_t)calls->frames.len - 1, lowest = NONE;
	uint64_t resume = calls->frames.data[end].ra;

	for (uint32_t i = end + 1; i-- > n;) {
		const struct frame *frame = &calls->frames.data[i];

		while (seam->frame > i)
			seam--;
		if (!begins_stack(calls, i, seam)) {
			if (!i && !calls->complete)
				park(calls, i, end,
				     resume); /* perhaps: its callers were not seen */
			if (seam->frame == i)
				break; /* interrupted, or gone */
			continue;
		}
		park(calls, i, end, resume);
		lowest = i;
		if (!i)
			break;
		/* By a return: it took the frame that switched with it. */
		end = frame->flags & FRAME_BY_RETURN ? i : i - 1;
		resume = frame->flags & FRAME_BY_RETURN ? frame->ra : frame[-1].ra;
	}
	return lowest;
}

/* All that ran since a gap was called, directly or not, by @survivor, which lived through it. */
static void settle_roots(struct calls *calls, struct seam *seam, uint32_t survivor, bool assumed)
{
	struct slice *slices = calls->out->slices.data;
	uint32_t next;

	for (uint32_t root = seam->first_root; root != NONE; root = next) {
		struct slice *slice = &slices[root];
		const bool same = survivor != NONE && slice->address == slices[survivor].address &&
				  slice->name == slices[survivor].name;

		next = slice->depth;
		if (survivor == NONE) {
			seam_add_root(calls, &calls->seams.data[0], root);
			continue;
		}
		slice->parent = survivor;
		slice->flags |= same ? SLICE_MERGED : 0;
		slices[survivor].flags |= assumed ? SLICE_ASSUMED : 0;
	}
}

int stack_cut(struct calls *calls, uint32_t n, enum slice_edge edge)
{
	const uint32_t parked = park_stacks(calls, n);
	const bool lives_to_now = edge == EDGE_SEEN;
	const struct seam *gap = NULL; /* the lowest one above the frame at hand */
	size_t first_seam = calls->seams.len, seam = first_seam;
	uint32_t survivor = NONE;

	if (lives_to_now)
		survivor = calls->frames.data[n].slice;
	else if (n)
		survivor = calls->frames.data[n - 1].slice;
	while (first_seam > 1 && calls->seams.data[first_seam - 1].frame >= n)
		first_seam--;
	while (calls->frames.len > n) {
		const struct frame top = *stack_top(calls);
		const uint32_t index = (uint32_t)calls->frames.len - 1;
		int err = 0;

		for (; seam > first_seam && calls->seams.data[seam - 1].frame > index; seam--)
			gap = calls->seams.data[seam - 1].kind == SEAM_GAP ?
				      &calls->seams.data[seam - 1] :
				      gap;
		frame_pop(calls);
		if (top.flags & FRAME_LOCAL)
			continue;
		if (gap && !(lives_to_now && index == n))
			slice_close_at(calls, top.slice, EDGE_INFERRED, gap->gap_begin_ns);
		else if (index == n)
			err = slice_close(calls, top.slice, n == parked ? EDGE_SWITCHED : edge);
		else
			err = slice_close(calls, top.slice,
					  index >= parked ? EDGE_SWITCHED : EDGE_UNWOUND);
		if (err)
			return err;
	}
	for (seam = first_seam; seam < calls->seams.len; seam++) {
		if (calls->seams.data[seam].kind == SEAM_GAP)
			settle_roots(calls, &calls->seams.data[seam], survivor, false);
	}
	calls->seams.len = first_seam;
	return 0;
}

int stack_add_caller(struct calls *calls, const struct calls_function *function, bool named,
		     uint64_t at)
{
	struct seam *seam = stack_seam(calls);
	struct frame frame = make_frame(function, named, at, 0);
	const uint32_t first = seam->first_root;
	const struct late_slice late = { .slice = (uint32_t)calls->out->slices.len,
					 .key = seam->key };
	int err =
		slice_open(calls, seam->parent, function, frame.entry, EDGE_INFERRED, &frame.slice);
	uint32_t next;

	if (err)
		return err;
	calls->edges.len--; /* it begins with the first slice that it encloses */
	for (uint32_t root = first; root != NONE; root = next) {
		next = calls->out->slices.data[root].depth;
		calls->out->slices.data[root].parent = frame.slice;
	}
	seam->first_root = NONE;
	seam_add_root(calls, seam, frame.slice);
	err = vec_push(&calls->late, late);
	return err ? err : frame_push(calls, &frame);
}

uint32_t stack_find_return(struct calls *calls, uint64_t to, const struct calls_function *function,
			   bool named)
{
	uint32_t newest = NONE, left = RETURN_CANDIDATES;
	const struct frame *frames = calls->frames.data;

	for (uint32_t i = calls->by_ra[bucket_of(to)]; i != NONE && left; i = frames[i].ra_next) {
		if (frames[i].ra != to || !i)
			continue;
		if (newest == NONE)
			newest = i;
		if (!named || frames[i - 1].entry == function->entry)
			return i;
		left--;
	}
	return newest;
}

uint32_t stack_find_owner(struct calls *calls, uint64_t entry)
{
	const struct frame *frames = calls->frames.data;

	for (uint32_t i = calls->by_entry[bucket_of(entry)]; i != NONE; i = frames[i].entry_next) {
		if (frames[i].entry != entry || !(frames[i].flags & FRAME_NAMED))
			continue;
		if (i + 1 < calls->frames.len && frames[i + 1].flags & FRAME_RESUMES_UNWIND)
			continue;
		return i;
	}
	return NONE;
}

/* How many of its newest frames must have returned for it to go on at @to; NONE: it cannot. */
static uint32_t resume_distance(const struct parked *parked, uint64_t to, uint64_t entry)
{
	for (uint32_t gone = 0; gone < parked->n && gone < RESUME_DEPTH; gone++) {
		const struct frame *goes_on = &parked->frames[parked->n - 1 - gone];
		const uint64_t at = gone ? goes_on[1].ra : parked->resume;

		if (at == to && goes_on->entry == entry)
			return gone;
	}
	return NONE;
}

int stack_resume(struct calls *calls, uint64_t to, const struct calls_function *function)
{
	struct parked *best = NULL;
	uint32_t best_gone = NONE, n;
	int err;

	for (struct parked *it = calls->parked; it < calls->parked + PARKED_STACKS; it++) {
		const uint32_t gone = it->n ? resume_distance(it, to, function->entry) : NONE;

		/* Equal ones: the one that has waited longest, as schedulers do it. */
		if (gone < best_gone || (best && gone == best_gone && it->stamp < best->stamp)) {
			best = it;
			best_gone = gone;
		}
	}
	if (!best)
		return 0;
	err = stack_push_seam(calls, SEAM_SWITCH);
	n = best->n - best_gone;
	best->n = 0;
	for (uint32_t i = 0; !err && i < n; i++) {
		struct frame frame = best->frames[i];
		const struct slice *before = &calls->out->slices.data[frame.slice];
		const struct calls_function again = { .id = before->name };

		frame.flags &= (uint8_t)~FRAME_BY_RETURN;
		if (frame.flags & FRAME_LOCAL)
			frame.slice = stack_top(calls)->slice;
		else
			err = open_slice(calls, &again, &frame, EDGE_SWITCHED);
		if (!err)
			err = frame_push(calls, &frame);
	}
	return err ? err : 1;
}

/* Index of the newest frame below @seam that runs the function of the frame above it. */
static uint32_t find_across(const struct calls *calls, const struct seam *seam, uint32_t low)
{
	const struct frame *above = &calls->frames.data[seam->frame];

	for (uint32_t i = seam->frame; i-- > low && seam->frame - i <= SETTLE_DEPTH;) {
		const struct frame *below = &calls->frames.data[i];

		if (below->slice != NONE && !(below->flags & FRAME_LOCAL) &&
		    below->flags & FRAME_NAMED && below->entry == above->entry)
			return i;
	}
	return NONE;
}

static void end_in_gap(struct calls *calls, const struct seam *gap, uint32_t low, uint32_t high)
{
	for (uint32_t i = low; i < high; i++) {
		struct frame *frame = &calls->frames.data[i];

		if (!(frame->flags & FRAME_LOCAL) && frame->slice != NONE)
			slice_close_at(calls, frame->slice, EDGE_INFERRED, gap->gap_begin_ns);
		frame->slice = NONE;
	}
}

/*
 * No return has shown what became of the frames below the gaps that are left. Where the code above
 * a gap runs in a function that was open before it, that call most likely just went on.
 */
void stack_settle_gaps(struct calls *calls)
{
	uint32_t low = 0;

	for (size_t s = 1; s < calls->seams.len; s++) {
		struct seam *seam = &calls->seams.data[s];
		uint32_t found;

		if (seam->kind != SEAM_GAP)
			continue;
		found = find_across(calls, seam, low);
		if (found == NONE) {
			end_in_gap(calls, seam, low, seam->frame);
			settle_roots(calls, seam, NONE, false);
			low = seam->frame;
			continue;
		}
		end_in_gap(calls, seam, found + 1, seam->frame);
		settle_roots(calls, seam, calls->frames.data[found].slice, true);
		calls->frames.data[seam->frame].slice = calls->frames.data[found].slice;
		for (uint32_t i = low; i <= found; i++) {
			if (calls->frames.data[i].slice != NONE)
				calls->out->slices.data[calls->frames.data[i].slice].flags |=
					SLICE_ASSUMED;
		}
	}
}
