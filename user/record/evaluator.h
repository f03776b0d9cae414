/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The kernel side of a session: BPF programs that evaluate triggers and follow threads. Sole user
 * of the BPF skeletons. Where BPF is not allowed there is no evaluator and the source takes its
 * place.
 */
#ifndef PTBPF_RECORD_EVALUATOR_H
#define PTBPF_RECORD_EVALUATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../../bpf/ptbpf_abi.h"

struct evaluator;

struct evaluator_config {
	const struct ptbpf_trigger *triggers;
	size_t n_triggers; /* <= PTBPF_MAX_TRIGGERS */
	bool single;       /* the first fire disarms all */
	bool follow_forks; /* children of traced processes become traced */
	bool multi_thread; /* new threads of a traced process become traced */
};

/*
 * Loads the programs; nothing is probed yet, and the thread programs are attached by the first
 * evaluator_add_thread(), so that a process forked in between inherits no attachment and all are
 * gone when ptbpf itself is. 0; silent, and the caller goes on without: -EPERM or -EACCES where BPF
 * or uprobes are not allowed, -EOPNOTSUPP where this kernel lacks something (-v tells what); other
 * -errno with one message logged.
 */
int evaluator_open(const struct evaluator_config *config, struct evaluator **out);
/* Detaches and frees everything. NULL is fine. */
void evaluator_close(struct evaluator *evaluator);

/*
 * Scope: only these threads' hits count; children join as the configuration says. Tids as ptbpf
 * sees them; adding twice is fine. 0; -ESRCH: no such thread, or it is dying; -ENOMEM; other
 * -errno.
 */
int evaluator_add_thread(struct evaluator *evaluator, pid_t pid, pid_t tid);
int evaluator_remove_thread(struct evaluator *evaluator, pid_t tid);

/*
 * A uprobe for trigger @trigger at file offset @offset of @path (reachable from ptbpf; for another
 * mount namespace the caller passes /proc/PID/root/... or /proc/PID/map_files/...) in process @pid.
 * *attachment numbers it, the same in the fires. The probe lasts as long as a traced thread of the
 * process lives: the kernel ties it to one thread, and evaluator_poll() moves it when that thread
 * ends. Probing one place twice gives the same attachment and no second hit; so does a place that
 * was probed before exec and is in the new program as well. 0; -ESRCH: the process is gone; other
 * -errno, silent.
 */
int evaluator_attach(struct evaluator *evaluator, size_t trigger, pid_t pid, const char *path,
		     uint64_t offset, uint32_t *attachment);
/*
 * Removes every probe (all processes), leaves the thread programs on. The kernel waits for a grace
 * period each: some 0.1 s a probe.
 */
void evaluator_detach_probes(struct evaluator *evaluator);
/* Closes the probes of @pid: at its end, or when it is a target no more. */
void evaluator_detach_process(struct evaluator *evaluator, pid_t pid);

/* Shared with the kernel; also inherited by a forked stepper. Valid until evaluator_close(). */
struct ptbpf_fire_page *evaluator_fire_page(struct evaluator *evaluator);

/*
 * Pollable; evaluator_poll() delivers the records that are there, in order of their birth. 0 or
 * -errno; a callback's value other than 0 ends the delivery and is returned.
 */
int evaluator_fd(const struct evaluator *evaluator);
typedef int (*evaluator_record_fn)(void *ctx, const struct ptbpf_record *record);
int evaluator_poll(struct evaluator *evaluator, evaluator_record_fn fn, void *ctx);

/*
 * On-CPU ns of a live traced thread since it joined the scope, the stretch that is running included
 * (as of a millisecond ago at most). 0, -ENOENT, -errno. An EXIT record tells the final value.
 */
int evaluator_oncpu(struct evaluator *evaluator, pid_t tid, uint64_t *oncpu_ns);

struct evaluator_drops {
	uint64_t records; /* thread records that did not fit into the ring buffer */
	uint64_t wakes;
	uint64_t threads; /* newborn threads that the kernel had no memory to follow */
};
void evaluator_read_drops(struct evaluator *evaluator, struct evaluator_drops *drops);

#endif
