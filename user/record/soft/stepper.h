/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The stepper: a process of its own that ptraces the targets, steps the threads that have a ring
 * and encodes what they did. Shared by the files of this folder only.
 *
 * One thread is stepped at a time, on the CPU that the stepper itself runs on; so a fire stops
 * every stepped thread where it stands. Threads inside the kernel are not waited for: they cannot
 * run an instruction of theirs before they trap again.
 */
#ifndef PTBPF_RECORD_SOFT_STEPPER_H
#define PTBPF_RECORD_SOFT_STEPPER_H

#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <sys/user.h>

#include "../../../bpf/ptbpf_abi.h"
#include "base/clock.h"
#include "base/vec.h"
#include "record/soft/block.h"
#include "record/soft/code.h"
#include "record/soft/encoder.h"
#include "record/soft/wire.h"
#include "record/trigger_match.h"

#define STEPPER_STARTS 3 /* addresses of set_start(); the fourth register is for the entry */

struct rseq_section {
	uint64_t start, end, abort;
	uint32_t aborts; /* how often a stop fell into it */
};

struct soft_process {
	struct soft_process *next;
	pid_t pid;
	unsigned int threads; /* records in the thread table */
	unsigned int live;    /* of them, not yet at their exit */
	unsigned int still;   /* of them, sure to leave the process's memory alone */
	/* Runs a plan that relies on that: the others stay still until it stops. */
	const struct soft_thread *alone;
	bool is_command;
	bool memory_is_shared; /* with another process: vfork, CLONE_VM */
	bool mode_32;
	struct code code;
	uint64_t entry;                  /* ELF entry not reached yet; 0 */
	VEC(struct source_probe) probes; /* by ip */
	uint64_t starts[STEPPER_STARTS];
	size_t n_starts;
	bool starts_changed;
	VEC(struct rseq_section) sections;
	/* SIGTRAP as the program set it; a forced trap may have reset the kernel's copy. */
	struct {
		bool known, ignored, caught, lost;
		uint64_t action[4]; /* struct kernel_sigaction */
	} trap;
};

#define VERIFY_EVENTS BLOCK_MAX_EVENTS

/* verify mode: the predictor's word on the instruction, and on the plan, being stepped. */
struct verify {
	bool outcome, has_event;
	struct block_event event;
	uint64_t next;
	bool planned;
	uint64_t stops[BLOCK_REGISTERS];
	size_t n_stops;
	uint64_t instructions;
	size_t n_events;
	struct block_event events[VERIFY_EVENTS];
};

enum thread_state {
	THREAD_RUNNING, /* not in a ptrace stop */
	THREAD_STOPPED,
	THREAD_LISTENING, /* group stop */
	THREAD_GONE,
};

/* What a running thread was told to do; says how its next stop is read. */
enum thread_run {
	RUN_FREE,      /* full speed, untraced */
	RUN_STEP,      /* one instruction at ip */
	RUN_SYSCALL,   /* the system call instruction at ip */
	RUN_HANDLER,   /* a signal is delivered to a handler */
	RUN_PLAN,      /* to one of a plan's stops */
	RUN_PAST_REP,  /* to the end of the string instruction at ip */
	RUN_ATOMIC,    /* through an rseq section */
	RUN_REDELIVER, /* into the stop for a signal that was sent again */
	RUN_LEAVE,     /* out of a system call that an event stopped in */
};

struct soft_thread {
	struct soft_thread *hash_next;
	struct soft_process *process;
	pid_t tid, pid, parent_pid, parent_tid;
	enum thread_state state;
	enum thread_run run;
	bool known;       /* its birth was seen; before that it only waits */
	bool let_go;      /* a child that is not followed: detached at its first stop */
	bool newborn;     /* its first stop is still to come */
	bool hold_event;  /* until release */
	bool hold_take;   /* until ring_give */
	bool exiting;     /* at or past PTRACE_EVENT_EXIT */
	bool kicked;      /* PTRACE_INTERRUPT is on its way */
	bool interrupted; /* it arrived: a system call may have been cut short by it */
	bool in_syscall;  /* stopped inside one: the return traps before user code */
	bool in_vfork;    /* of these, one that waits for its child first */
	bool restarting;  /* a system call is about to be restarted: ip is not where it goes on */
	bool drop;        /* the run in flight is not recorded */
	bool probed;      /* the probes at ip have been evaluated */
	bool regs_valid;
	bool own_tf, tf_due; /* the program single-steps itself */
	bool no_block;       /* no debug register is to be had */
	bool unmap_told;     /* of the system call at ip: SOURCE_UNMAPPING was reported */
	uint64_t handler_ip; /* where the newest signal handler begins */
	uint64_t ip;         /* at the last stop */
	int signal;          /* to deliver when it goes on */
	bool signal_moved;   /* not the signal of the present stop: info is to be set */
	siginfo_t info;      /* of the last signal stop */
	struct user_regs_struct regs;
	struct code_insn code; /* at ip, with RUN_STEP */

