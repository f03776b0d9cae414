/* SPDX-License-Identifier: GPL-2.0-only */
/* snapshot.json: what a snapshot says about itself. Versioned; readers ignore unknown members. */
#ifndef PTBPF_SNAPSHOT_META_H
#define PTBPF_SNAPSHOT_META_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/vec.h"

#define META_VERSION 1

struct meta_trigger {
	char *kind;   /* sym, addr, exit, interrupt, ... : what ended this snapshot */
	char *spec;   /* as given; NULL for exit and interrupt */
	char *symbol; /* where it was, FUNC+OFF; NULL unknown */
	pid_t pid, tid, ns_pid, ns_tid;
	char comm[16];
	uint64_t ip, args[6], time_ns, hit;
};

struct meta_thread {
	pid_t pid, tid, ns_pid, ns_tid;
	char comm[16];
	bool fired, exited, untraced;
	uint64_t ring, tail, bytes; /* ring and tail size; PT bytes kept in the snapshot */
	bool wrapped;
	uint64_t lookback_ns;
	uint64_t instructions, branches, stops;
	uint64_t lost_insns, extra_insns, cut_error_ns; /* around the fire */
	uint64_t untraced_ns;
};

struct meta_budget_event {
	uint64_t time_ns;
	pid_t tid;
	uint64_t from, to, tail, gap_ns; /* ring sizes; from 0: given, to 0: taken */
};

struct meta_count {
	char *spec;
	uint64_t hits, fires, drops;
	uint32_t attachments;
};

struct meta {
	uint32_t version;
	uint64_t sequence; /* of this snapshot in its session, from 1 */
	struct meta_trigger trigger;
	VEC(struct meta_count) counts;
	VEC(struct meta_thread) threads;
	VEC(struct meta_budget_event) budget_events;
	VEC(char *) warnings;
	uint64_t budget_requested, budget_bytes, budget_used, budget_peak;
	char *balance;
	char *source;    /* soft, hw */
	char *soft_step; /* insn, block, verify; NULL for hw */
	char *evaluator; /* bpf, soft, perf-breakpoint */
	char *host, *kernel, *cpu;
	char *command; /* or NULL when attached */
	bool target_exited;
	int target_status; /* wait(2) status, with target_exited */
	struct clock_conv clock;
	uint64_t wall_time_ns; /* CLOCK_REALTIME at the snapshot */
	uint64_t thread_births, thread_exits, untraced_threads;
	uint64_t dropped_records;
	uint64_t instructions, stops, fallback_steps, disagreements;
	uint64_t verified; /* --soft-step verify: plans that single steps confirmed */
	double slow_down;
	char *unit; /* "ns", or "steps" with the step clock */
};

void meta_fini(struct meta *meta);
/* 0 or -errno. */
int meta_write(int dir_fd, const char *name, const struct meta *meta);
/* 0 or -errno, with @why. Everything missing stays zero. */
int meta_read(int dir_fd, const char *name, struct meta *meta, char *why, size_t why_size);

#endif
