/* SPDX-License-Identifier: GPL-2.0-only */
/* What the parts of a session share; private to session*.c. */
#ifndef PTBPF_RECORD_SESSION_STATE_H
#define PTBPF_RECORD_SESSION_STATE_H

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/clock.h"
#include "base/vec.h"
#include "image/object.h"
#include "record/aux_ring.h"
#include "record/budget.h"
#include "record/evaluator.h"
#include "record/finisher.h"
#include "record/maps.h"
#include "record/resolve.h"
#include "record/session.h"
#include "record/source.h"
#include "snapshot/meta.h"
#include "snapshot/recording.h"

/* One probed place: a trigger's site in a mapping of a process. */
struct session_site {
	size_t trigger;
	uint32_t attachment;
	uint64_t ip, offset; /* run-time address; file offset */
	uint64_t entry;      /* run-time address that the trigger names */
};

/* One executable mapping as last seen; its object stays open for symbols. */
struct session_mapping {
	struct maps_entry entry;
	struct object *object; /* shared by path through the session; NULL: no file */
	uint64_t map_ns;       /* of its MAP event */
	bool seen;             /* by the newest read of the maps */
};

struct session_process {
	pid_t pid;
	bool exited;
	bool entered; /* its libraries are mapped: a symbol that is nowhere is an error now */
	char comm[16];
	VEC(struct session_mapping) mappings;
	VEC(struct session_site) sites;
	VEC(uint64_t) starts;          /* addresses of --start-at */
	uint64_t images_made;          /* names them */
	VEC(struct shot_image) images; /* unbacked code, saved while the memory was there */
};

/* Where a section ran that no stop may fall into: the ring goes on there as a stretch of its own.
 */
struct session_gap {
	uint64_t offset; /* head of the ring */
	uint64_t begin_ns, length_ns;
};

struct session_thread {
	pid_t pid, tid, ns_pid, ns_tid;
	char comm[16];
	bool exited, announced; /* announced: born while the session watched */
	bool has_ring;
	struct aux_ring ring;
	enum recording_join join; /* how the present stretch began */
	uint64_t stretch_ns, gap_ns;
	VEC(struct session_gap) gaps; /* inside the present stretch, by offset */
	recording_chunks tails;       /* older stretches that were kept, oldest first */
	uint64_t taken_ns;            /* when its ring was taken; 0: never */
	uint64_t untraced_ns;
	uint64_t last_head, last_oncpu_ns, last_activity_ns; /* at the last balance */
	uint64_t exit_ns;
	uint64_t instructions, branches, stops; /* of rings that are gone */
};

struct session_object {
	char *path;
	uint64_t dev, ino;
	struct object *object;
};

struct session {
	const struct session_options *options;
	struct source *source;
	struct evaluator *evaluator; /* NULL: the source evaluates */
	struct ptbpf_fire_page *fires;
	bool own_fires; /* the page is our mapping, not the evaluator's */
	struct budget *budget;
	struct finisher *finisher;
	struct shot *shot; /* taken, not handed over yet */

	VEC(struct session_process) processes;
	VEC(struct session_thread) threads;
	VEC(struct session_object) objects;
	recording_events events;
	VEC(struct meta_budget_event) budget_events;
	VEC(char *) warnings;
	VEC(struct clock_pair) clock_pairs;
	VEC(uint32_t) attachments; /* per trigger: how many sites */
	struct resolve_nearest nearest;

	int epoll_fd, signal_fd, timer_fd;
	sigset_t former_mask; /* before the session blocked what it reads from signal_fd */
	pid_t command_pid;    /* 0: attached */
	bool tracing;         /* --start-at was reached, or was not given */
	bool detached;        /* everything was recorded; waiting for the command's end */
	bool ended;           /* SOURCE_END came */
	bool done;
	unsigned int interrupts;
	uint64_t linger_until_ns;   /* after Ctrl-C the command's end is awaited so long; 0: not */
	uint64_t start_ns, wake_ns; /* wake_ns: a fire was heard of, the source's word is due */
	uint64_t sequence;          /* snapshots begun */
	uint64_t fires_seen;
	uint64_t last_fire; /* number of the newest that was dealt with */
	uint64_t births, exits, budget_peak;
	int command_status;
	enum exit_code failure; /* EXIT_DONE until something failed */
	struct source_stats stats;
};

/* --- session_targets.c: processes, mappings, probes --- */
struct session_process *session_process_find(struct session *session, pid_t pid);
/* Creates it on first sight, or anew when the pid's former bearer is dead. NULL: -ENOMEM. */
struct session_process *session_process_get(struct session *session, pid_t pid);
/* Reads the maps again: records new executable mappings, probes them. 0 or -errno (logged). */
int session_process_scan(struct session *session, struct session_process *process, uint64_t now_ns);
/* exec: nothing of before is left. */
void session_process_reset(struct session *session, struct session_process *process);
/* All start-up objects are mapped: every trigger must have a place, or be able to get one. */
int session_process_entered(struct session *session, struct session_process *process);
/* Probes what the triggers, and --start-at, find in a new mapping that has an object. */
int session_probe_mapping(struct session *session, struct session_process *process,
			  const struct session_mapping *mapping);
/* How ptbpf itself reaches a file that is mapped in @pid, whatever its mount namespace. */
void session_reachable_path(pid_t pid, const struct maps_entry *entry, char *buf, size_t size);
/* Ended without a fire: names the triggers that were never anywhere. */
void session_targets_report_missing(const struct session *session);
/* Saves code that is in no file while the memory is there. */
void session_process_save_images(struct session_process *process);
/* Dead processes without a thread that is still of interest, and old mappings, are forgotten. */
void session_targets_purge(struct session *session);
void session_targets_fini(struct session *session);

/* --- session_threads.c: threads, rings, budget --- */
struct session_thread *session_thread_find(struct session *session, pid_t tid);
int session_thread_born(struct session *session, const struct source_event *event);
void session_thread_exited(struct session *session, const struct source_event *event);
/* Dead, and nothing of its history is kept. */
bool session_thread_is_forgotten(const struct session_thread *thread);
void session_thread_gap(struct session *session, const struct source_event *event);
/*
 * Bytes read from the thread's ring up to its head, cut where gaps lie, to the end of @out, which
 * owns them then (on failure nobody does). 0, -ENOMEM.
 */
int session_add_stretches(const struct session_thread *thread, struct recording_chunk *chunk,
			  recording_chunks *out);
/* Carries out what the budget wants; @rebalance: activity counts too. */
int session_balance(struct session *session, uint64_t now_ns, bool rebalance);
/* Tells the budget how active each thread was since the last time. */
void session_measure(struct session *session, uint64_t now_ns);
/* --full-execution: 0, or the -errno of a trace file that cannot be written any more (logged). */
int session_check_spools(struct session *session);
/* --start-at was reached: rings for all. */
int session_start_tracing(struct session *session, uint64_t now_ns);
void session_threads_fini(struct session *session);

/* --- session_shot.c: one snapshot --- */
/* Everything is stopped. @fire: NULL for "exit" or "interrupt", which @kind says. 0 or -errno. */
int session_shoot(struct session *session, const struct ptbpf_fire *fire, const char *kind,
		  uint64_t now_ns);

/* The shot that was taken goes to be written: may wait, so targets run again before. */
void session_hand_over(struct session *session);

/* Keeps the message for snapshot.json and logs it. */
void session_warn(struct session *session, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