	/* tracing */
	struct aux_ring ring; /* header NULL: none */
	struct encoder encoder;
	FILE *insn_log;
	struct source_cut cut;
	uint64_t gap_from_ns, seen_ns;

	/* block stepping */
	struct block_plan *plan;
	struct verify *verify; /* verify mode only */
	uint64_t dr[BLOCK_REGISTERS];
	bool dr_on;
	bool still; /* in a ptrace stop, or in a system call that writes nothing */

	/* hygiene */
	uint64_t sigmask;
	bool trap_blocked; /* SIGTRAP, as the program sees it */
	bool mask_lost;    /* the kernel unblocked it */
	bool trap_held;    /* a SIGTRAP of the program's waits for its mask */
	siginfo_t trap_info;
	uint64_t rseq; /* address of its struct rseq; 0: none */
	uint64_t rseq_cs;
	bool rseq_stale;
	bool pinned;
	cpu_set_t affinity;   /* the program's own, while pinned */
	int run_tick;         /* when the run in flight began */
	bool at_syscall_stop; /* after a system call of the stepper's own */
	bool died;            /* its end was seen in passing, with exit_status */
	bool unpinnable;
	uint64_t new_action[4], new_mask, new_flags; /* of the system call in flight */
	int exit_status;
	uint64_t nr, args[6]; /* of the system call in flight */
};

#define STEPPER_BUCKETS 1024u

#define SIGNALS_OWN 11u

struct signals {
	struct sigaction actions[SIGNALS_OWN];
	sigset_t mask;
};

struct stepper {
	const struct source_config *config;
	pid_t front;
	int command_fd, event_fd;
	struct signals signals;
	union wire_payload *payload; /* of the request being served */
	int tick_us;                 /* of the timer, 0: off */
	int ticks_seen, idle_ticks;
	VEC(struct source_event) outbox;
	size_t outbox_sent;
	struct soft_thread *buckets[STEPPER_BUCKETS];
	struct soft_process *processes;
	VEC(struct soft_thread *) stepped; /* threads with a ring */
	size_t cursor;
	pid_t stepped_tid; /* the thread that was stepped last */
	size_t threads;
	uint64_t resumed_ns; /* when the newest run began, about */
	uint64_t steps;      /* instructions of all threads: the step clock */
	bool frozen;
	bool held_back; /* an untraced thread waits for one that runs alone */
	bool hold_all;  /* a start address was reached: untraced threads wait too */
	uint64_t detached_ns;
	size_t running; /* while detaching: threads that have not stopped */
	bool detached;  /* nothing is traced any more */
	bool front_gone;
	bool end_sent;
	uint64_t fires_seen;
	int cpu; /* that stepping happens on; -1: none yet */
	cpu_set_t pinned_mask;
	pid_t command;
	bool command_ended;
	int command_status;
	struct source_stats stats;
	struct clock_pair clock_start;
	double full_speed_ns; /* of one instruction, calibrated */
	uint64_t random;
	struct trigger_match matches[PTBPF_MAX_TRIGGERS]; /* with config->evaluates */
};

/* stepper.c */
int stepper_main(const struct source_config *config, const struct source_target *target,
		 pid_t front, int command_fd, int event_fd);
/* What the command must find as the session had it. */
void signals_restore(const struct signals *signals);
void stepper_fill_stats(const struct stepper *stepper, struct source_stats *stats);
/* Waits a while for threads that are being let go. */
void stepper_drain(struct stepper *stepper);
void stepper_send(struct stepper *stepper, const struct source_event *event);
/* set_start(): an address was reached; everything stops until resume. */
void stepper_hold_all(struct stepper *stepper);
void stepper_tell(struct stepper *stepper, const struct soft_thread *thread,
		  enum source_event_kind kind);

