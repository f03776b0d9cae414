/* SPDX-License-Identifier: Dual BSD/GPL */
/* What a trigger object consists of, apart from the decision itself: maps and configuration. */
#ifndef PTBPF_TRIGGER_BPF_H
#define PTBPF_TRIGGER_BPF_H

#include "shared.bpf.h"

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ptbpf_fire_page);
} fire_page SEC(".maps");

/* Times of the newest fires of each rate-limited trigger; cfg_rate_base tells where its part is. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* the loader sets it */
	__type(key, __u32);
	__type(value, __u64);
} rate_times SEC(".maps");

const volatile struct ptbpf_trigger cfg_triggers[PTBPF_MAX_TRIGGERS];
const volatile __u32 cfg_rate_base[PTBPF_MAX_TRIGGERS];

#endif
