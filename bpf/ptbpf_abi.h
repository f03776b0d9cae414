/* SPDX-License-Identifier: Dual BSD/GPL */
/*
 * What BPF programs and the controller share. Fixed-width fields, padding spelled out, no code.
 */
#ifndef PTBPF_ABI_H
#define PTBPF_ABI_H

#ifndef __bpf__
#include <linux/types.h>
#endif

#define PTBPF_MAX_TRIGGERS 64 /* trigger specifications of one session */
#define PTBPF_MAX_FIRES 64    /* fire slots; reused round-robin in multi-snapshot mode */
#define PTBPF_MAX_RATE 4096   /* fires that one rate=N/DUR may allow in its window */
#define PTBPF_COMM_LEN 16

/*
 * struct ptbpf_condition.op; the comparison is unsigned unless SIGNED is or-ed in. A signed one
 * takes an argument from 0x80000000 to 0xffffffff as the negative int that it is: the caller of a
 * function that takes an int leaves the upper half of the register zero.
 */
enum ptbpf_op {
	PTBPF_OP_EQ = 0,
	PTBPF_OP_NE = 1,
	PTBPF_OP_LT = 2,
	PTBPF_OP_LE = 3,
	PTBPF_OP_GT = 4,
	PTBPF_OP_GE = 5,
	PTBPF_OP_SIGNED = 0x100,
};

/* One argN condition; all of a trigger's must hold. */
struct ptbpf_condition {
	__u32 arg; /* 0..5: rdi rsi rdx rcx r8 r9 */
	__u32 op;  /* enum ptbpf_op */
	__u64 value;
};
_Static_assert(sizeof(struct ptbpf_condition) == 16, "ABI");

#define PTBPF_MAX_CONDITIONS 4

/*
 * One trigger's configuration; the array index is the low half of an attachment's cookie, the high
 * half is the attachment's number. Order of evaluation: scope, tid, comm, arguments, after, every,
 * sample, rate (architecture, section 5): a step sees only what passed the steps before it.
 */
struct ptbpf_trigger {
	__u32 flags;               /* PTBPF_TRIGGER_* */
	__u32 tid;                 /* with HAS_TID: in ptbpf's pid namespace */
	char comm[PTBPF_COMM_LEN]; /* with HAS_COMM: NUL-padded exact match */
	__u32 n_conditions;
	__u32 sample_ppm; /* with HAS_SAMPLE: probability in millionths */
	__u64 after;      /* the first AFTER passing hits do not fire; 0: off */
	__u64 every;      /* then each EVERYth fires, the EVERYth first; 0 and 1: each */
	__u64 rate_count; /* at most this many fires (<= PTBPF_MAX_RATE) ... */
	__u64 rate_ns;    /* ... in any window of this length; 0: off */
	struct ptbpf_condition conditions[PTBPF_MAX_CONDITIONS];
};
_Static_assert(sizeof(struct ptbpf_trigger) == 128, "ABI");

#define PTBPF_TRIGGER_HAS_TID 1u
#define PTBPF_TRIGGER_HAS_COMM 2u
#define PTBPF_TRIGGER_HAS_SAMPLE 4u

/* Counted per trigger in the mmapable page. */
struct ptbpf_trigger_stats {
	__u64 hits;  /* evaluations inside the scope */
	__u64 fires; /* hits that passed every condition and won a slot */
	__u64 drops; /* hits that passed but came after the disarm or found their slot in use */
};
_Static_assert(sizeof(struct ptbpf_trigger_stats) == 24, "ABI");

/* One fire. Written by the BPF program in the firing thread, then published by fire_page.published.
 */
