/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One recording from start to end: source, evaluator, threads, budget, fires, snapshots. It drives
 * the live side and hands each complete snapshot to the caller; it knows nothing of decoding.
 */
#ifndef PTBPF_RECORD_SESSION_H
#define PTBPF_RECORD_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/exit_code.h"
#include "record/budget.h"
#include "record/source.h"
#include "record/trigger.h"

enum source_choice { SOURCE_AUTO, SOURCE_HW, SOURCE_SOFT };

struct session_options {
	char *const *argv; /* the command, or NULL and */
	const pid_t *pids;
	size_t n_pids;

	const struct trigger *triggers; /* none: snapshot at Ctrl-C and at exit */
	size_t n_triggers;
	uint64_t max_snapshots; /* 0: no limit */
	bool multi_thread;
	bool follow_forks;
	bool full_execution;

	uint64_t buffer_requested, buffer; /* as asked; after budget_round() */
	enum budget_balance balance;

	enum source_choice source;
	enum soft_step soft_step;
	bool step_clock, no_aslr; /* fixtures */
	const char *insn_log;     /* tests: directory for the stepped instructions, or NULL */

	const struct trigger *start_at; /* NULL: from the first instruction */
	uint64_t start_after_ns;        /* 0: at once */

	const char *output; /* parent directory of snapshots */
	const char *name;   /* of snapshots: the command's or process's base name is appended */
	const char *user;   /* run the command as this user, or NULL */
	uid_t owner_uid;    /* who shall own the snapshots; (uid_t)-1: no change */
	gid_t owner_gid;

	/*
	 * Called for each snapshot while it is still PART_PATH; perf.data and snapshot.json are
	 * there. May be called from another thread than session_run()'s, one call at a time.
	 * Decodes and adds files; returns 0 or -errno. After it the directory gets its final name.
	 */
	int (*complete)(void *ctx, const char *part_path, const char *final_path);
	/* After the rename, in order of the snapshots. */
	void (*published)(void *ctx, const char *final_path);
	void *ctx;
};

struct session_result {
	uint64_t fires, snapshots;
	bool command_ended;
	int command_status; /* wait(2) status */
	bool aborted;       /* Ctrl-C twice */
};

/* Runs to the end. Every failure has been logged. */
enum exit_code session_run(const struct session_options *options, struct session_result *result);

/* For `plan`: what would be attached and allocated for these options; printed to stdout. */
enum exit_code session_plan(const struct session_options *options);

#endif