/* threads.c: the tables */
struct soft_thread *thread_find(struct stepper *stepper, pid_t tid);
struct soft_thread *thread_add(struct stepper *stepper, pid_t tid);
void thread_remove(struct stepper *stepper, struct soft_thread *thread);
struct soft_process *process_find(struct stepper *stepper, pid_t pid);
struct soft_process *process_add(struct stepper *stepper, pid_t pid);
/* Joins thread and process; the process is made when it is new. 0 or -errno. */
int thread_join(struct stepper *stepper, struct soft_thread *thread, pid_t pid);
typedef void (*thread_fn)(struct stepper *stepper, struct soft_thread *thread);
void thread_set_state(struct soft_thread *thread, enum thread_state state);
void thread_for_each(struct stepper *stepper, thread_fn fn);
static inline bool thread_is_traced(const struct soft_thread *thread)
{
	return thread->ring.header != NULL;
}

/* requests.c */
void requests_serve(struct stepper *stepper);

/* launch.c */
int launch_command(struct stepper *stepper, char *const *argv, char *why, size_t why_size);
int attach_process(struct stepper *stepper, pid_t pid, char *why, size_t why_size);

/* births.c: threads and processes that come and go */
void births_event(struct stepper *stepper, struct soft_thread *parent, int event);
void births_first_stop(struct stepper *stepper, struct soft_thread *thread);
void births_exec(struct stepper *stepper, struct soft_thread *thread);
void births_gone(struct stepper *stepper, struct soft_thread *thread, int status);
/* The process that a thread belongs to; 0: no such thread. */
pid_t births_tgid(pid_t tid);
pid_t births_tracer(pid_t tid);
bool births_is_dying(pid_t tid);
/* A stop of a thread that nobody announced: kept until its creator's event, or for a while. */
void births_unknown(struct stepper *stepper, pid_t tid, int status);
void births_adopt(struct stepper *stepper);

/* stops.c: what a wait status means */
void stop_handle(struct stepper *stepper, struct soft_thread *thread, int status);

/* advance.c: what a stopped thread does next */
void thread_go(struct stepper *stepper, struct soft_thread *thread);
bool thread_may_go(const struct stepper *stepper, const struct soft_thread *thread);
/* An untraced thread that stands still for no reason goes on. */
void thread_go_if_free(struct stepper *stepper, struct soft_thread *thread);
int thread_fetch_regs(struct soft_thread *thread);
int thread_store_regs(struct soft_thread *thread);
void thread_kick(struct soft_thread *thread);
/* Resumes by @request (PTRACE_CONT, PTRACE_SINGLESTEP, ...). */
void thread_resume(struct stepper *stepper, struct soft_thread *thread, int request,
		   enum thread_run run, int sig);

/* record.c: what happened, into the ring */
/* The ring is taken over. 0, -ENOMEM. */
int record_give(struct stepper *stepper, struct soft_thread *thread, const struct aux_ring *ring);
void record_take(struct stepper *stepper, struct soft_thread *thread);
/* Tracing ends before the instruction at @ip, if it was on. */
void record_end_at(struct soft_thread *thread, uint64_t ip);
void record_begin(struct soft_thread *thread, uint64_t ip);
/* The instruction @code at thread->ip was executed and led to @to. */
void record_step(struct stepper *stepper, struct soft_thread *thread, const struct code_insn *code,
		 uint64_t to);
/* The path that a plan took from thread->ip. */
void record_path(struct stepper *stepper, struct soft_thread *thread,
		 const struct block_path *path);
/* One instruction that ends tracing by itself: counted and logged only. */
void record_log(struct stepper *stepper, struct soft_thread *thread, uint64_t ip);
void record_gap(struct stepper *stepper, struct soft_thread *thread, const char *class,
		uint64_t since_ns);

