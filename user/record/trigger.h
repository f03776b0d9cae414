/* SPDX-License-Identifier: GPL-2.0-only */
/* A trigger as written on the command line. Architecture, section 5: KIND:SPEC[,COND...]. Pure. */
#ifndef PTBPF_RECORD_TRIGGER_H
#define PTBPF_RECORD_TRIGGER_H

#include <stddef.h>
#include <stdint.h>

#include "../../bpf/ptbpf_abi.h"

enum trigger_kind {
	TRIGGER_SYM,    /* [OBJECT!]FUNC[+OFF] */
	TRIGGER_ADDR,   /* OBJECT+0xOFF: an ELF virtual address of the object */
	TRIGGER_MANUAL, /* Ctrl-C only */
	TRIGGER_EXIT,   /* the target's end */
	/* parsed and refused with exit 3 until their issue: */
	TRIGGER_RET,
	TRIGGER_LAT,
	TRIGGER_USDT,
	TRIGGER_EXC,
	TRIGGER_SIGNAL,
	TRIGGER_CRASH,
	TRIGGER_TP,
	TRIGGER_OFFCPU,
};

struct trigger {
	enum trigger_kind kind;
	char *spec;     /* as the user wrote it, whole */
	char *object;   /* path, base name or glob; NULL: any object */
	char *function; /* mangled or demangled name, or glob */
	uint64_t offset;
	struct ptbpf_trigger config; /* the conditions, ready for the table */
};

/*
 * Parses one -t argument. 0, -ENOMEM, or -EINVAL with a message in @why (what is wrong, where, and
 * what would be right); -EOPNOTSUPP for a kind that this version does not evaluate, @why names it.
 */
int trigger_parse(const char *text, struct trigger *trigger, char *why, size_t why_size);
void trigger_fini(struct trigger *trigger);
const char *trigger_kind_name(enum trigger_kind kind);

#endif
