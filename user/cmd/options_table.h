/* SPDX-License-Identifier: GPL-2.0-only */
/* The option table; private to options*.c. */
#ifndef PTBPF_CMD_OPTIONS_TABLE_H
#define PTBPF_CMD_OPTIONS_TABLE_H

#include "cmd/options.h"

struct option_spec {
	const char *name; /* without dashes */
	char letter;      /* 0: none */
	unsigned int commands;
	const char *arg; /* NULL: takes no value */
	/*
	 * @option is how the user wrote it, for the message that a refusal logs. 0, -EINVAL,
	 * -ENOMEM.
	 */
	int (*set)(struct options *options, const char *option, const char *value);
	const char *help; /* NULL: an alias or a fixture's option, not shown */
};

/* Ends with a NULL name. */
extern const struct option_spec option_table[];

const char *command_name(enum command command);

#endif
