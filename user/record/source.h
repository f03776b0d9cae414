/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where PT bytes come from. Two sources: `soft` (the software tracer, a process of its own) and
 * `hw` (the kernel's intel_pt). A session drives either through this interface and never knows
 * which.
 *
 * Threads are reported before they run an instruction where the source can hold them: a held thread
 * stays stopped until source_release(). Without a ring a thread runs untraced at full speed.
 */
#ifndef PTBPF_RECORD_SOURCE_H
#define PTBPF_RECORD_SOURCE_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/aux_ring.h"

struct ptbpf_fire_page;
struct source;

enum soft_step { SOFT_STEP_BLOCK, SOFT_STEP_INSN, SOFT_STEP_VERIFY };

struct source_config {
	enum soft_step soft_step;
	bool multi_thread;
	bool follow_forks;
	bool step_clock; /* TSC packets count steps, not time: deterministic fixtures */
	bool no_aslr;    /* launched command without address randomisation (fixtures) */
	bool evaluates;  /* no BPF: the source evaluates triggers by address itself */
	const char
		*insn_log; /* tests: directory for TID.insns (u64 addresses as executed), or NULL */
	const char *user;  /* NULL, or run the command as this user */
	sigset_t signal_mask;          /* the command\'s, whatever the session blocks itself */
	struct ptbpf_fire_page *fires; /* shared; the source watches it at every stop */
	const struct ptbpf_trigger *triggers; /* with evaluates */
	size_t n_triggers;
};

enum source_event_kind {
	SOURCE_EXEC,    /* a process runs a new program: mappings are fresh. Held. */
	SOURCE_BIRTH,   /* a new thread. Held. */
	SOURCE_FORK,    /* a new process (followed children only). Held. */
	SOURCE_MAPPED,  /* the process's executable mappings changed. The mapping thread is held. */
	SOURCE_EXIT,    /* a thread is gone; its ring is final */
	SOURCE_COMM,    /* the thread's name changed */
	SOURCE_FIRE,    /* every traced thread is stopped: rings are stable until source_resume() */
	SOURCE_EXITING, /* a process's last thread is about to end; memory still there. Held. */
	SOURCE_UNMAPPING, /* executable memory is about to go or change: the last look. Held. */
	SOURCE_ENTRY,  /* a launched or exec'ed program reached its ELF entry: libraries are mapped.
			  Held. */
	SOURCE_START,  /* a thread reached an address of set_start(). All targets are held. */
	SOURCE_END,    /* no target is left; status holds the command's wait status */
	SOURCE_GAP,    /* tracing of a thread stopped for a while: class and length */
	SOURCE_FAILED, /* the source itself broke; text says what */
};

/* How a thread's newest end stands to the fire. */
struct source_cut {
	uint64_t lost_insns;  /* executed before the fire, but not in the ring */
	uint64_t extra_insns; /* in the ring, but executed after the fire */
	uint64_t error_ns;    /* uncertainty of the cut */
};

struct source_event {
	enum source_event_kind kind;
	pid_t pid, tid;
	pid_t parent_pid, parent_tid;
	uint64_t time_ns;
	int status; /* EXIT, END: wait(2) status; -1 unknown (another's child) */
	char comm[16];
	char text[160];        /* FAILED: the reason; GAP: the class */
	struct source_cut cut; /* FIRE: of the firing thread */
	uint64_t fire;         /* FIRE: the fire's sequence number */
	uint64_t length_ns;    /* GAP */
	uint64_t offset; /* GAP of class "atomic": a new stretch begins at this head of the ring */
};

struct source_target {
	char *const *argv; /* a command, or */
	const pid_t *pids; /* processes to attach (or single threads without multi_thread) */
	size_t n_pids;
};

/*
 * Trigger addresses in one process (replaces the former set). A source that evaluates itself fires
 * there; with BPF the soft source needs them too: it never runs past one, so that the trace can end
 * exactly there, and takes the int3 out of forked children that are not followed.
 */
struct source_probe {
	uint64_t ip;
	uint32_t trigger;
	uint32_t attachment;
};

struct source_stats {
	uint64_t instructions, branches, stops, fallback_steps, disagreements;
	uint64_t verified;    /* verify: plans that single steps confirmed */
	uint64_t stepping_ns; /* wall time with at least one thread being stepped */
	/* Wall time of a stepped instruction over that of a loop of ordinary instructions that was
	 * timed at full speed at the start; 0: not known. A program that waits for memory is up to
	 * three times slower at full speed than the loop, so it loses that much less. */
	double slow_down;
};

struct source_ops {
	const char *name; /* "soft", "hw" */
	/* Starts the command held before its first instruction, or attaches; -errno, @why a text.
	 */
	int (*start)(struct source *source, const struct source_target *target, char *why,
		     size_t why_size);
	int (*fd)(const struct source *source);
	/* 1: *event filled; 0: none now; -errno: the source is gone. */
	int (*next)(struct source *source, struct source_event *event);
	int (*release)(struct source *source, pid_t tid);
	/* Traces @tid into @ring from now on (the source borrows it until ring_take or its exit).
	 */
	int (*ring_give)(struct source *source, pid_t tid, struct aux_ring *ring);
	/* Stops tracing @tid; afterwards the ring is stable and no longer used. With @hold the
	 * thread stays stopped for a ring_give that follows; else it runs on untraced. */
	int (*ring_take)(struct source *source, pid_t tid, bool hold);
	int (*set_probes)(struct source *source, pid_t pid, const struct source_probe *probes,
			  size_t n);
	/* --start-at: untraced threads of @pid run at full speed to the first of these addresses
	 * (debug registers, at most four), where SOURCE_START is reported before it executes; n =
	 * 0: off. */
	int (*set_start)(struct source *source, pid_t pid, const uint64_t *addrs, size_t n);
	/* Stops every traced thread as a fire would (Ctrl-C: the snapshot comes first). */
	int (*freeze)(struct source *source);
	/* After SOURCE_FIRE or freeze: go on tracing. */
	int (*resume)(struct source *source);
	/* Full speed for all, nothing left behind; a launched command's status is still awaited. */
	int (*detach)(struct source *source);
	int (*cut)(struct source *source, pid_t tid, struct source_cut *cut);
	int (*stats)(struct source *source, struct source_stats *stats);
	void (*close)(struct source *source);
};

/* What every source begins with. */
struct source {
	const struct source_ops *ops;
};

/* The software tracer: forks the stepper process. 0 or -errno. Needs no privilege for own programs.
 */
int soft_source_open(const struct source_config *config, struct source **out);

#endif
