/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How the AUX budget is shared among threads. Pure: no I/O, no clock. Sizes are bytes, all powers
 * of two of pages. Architecture, section 6.
 *
 * The caller reports births, deaths, activity and how each ring did; budget_plan() answers with the
 * ring each thread shall have, as an ordered list of steps (shrinks and drops before grows) that
 * keeps the sum of rings and tails within the budget after every single step.
 */
#ifndef PTBPF_RECORD_BUDGET_H
#define PTBPF_RECORD_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define BUDGET_MIN_RING \
	(16u * 1024) /* a PSB every 4 KiB leaves at least three quarters decodable */
#define BUDGET_MAX_BYTES (1ull << 48)

enum budget_balance { BALANCE_EQUAL, BALANCE_ACTIVITY };

/* Why budget_round() changed a size. */
enum budget_rounding { BUDGET_EXACT, BUDGET_ROUNDED_UP, BUDGET_RAISED_TO_RING, BUDGET_CAPPED };

/* Rule 1: @requested up to a power of two of pages, at least one ring, at most 2^48. */
enum budget_rounding budget_round(uint64_t requested, uint64_t *rounded);

enum budget_state {
	BUDGET_LIVE,
	BUDGET_EXITED,   /* keeps its ring until rule 7 takes it */
	BUDGET_UNTRACED, /* live, no ring: more threads than rings */
};

struct budget_thread {
	pid_t tid;
	enum budget_state state;
	uint64_t ring;        /* bytes; 0: none */
	uint64_t tail;        /* bytes of older history kept beside the ring after a resize */
	uint64_t bytes_per_s; /* measured PT rate, smoothed */
	uint64_t oncpu_ns;    /* on-CPU time per second, smoothed */
	uint64_t exited_ns;   /* when it exited */
	uint64_t changed_ns;  /* when its ring last changed size */

	/* the budget's own */
	uint64_t written;     /* PT bytes since changed_ns, as far as reported */
	uint64_t max_ring;    /* what the machine gives at most */
	uint64_t patience_ns; /* a ring rests as long before it grows or is swapped */
	size_t step;          /* index + 1 of its step in the present plan; 0: none */
	bool measured, grown, reborn;
};

enum budget_step_kind {
	BUDGET_DROP_TAIL, /* forget the tail */
	BUDGET_TAKE,      /* take ring and tail away: an exited thread's, or a live one's that goes
			   * untraced */
	BUDGET_RESIZE, /* from its present size to @ring, keeping the newest @tail bytes at most of
			* what ring and former tail held; ring + tail fits in the room there was */
	BUDGET_GIVE,   /* a first ring of @ring bytes */
};

struct budget_step {
	enum budget_step_kind kind;
	pid_t tid;
	uint64_t ring;
	uint64_t tail;
};

struct budget;

/* @bytes as budget_round() gave it. 0, -EINVAL, -ENOMEM. The caller frees *out. */
int budget_new(uint64_t bytes, enum budget_balance balance, struct budget **out);
void budget_free(struct budget *budget);

/*
 * All idempotent; times are ns of one clock. 0, -ENOMEM, -ENOENT for an unknown tid. The birth of a
 * tid whose former bearer still keeps a ring makes the next plan take that ring first.
 */
int budget_birth(struct budget *budget, pid_t tid, uint64_t now_ns);
int budget_exit(struct budget *budget, pid_t tid, uint64_t now_ns);
/* PT bytes written and on-CPU time since the last call for this thread, @period_ns ago. */
int budget_activity(struct budget *budget, pid_t tid, uint64_t pt_bytes, uint64_t oncpu_ns,
		    uint64_t period_ns);
/*
 * The machine could not give the ring: at most @max_ring from now on for this thread. A ring larger
 * than that counts as gone; the next plan gives a smaller one.
 */
int budget_refused(struct budget *budget, pid_t tid, uint64_t max_ring);
/* The tail is shorter than allowed, or gone (0): what is really kept. */
int budget_tail(struct budget *budget, pid_t tid, uint64_t bytes);
/*
 * An exited thread gave its ring back; all of its history is @bytes of tail now, no more than ring
 * and tail were. 0, -ENOENT, -EINVAL.
 */
int budget_stored(struct budget *budget, pid_t tid, uint64_t bytes);
/* A thread whose ring is no longer of interest at all (its data was read, session over). */
int budget_forget(struct budget *budget, pid_t tid);

/*
 * The steps from the present to the wanted state; the budget assumes that each will be carried out
 * in order. *steps belongs to the budget and is valid until the next call. Called after a birth
 * with @rebalance false only the changes that the birth needs are made; true: activity counts too.
 */
int budget_plan(struct budget *budget, uint64_t now_ns, bool rebalance,
		const struct budget_step **steps, size_t *n);

/* For reports: threads sorted by tid; valid until the next call that changes the budget. */
size_t budget_threads(const struct budget *budget, const struct budget_thread **threads);
uint64_t budget_bytes(const struct budget *budget);
uint64_t budget_used(const struct budget *budget); /* rings and tails */
/* Ring size over PT rate, in ns; UINT64_MAX where no rate was measured. */
uint64_t budget_lookback_ns(const struct budget_thread *thread);

#endif
