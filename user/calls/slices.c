// SPDX-License-Identifier: GPL-2.0-only
/* Slices and their times: edges wait until the next timestamp, then share the time in between. */
#include "calls/state.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Until the thread has shown how fast it runs. */
#define DEFAULT_NS_PER_INSN 1

int slice_open(struct calls *calls, uint32_t parent, const struct calls_function *function,
	       uint64_t address, enum slice_edge edge, uint32_t *slice)
{
	struct thread_timeline *out = calls->out;
	const struct slice opened = {
		.address = address,
		.name = function->id,
		.parent = parent,
		.depth = NONE,
		.begin_edge = (uint8_t)edge,
		.end_edge = EDGE_INFERRED,
	};
	const struct pending_edge begin = { .position = calls->position,
					    .slice = (uint32_t)out->slices.len };

	if (out->slices.len >= NONE - 1 || vec_push(&out->slices, opened) ||
	    vec_push(&calls->edges, begin))
		return -ENOMEM;
	*slice = begin.slice;
	return 0;
}

int slice_close(struct calls *calls, uint32_t slice, enum slice_edge edge)
{
	const struct pending_edge end = { .position = calls->position,
					  .slice = slice,
					  .is_end = true };

	calls->out->slices.data[slice].end_edge = (uint8_t)edge;
	return vec_push(&calls->edges, end);
}

void slice_close_at(struct calls *calls, uint32_t slice, enum slice_edge edge, uint64_t time_ns)
{
	calls->out->slices.data[slice].end_edge = (uint8_t)edge;
	calls->out->slices.data[slice].end_ns = time_ns;
}

static void set_edge(struct calls *calls, const struct pending_edge *edge, uint64_t time_ns,
		     bool spread)
{
	struct slice *slice = &calls->out->slices.data[edge->slice];

	if (edge->is_end) {
		slice->end_ns = time_ns;
		slice->flags |= spread ? SLICE_END_SPREAD : 0;
	} else {
		slice->begin_ns = time_ns;
		slice->flags |= spread ? SLICE_BEGIN_SPREAD : 0;
	}
}

void time_anchor(struct calls *calls, uint64_t time_ns, bool exact)
{
	const uint64_t insns = calls->position - calls->anchor_position;
	const uint64_t begin = calls->anchor_ns;
	const uint64_t span = time_ns > begin ? time_ns - begin : 0;
	struct pending_edge *edge;

	vec_for_each(edge, &calls->edges) {
		const uint64_t done = edge->position - calls->anchor_position;
		uint64_t share = span;

		if (insns)
			share = (uint64_t)((unsigned __int128)span * done / insns);
		set_edge(calls, edge, begin + share,
			 done < insns ? done || !calls->anchor_exact : !exact);
	}
	calls->edges.len = 0;
	calls->anchor_exact = exact;
	if (exact && insns && span) {
		calls->rate_ns += span;
		calls->rate_insns += insns;
	}
	calls->anchor_ns = begin + span;
	calls->anchor_position = calls->position;
}

uint64_t time_estimate(struct calls *calls, uint64_t limit_ns)
{
	const uint64_t insns = calls->position - calls->anchor_position;
	unsigned __int128 span = (unsigned __int128)insns * DEFAULT_NS_PER_INSN;
	uint64_t room = limit_ns > calls->anchor_ns ? limit_ns - calls->anchor_ns : 0;

	if (calls->rate_insns)
		span = (unsigned __int128)insns * calls->rate_ns / calls->rate_insns;
	if (span < room)
		room = (uint64_t)span;
	time_anchor(calls, calls->anchor_ns + room, !insns && calls->anchor_exact);
	return calls->anchor_ns;
}

static int compare_late(const void *a, const void *b)
{
	const struct late_slice *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	/* The later found is the outer one. */
	return x->slice > y->slice ? -1 : x->slice < y->slice;
}

