// SPDX-License-Identifier: Dual BSD/GPL
/*
 * Stands in for bpf/trigger.bpf.c in build/ptbpf-never: counts hits, never fires. What a recorder
 * that is linked with it still sees cannot have come from BPF.
 */
#include "trigger.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

SEC("uprobe")
int on_probe(struct pt_regs *regs)
{
	const __u32 index = (__u32)bpf_get_attach_cookie(regs) & (PTBPF_MAX_TRIGGERS - 1);
	const __u32 zero = 0;
	struct ptbpf_fire_page *page = bpf_map_lookup_elem(&fire_page, &zero);

	if (page && bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0))
		__sync_fetch_and_add(&page->stats[index].hits, 1);
	return 0;
}
