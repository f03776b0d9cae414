/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The process that holds an evaluator's uprobes. The kernel leaks a uprobe for good, its int3 left
 * in the target's text, when the process that removes it has a SIGKILL pending ("failed to
 * unregister, leaking uprobe"). So probes are set and removed by a process of their own, which
 * outlives ptbpf's front process by as long as that takes.
 */
#ifndef PTBPF_RECORD_EVALUATOR_KEEPER_H
#define PTBPF_RECORD_EVALUATOR_KEEPER_H

#include <stdint.h>
#include <sys/types.h>

#include <bpf/libbpf.h>

struct keeper;

/* Forks the keeper; @program is loaded and outlives it. 0 or -errno. */
int keeper_start(const struct bpf_program *program, struct keeper **out);
/* Removes every probe, ends the keeper and waits for it. NULL is fine. */
void keeper_stop(struct keeper *keeper);

/*
 * A uprobe at @offset of @path, through thread @tid. *handle (never 0) names it. 0; -ESRCH: the
 * thread is gone; -EPIPE: the keeper was killed; other -errno.
 */
int keeper_attach(struct keeper *keeper, pid_t tid, const char *path, uint64_t offset,
		  uint64_t cookie, uint32_t *handle);
/* Returns when the probe is out of the target. */
void keeper_detach(struct keeper *keeper, uint32_t handle);

#endif
