/* SPDX-License-Identifier: GPL-2.0-only */
/* The members of snapshot.json, as tables for its writer and its reader. */
#ifndef PTBPF_SNAPSHOT_META_FIELDS_H
#define PTBPF_SNAPSHOT_META_FIELDS_H

#include <stddef.h>

#include "base/mem.h"
#include "snapshot/meta.h"

#define META_FORMAT "ptbpf-snapshot"

enum meta_type {
	META_U64,
	META_U32,
	META_U16,
	META_PID,
	META_INT,
	META_BOOL,
	META_DOUBLE,
	META_STRING, /* char *, left out when NULL */
	META_COMM,   /* char[16] */
	META_HEX,    /* u64 as "0x1f", which no reader rounds */
	META_HEX6,   /* u64[6], an array of such */
};

struct meta_field {
	const char *key;
	enum meta_type type;
	size_t offset;
};

/* An object of the file; key NULL: the outermost. */
struct meta_section {
	const char *key;
	const struct meta_field *fields;
	size_t n_fields;
};

#define META_SECTIONS 8
/* Offsets are into struct meta. */
extern const struct meta_section meta_sections[META_SECTIONS];
/* Arrays of objects; offsets are into their own structs. */
extern const struct meta_section meta_count_section, meta_thread_section, meta_budget_event_section;

#endif
