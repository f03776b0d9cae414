/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Does this hit fire? What trigger.bpf.c decides, for a source that evaluates triggers itself where
 * BPF is not allowed. One thread calls it. Pure.
 */
#ifndef PTBPF_RECORD_TRIGGER_MATCH_H
#define PTBPF_RECORD_TRIGGER_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "../../bpf/ptbpf_abi.h"

/* What one trigger has seen; zeroed at first. */
struct trigger_match {
	uint64_t matched; /* hits that passed tid, comm and arguments */
	uint64_t rated;   /* fires that the rate let through */
	uint64_t *times;  /* of the newest rate_count of them */
};

struct trigger_hit {
	uint32_t tid;
	const char *comm; /* looked at with PTBPF_TRIGGER_HAS_COMM only */
	uint64_t args[6];
	uint64_t time_ns;
	uint32_t random; /* evenly distributed */
};

/* No fire either when memory for the rate runs out. */
bool trigger_match(struct trigger_match *match, const struct ptbpf_trigger *trigger,
		   const struct trigger_hit *hit);
void trigger_match_fini(struct trigger_match *match);

#endif