struct ptbpf_fire {
	__u64 time_ns; /* CLOCK_MONOTONIC (bpf_ktime_get_ns) */
	__u64 ip;      /* address of the probed instruction; it has not executed */
	__u64 args[6]; /* rdi rsi rdx rcx r8 r9 */
	__u64 sp;
	__u64 hit;     /* this trigger's hit count at the fire, from 1 */
	__u32 trigger; /* index into the trigger table */
	__u32 attachment;
	__u32 pid; /* ptbpf's pid namespace */
	__u32 tid;
	__u32 ns_pid; /* the target's own */
	__u32 ns_tid;
	char comm[PTBPF_COMM_LEN];
	__u64 sequence; /* the fire's number, from 1 */
};
_Static_assert(sizeof(struct ptbpf_fire) == 128, "ABI");

/*
 * The mmapable page(s) through which fires are published; also a plain shared mapping when no BPF
 * is allowed and the stepper evaluates triggers.
 *
 * A hit that passes claims number n = fetch_add(claimed) (single-snapshot mode: compare-and-swap
 * claimed 0 -> 1 over all triggers, so exactly one wins). It takes slot n % PTBPF_MAX_FIRES by
 * setting published[slot] to 0, writes the fire, and then stores published[slot] = n + 1 (release).
 * A reader that sees published[slot] == n + 1 (acquire), copies the fire and sees the same value
 * again has a whole fire. A reader that falls more than PTBPF_MAX_FIRES behind finds larger
 * numbers: the older fires are overwritten. A slot that is still being written when its turn comes
 * again makes the claimant drop its fire: that number never appears.
 * In single-snapshot mode a claimed word that is not 0 is the disarm.
 */
struct ptbpf_fire_page {
	__u64 claimed;
	__u64 single;     /* 1: the first fire disarms all triggers */
	__u64 wake_drops; /* ring-buffer wake-ups that did not fit; the fire itself is not lost */
	__u64 pad[5];
	__u64 published[PTBPF_MAX_FIRES];
	struct ptbpf_fire fires[PTBPF_MAX_FIRES];
	struct ptbpf_trigger_stats stats[PTBPF_MAX_TRIGGERS];
};
_Static_assert(sizeof(struct ptbpf_fire_page) == 64 + 8 * 64 + 128 * 64 + 24 * 64, "ABI");

/* Records of the ring buffer. Each starts with a header; unknown types are skipped by size. */
enum ptbpf_record_type {
	PTBPF_RECORD_WAKE = 1, /* a fire was published */
	PTBPF_RECORD_BIRTH = 2,
	PTBPF_RECORD_EXEC = 3,
	PTBPF_RECORD_COMM = 4,
	PTBPF_RECORD_EXIT = 5,
};

struct ptbpf_record {
	__u32 type; /* enum ptbpf_record_type */
	__u32 size; /* of the whole record */
	__u64 time_ns;
	__u32 pid; /* ptbpf's pid namespace, as tid and parent_tid */
	__u32 tid;
	__u32 ns_pid; /* the target's own */
	__u32 ns_tid;
	__u32 parent_pid;  /* BIRTH: the creator */
	__u32 parent_tid;  /* EXEC: the tid before; not @pid when another thread called exec */
	__u32 exit_code;   /* EXIT: as wait(2)'s status */
	__u32 new_process; /* BIRTH: 1 when the child is not a thread of its parent's process */
	char comm[PTBPF_COMM_LEN]; /* the thread's, at that time */
	__u64 oncpu_ns;            /* EXIT: on-CPU time while it was traced, whole */
};
_Static_assert(sizeof(struct ptbpf_record) == 72, "ABI");

/*
 * One traced thread: the value in task storage, whose presence is the scope. The iterator that
 * lists the traced threads writes these too, with the present running stretch in oncpu_ns.
 */
struct ptbpf_thread {
	__u64 oncpu_ns;       /* on-CPU time since it joined the scope, finished stretches only */
	__u64 switched_in_ns; /* since when it runs; 0: off-CPU */
	__u32 pid;            /* ptbpf's pid namespace */
	__u32 tid;
	__u32 ns_pid; /* the target's own */
	__u32 ns_tid;
};
_Static_assert(sizeof(struct ptbpf_thread) == 32, "ABI");

#endif
