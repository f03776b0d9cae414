/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What the session's process and the stepper say to each other, over two SOCK_SEQPACKET pairs: one
 * for requests and their replies, one for struct source_event. Same binary on both ends.
 */
#ifndef PTBPF_RECORD_SOFT_WIRE_H
#define PTBPF_RECORD_SOFT_WIRE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "record/source.h"

enum wire_op {
	WIRE_START, /* answered once the targets are held or attached */
	WIRE_RELEASE,
	WIRE_GIVE, /* with the ring's fd, and its spool's */
	WIRE_TAKE,
	WIRE_PROBES, /* followed by n struct source_probe */
	WIRE_STARTS, /* followed by n uint64_t */
	WIRE_FREEZE,
	WIRE_RESUME,
	WIRE_DETACH,
	WIRE_CUT,
	WIRE_STATS,
};

struct wire_request {
	uint32_t op;
	int32_t tid; /* or pid */
	uint32_t hold;
	uint32_t n;
};

#define WIRE_MAX_PROBES 4096u

union wire_payload {
	struct source_probe probes[WIRE_MAX_PROBES];
	uint64_t starts[4];
};

struct wire_reply {
	int32_t err;
	char why[160];
	struct source_cut cut;
	struct source_stats stats;
};

#endif
