/* SPDX-License-Identifier: GPL-2.0-only */
/* argv -> a plain struct. README, "Options", is the contract. Touches nothing but argv and PATH. */
#ifndef PTBPF_CMD_OPTIONS_H
#define PTBPF_CMD_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/vec.h"

/* Bits, so that an option can say where it belongs. */
enum command {
	COMMAND_RECORD = 1,
	COMMAND_DECODE = 2,
	COMMAND_PLAN = 4,
	COMMAND_DOCTOR = 8,
	COMMAND_HELP = 16,
	COMMAND_VERSION = 32,
};

enum option_source { OPTION_SOURCE_AUTO, OPTION_SOURCE_HW, OPTION_SOURCE_SOFT };
enum option_step { OPTION_STEP_BLOCK, OPTION_STEP_INSN, OPTION_STEP_VERIFY };

struct options {
	enum command command;
	enum command help_for; /* HELP: a command, or 0: in general */

	VEC(const char *) triggers; /* as written */
	VEC(pid_t) pids;
	char *const *argv; /* the command to run, NULL-terminated, or NULL */
	char **own_argv;   /* where argv had to be put together */

	bool multi_thread, follow_forks, full_execution;
	uint64_t buffer; /* bytes as asked; 0: the default */
	bool balance_equal;
	uint64_t max_snapshots; /* 0: no limit */
	enum option_source source;
	enum option_step soft_step;
	const char *start_at;
	const char *user;
	const char *output; /* NULL: the command's default */
	const char *format; /* LIST, NULL: the command's default */

	/* what to leave out of the output */
	pid_t thread;
	uint32_t depth;
	uint64_t min_duration_ns;
	bool has_from, has_to;
	int64_t from_ns, to_ns;

	bool insn; /* decode: instructions instead of calls */
	const char *symfs;
	const char *input;    /* decode: snapshot directory or perf.data */
	unsigned int workers; /* 0: one per CPU */

	bool json; /* doctor */

	/* fixtures and tests; not in --help */
	bool step_clock, no_aslr;
	const char *insn_log;

	int verbosity; /* -1 quiet, 0, 1 verbose */
};

/*
 * 0; -EINVAL: wrong usage, which has been logged; -ENOMEM, logged. Strings point into argv. The
 * caller frees with options_fini(), also after an error.
 */
int options_parse(int argc, char *const *argv, struct options *options);
void options_fini(struct options *options);

/* --help: in general, or of one command. */
void options_print_help(FILE *out, enum command command);

#endif