/* order[i]: the slice that comes i-th; place[]: the inverse. Merged slices have no place. */
static size_t order_slices(struct calls *calls, uint32_t *order, uint32_t *place)
{
	struct slice *slices = calls->out->slices.data;
	struct late_slice *late = calls->late.data, *end = late + calls->late.len;
	size_t n_ordered = 0;

	for (uint32_t i = 0; i < calls->out->slices.len; i++)
		slices[i].depth = 0;
	for (struct late_slice *it = late; it < end; it++)
		slices[it->slice].depth = NONE;
	if (calls->late.len)
		qsort(late, calls->late.len, sizeof(*late), compare_late);
	for (uint32_t i = 0; i < calls->out->slices.len; i++) {
		for (; late < end && late->key == i; late++) {
			slices[late->slice].begin_ns = slices[i].begin_ns;
			slices[late->slice].flags |= slices[i].flags & SLICE_BEGIN_SPREAD;
			if (!(slices[late->slice].flags & SLICE_MERGED))
				order[n_ordered++] = late->slice;
		}
		if (!slices[i].depth && !(slices[i].flags & SLICE_MERGED))
			order[n_ordered++] = i;
	}
	for (uint32_t i = 0; i < n_ordered; i++)
		place[order[i]] = i;
	return n_ordered;
}

/* What was found to be one call gets all that its parts executed; parents skip merged parts. */
static void resolve_merges(struct slice *slices, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint32_t parent = slices[i].parent;

		while (parent != NONE && slices[parent].flags & SLICE_MERGED)
			parent = slices[parent].parent;
		slices[i].parent = parent;
		if (slices[i].flags & SLICE_MERGED)
			slices[parent].insns += slices[i].insns;
	}
}

static bool spans_gap(const struct thread_timeline *out, const struct slice *slice)
{
	size_t low = 0, high = out->gaps.len;

	while (low < high) {
		const size_t middle = low + (high - low) / 2;

		if (out->gaps.data[middle].begin_ns < slice->begin_ns)
			low = middle + 1;
		else
			high = middle;
	}
	return low < out->gaps.len && out->gaps.data[low].reason != GAP_START &&
	       out->gaps.data[low].end_ns < slice->end_ns;
}

static void finish_slice(struct thread_timeline *out, struct slice *slice)
{
	struct slice *parent = NULL;

	slice->depth = 0;
	slice->self_ns = slice->end_ns - slice->begin_ns;
	if (slice->parent != NONE) {
		parent = &out->slices.data[slice->parent];
		slice->depth = parent->depth + 1;
		parent->self_ns -= slice->self_ns;
	}
	if (slice->begin_edge == EDGE_INFERRED || slice->end_edge == EDGE_INFERRED)
		out->inferred++;
	if (!(slice->flags & SLICE_ASSUMED) && spans_gap(out, slice))
		slice->flags |= SLICE_ACROSS_GAP;
}

int slices_finish(struct calls *calls)
{
	struct thread_timeline *out = calls->out;
	const size_t n = out->slices.len;
	scoped_free uint32_t *order = malloc((n + 1) * sizeof(*order));
	scoped_free uint32_t *place = malloc((n + 1) * sizeof(*place));
	scoped_free struct slice *ordered = malloc((n + 1) * sizeof(*ordered));
	size_t n_ordered;

	if (!order || !place || !ordered)
		return -ENOMEM;
	resolve_merges(out->slices.data, n);
	n_ordered = order_slices(calls, order, place);
	for (size_t i = 0; i < n_ordered; i++) {
		ordered[i] = out->slices.data[order[i]];
		if (ordered[i].parent != NONE)
			ordered[i].parent = place[ordered[i].parent];
	}
	free(out->slices.data);
	out->slices.data = TAKE_PTR(ordered);
	out->slices.len = n_ordered;
	out->slices.cap = n + 1;
	for (size_t i = 0; i < n_ordered; i++)
		finish_slice(out, &out->slices.data[i]);
	return 0;
}
