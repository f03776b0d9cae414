/* SPDX-License-Identifier: GPL-2.0-only */
/* From options to what a session needs: what record and plan have in common. */
#ifndef PTBPF_CMD_LIVE_H
#define PTBPF_CMD_LIVE_H

#include "base/exit_code.h"
#include "base/vec.h"
#include "cmd/options.h"
#include "record/session.h"

struct live {
	struct session_options session;
	VEC(struct trigger) triggers;
	struct trigger start_at;
	char *name;
};

/*
 * Fills live->session but for its callbacks; refuses what can be told to be wrong before anything
 * starts: triggers, the user, the command's file, processes that are not there or not ours. What
 * is wrong has been logged. live_fini() in any case; @options must outlive it.
 */
enum exit_code live_prepare(const struct options *options, struct live *live);
void live_fini(struct live *live);

/* The target's part of it (target.c). */
enum exit_code target_check_command(const char *program);
enum exit_code target_check_process(pid_t pid);

#endif
