/* SPDX-License-Identifier: GPL-2.0-only */
/* The COND parts of a trigger: argN OP VALUE, tid=, comm=, after=, every=, rate=, sample=. Pure. */
#ifndef PTBPF_RECORD_TRIGGER_CONDITION_H
#define PTBPF_RECORD_TRIGGER_CONDITION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../bpf/ptbpf_abi.h"

/* Does @text begin like a condition: one of the words above (or any argN), an operator, a value? */
bool condition_is_like(const char *text);

/*
 * Adds one condition to @config. *seen remembers what was given, zero at first. 0, or -EINVAL with
 * @why.
 */
int condition_parse(const char *text, struct ptbpf_trigger *config, unsigned int *seen, char *why,
		    size_t why_size);

/* Does it hold for this value of the argument? What trigger.bpf.c decides, for use without BPF. */
bool condition_holds(const struct ptbpf_condition *condition, uint64_t value);

#endif
