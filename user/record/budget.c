// SPDX-License-Identifier: GPL-2.0-only
/* The budget's books: who lives, how active each is, and what ring and tail each has. */
#include "record/budget.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "record/budget_books.h"

enum budget_rounding budget_round(uint64_t requested, uint64_t *rounded)
{
	if (requested > BUDGET_MAX_BYTES) {
		*rounded = BUDGET_MAX_BYTES;
		return BUDGET_CAPPED;
	}
	if (requested < BUDGET_MIN_RING) {
		*rounded = BUDGET_MIN_RING;
		return BUDGET_RAISED_TO_RING;
	}
	*rounded = size_ceil_pow2(requested);
	return *rounded == requested ? BUDGET_EXACT : BUDGET_ROUNDED_UP;
}

int budget_new(uint64_t bytes, enum budget_balance balance, struct budget **out)
{
	struct budget *budget;

	if (!size_is_pow2(bytes) || bytes < BUDGET_MIN_RING || bytes > BUDGET_MAX_BYTES)
		return -EINVAL;
	budget = calloc(1, sizeof(*budget));
	if (!budget)
		return -ENOMEM;
	budget->bytes = bytes;
	budget->balance = balance;
	*out = budget;
	return 0;
}

void budget_free(struct budget *budget)
{
	if (!budget)
		return;
	vec_free(&budget->threads);
	vec_free(&budget->steps);
	vec_free(&budget->ordered);
	free(budget);
}

size_t budget_position(const struct budget *budget, pid_t tid)
{
	size_t low = 0, high = budget->threads.len;

	while (low < high) {
		const size_t mid = low + (high - low) / 2;

		if (budget->threads.data[mid].tid < tid)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct budget_thread *find(struct budget *budget, pid_t tid)
{
	const size_t at = budget_position(budget, tid);

	if (at == budget->threads.len || budget->threads.data[at].tid != tid)
		return NULL;
	return &budget->threads.data[at];
}

void budget_set_bytes(struct budget *budget, struct budget_thread *t, uint64_t ring, uint64_t tail)
{
	budget->used -= t->ring + t->tail;
	t->ring = ring;
	t->tail = tail;
	budget->used += ring + tail;
}

static void remove_thread(struct budget *budget, struct budget_thread *t)
{
	budget_set_bytes(budget, t, 0, 0);
	memmove(t, t + 1, (char *)(budget->threads.data + --budget->threads.len) - (char *)t);
}

int budget_birth(struct budget *budget, pid_t tid, uint64_t now_ns)
{
	const size_t at = budget_position(budget, tid);
	struct budget_thread *t = find(budget, tid);

	if (t) {
		t->reborn = t->state == BUDGET_EXITED;
		return 0;
	}
	if (vec_reserve(&budget->threads, 1))
		return -ENOMEM;
	t = &budget->threads.data[at];
	memmove(t + 1, t, (char *)(budget->threads.data + budget->threads.len++) - (char *)t);
	*t = (struct budget_thread){
		.tid = tid,
		.state = BUDGET_UNTRACED,
		.changed_ns = now_ns,
		.max_ring = budget->bytes,
		.patience_ns = BUDGET_PATIENCE_NS,
	};
	return 0;
}

int budget_exit(struct budget *budget, pid_t tid, uint64_t now_ns)
{
	struct budget_thread *t = find(budget, tid);

	if (!t)
		return -ENOENT;
	t->reborn = false;
	if (t->state == BUDGET_EXITED)
		return 0;
	t->state = BUDGET_EXITED;
	t->exited_ns = now_ns;
	if (!t->ring && !t->tail)
		remove_thread(budget, t);
	return 0;
}

/* Moves @old towards @sample with a time constant of one second. */
static uint64_t smooth(uint64_t old, double sample, uint64_t period_ns)
{
	const double weight = (double)period_ns / ((double)period_ns + (double)BUDGET_NS_PER_S);

	return (uint64_t)((double)old + (sample - (double)old) * weight);
}

int budget_activity(struct budget *budget, pid_t tid, uint64_t pt_bytes, uint64_t oncpu_ns,
		    uint64_t period_ns)
{
	struct budget_thread *t = find(budget, tid);
	double scale;

	if (!t)
		return -ENOENT;
	t->written += pt_bytes;
	if (!period_ns)
		return 0;
	scale = (double)BUDGET_NS_PER_S / (double)period_ns;
	if (!t->measured) {
		t->bytes_per_s = (uint64_t)((double)pt_bytes * scale);
		t->oncpu_ns = (uint64_t)((double)oncpu_ns * scale);
		t->measured = true;
		return 0;
	}
	t->bytes_per_s = smooth(t->bytes_per_s, (double)pt_bytes * scale, period_ns);
	t->oncpu_ns = smooth(t->oncpu_ns, (double)oncpu_ns * scale, period_ns);
	return 0;
}

int budget_refused(struct budget *budget, pid_t tid, uint64_t max_ring)
{
	struct budget_thread *t = find(budget, tid);

	if (!t)
		return -ENOENT;
	t->max_ring = size_floor_pow2(max_ring);
	if (t->ring <= t->max_ring)
		return 0;
	budget_set_bytes(budget, t, 0, t->tail);
	if (t->state == BUDGET_LIVE)
		t->state = BUDGET_UNTRACED;
	return 0;
}

int budget_stored(struct budget *budget, pid_t tid, uint64_t bytes)
{
	struct budget_thread *t = find(budget, tid);

	if (!t)
		return -ENOENT;
	if (t->state != BUDGET_EXITED || bytes > t->ring + t->tail)
		return -EINVAL;
	budget_set_bytes(budget, t, 0, bytes);
	if (!bytes)
		remove_thread(budget, t);
	return 0;
}

int budget_tail(struct budget *budget, pid_t tid, uint64_t bytes)
{
	struct budget_thread *t = find(budget, tid);

	if (!t)
		return -ENOENT;
	if (bytes < t->tail)
		budget_set_bytes(budget, t, t->ring, bytes);
	return 0;
}

int budget_forget(struct budget *budget, pid_t tid)
{
	struct budget_thread *t = find(budget, tid);

	if (!t)
		return -ENOENT;
	remove_thread(budget, t);
	return 0;
}

size_t budget_threads(const struct budget *budget, const struct budget_thread **threads)
{
	*threads = budget->threads.data;
	return budget->threads.len;
}

uint64_t budget_bytes(const struct budget *budget)
{
	return budget->bytes;
}

uint64_t budget_used(const struct budget *budget)
{
	return budget->used;
}

uint64_t budget_lookback_ns(const struct budget_thread *t)
{
	double ns;

	if (!t->bytes_per_s)
		return UINT64_MAX;
	ns = (double)t->ring / (double)t->bytes_per_s * (double)BUDGET_NS_PER_S;
	return ns < 0x1p63 ? (uint64_t)ns : UINT64_MAX;
}