/* blocks.c: debug registers and plans */
/* Starts a run over a plan. 0; -EAGAIN: single step. */
int blocks_start(struct stepper *stepper, struct soft_thread *thread);
/* The run ended at @ip; records what was passed. */
void blocks_finish(struct stepper *stepper, struct soft_thread *thread, uint64_t ip);
/* Stops before these addresses, no others. 0 or -errno. */
int debug_set(struct soft_thread *thread, const uint64_t *addrs, size_t n);
void debug_clear(struct soft_thread *thread);
/* Lets the instruction at the present ip execute although a register may stand there. */
int debug_pass(struct soft_thread *thread);
/* Barriers of the process anew, after probes, entry or starts changed. */
void blocks_set_barriers(struct soft_process *process);
/* verify: what the predictor says before the step, and whether the step agrees. */
void blocks_predict(struct soft_thread *thread);
void blocks_verify(struct stepper *stepper, struct soft_thread *thread,
		   const struct code_insn *code, uint64_t to);

/* fires.c */
/* A fire that is not handled yet and lies in the run that @thread just ended: its address. */
bool fires_hit(struct stepper *stepper, struct soft_thread *thread, uint64_t *ip);
void fires_check(struct stepper *stepper);
/* evaluates: true when the thread stands at a probe and its trigger fired. */
bool fires_evaluate(struct stepper *stepper, struct soft_thread *thread);
bool fires_is_probe(const struct soft_thread *thread);
/* Ends the trace of all stepped threads where they stand; nothing runs until resume. */
void fires_freeze(struct stepper *stepper);
void fires_resume(struct stepper *stepper);

/* syscalls.c: system calls that the stepper must know about */
/* Does the one that is being stepped over write to no memory of the process, ever? */
bool syscall_writes_nothing(const struct soft_thread *thread);
void syscall_before(struct soft_thread *thread);
/* Will the system call at ip take executable memory away, or change what it holds? */
bool syscall_unmaps_code(struct soft_thread *thread);
void syscall_after(struct stepper *stepper, struct soft_thread *thread);

/* traps.c: SIGTRAP's mask and disposition */
void traps_read_mask(struct soft_thread *thread);
void traps_set_mask(struct soft_thread *thread, uint64_t mask);
void traps_read_process(struct soft_process *process);
/* Asks an attached process for its SIGTRAP handler, once. */
void traps_learn(struct soft_thread *thread);
/* Puts back what forced traps changed, before something can see it. */
void traps_restore(struct soft_thread *thread);
void traps_restore_mask(struct soft_thread *thread);
/* SIGTRAP must get through to the stepper although the program blocks it. */
void traps_unblock(struct soft_thread *thread);
/* Gives a held SIGTRAP back to the kernel's queue: to be called just before resuming. */
void traps_requeue(struct soft_thread *thread);
/* A forced trap was taken: what it did to mask and disposition. */
void traps_taken(struct soft_thread *thread);
/* PUSHF pushed the trap flag that single-stepping sets. */
void traps_fix_pushf(struct soft_thread *thread);
/* A handler was entered: the program's own trap flag belongs into the saved flags. */
void traps_save_flag(struct soft_thread *thread);
#define UC_FLAGS 176u /* offsetof(struct ucontext, uc_mcontext.flags), the kernel's */
bool traps_signal_is_dropped(const struct soft_process *process, int sig);
/* The signals that the thread takes as soon as it goes on. */
enum traps_pending { TRAPS_PENDING_NONE, TRAPS_PENDING_IGNORED, TRAPS_PENDING_HANDLED };
enum traps_pending traps_pending(const struct soft_thread *thread);
/* Runs one system call in the stopped thread. Its result, or -errno when it could not run. */
long traps_inject(struct soft_thread *thread, long nr, const uint64_t args[4]);

/* affinity.c */
void affinity_pin(struct stepper *stepper, struct soft_thread *thread);
void affinity_unpin(const struct stepper *stepper, struct soft_thread *thread);
/* A child that inherited its creator's pinned mask gets the creator's own. */
void affinity_inherit(const struct soft_thread *parent, pid_t child);
/* sched_setaffinity and sched_getaffinity returned: the program's mask is what it sees. */
void affinity_after(struct stepper *stepper, struct soft_thread *thread);

/* rseq.c */
void rseq_find(struct soft_thread *thread);
/* True: the thread stands inside an active section and was sent through it. */
bool rseq_pass(struct stepper *stepper, struct soft_thread *thread);

/* detach.c */
/* Lets go what can be let go; to be called again until no thread is left. */
void detach_all(struct stepper *stepper);

#endif
