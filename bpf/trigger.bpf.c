// SPDX-License-Identifier: Dual BSD/GPL
/* Does this hit fire? Runs in the thread that reached a probed instruction. */
#include "trigger.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

#define RATE_TRIES 16 /* that many other threads may fire at the very same moment */

/* What the steps of the evaluation count, per trigger. */
struct trigger_state {
	__u64 matched; /* passed tid, comm and arguments */
	__u64 rated;   /* fires that the rate let through */
};
static struct trigger_state states[PTBPF_MAX_TRIGGERS];

struct hit {
	__u64 args[6];
	__u64 ip, sp;
	__u64 number; /* this trigger's, from 1 */
	char comm[PTBPF_COMM_LEN];
	__u32 trigger, attachment;
};

static __always_inline bool comm_equals(const volatile char *want, const char *comm)
{
	for (int i = 0; i < PTBPF_COMM_LEN; i++) {
		if (want[i] != comm[i])
			return false;
		if (!want[i])
			break;
	}
	return true;
}

static __always_inline bool condition_holds(__u32 op, __u64 arg, __u64 value)
{
	bool less;

	if (op & PTBPF_OP_SIGNED) {
		if (arg >> 31 == 1)
			arg |= 0xffffffff00000000ull; /* an int in a zero-extended register */
		less = (__s64)arg < (__s64)value;
	} else {
		less = arg < value;
	}
	switch (op & ~PTBPF_OP_SIGNED) {
	case PTBPF_OP_EQ:
		return arg == value;
	case PTBPF_OP_NE:
		return arg != value;
	case PTBPF_OP_LT:
		return less;
	case PTBPF_OP_LE:
		return less || arg == value;
	case PTBPF_OP_GT:
		return !less && arg != value;
	case PTBPF_OP_GE:
		return !less;
	}
	return false;
}

static __always_inline bool arguments_match(const volatile struct ptbpf_trigger *trigger,
					    const struct hit *hit)
{
	for (__u32 i = 0; i < PTBPF_MAX_CONDITIONS; i++) {
		const volatile struct ptbpf_condition *condition = &trigger->conditions[i];
		__u64 arg;

		if (i >= trigger->n_conditions)
			break;
		switch (condition->arg) {
		case 0:
			arg = hit->args[0];
			break;
		case 1:
			arg = hit->args[1];
			break;
		case 2:
			arg = hit->args[2];
			break;
		case 3:
			arg = hit->args[3];
			break;
		case 4:
			arg = hit->args[4];
			break;
		default:
			arg = hit->args[5];
			break;
		}
		if (!condition_holds(condition->op, arg, condition->value))
			return false;
	}
	return true;
}

static __always_inline bool counts_match(const volatile struct ptbpf_trigger *trigger,
					 struct trigger_state *state)
{
	const __u64 nth = __sync_fetch_and_add(&state->matched, 1); /* from 0 */

	if (nth < trigger->after)
		return false;
	if (trigger->every > 1 && (nth - trigger->after + 1) % trigger->every)
		return false;
	return true;
}

static __always_inline bool sample_matches(const volatile struct ptbpf_trigger *trigger)
{
	if (!(trigger->flags & PTBPF_TRIGGER_HAS_SAMPLE))
		return true;
	return ((__u64)bpf_get_prandom_u32() * 1000000) >> 32 < trigger->sample_ppm;
}

/*
 * At most N fires in any window: fire k may happen when fire k - N lies a window back. The times of
 * the last N are in a ring; the slot's compare-and-swap makes one thread fire k. Until that thread
 * has counted it, others see a fresh slot and are denied, which errs on the side of fewer fires.
 */
static __always_inline bool rate_allows(const volatile struct ptbpf_trigger *trigger, __u32 index,
					struct trigger_state *state, __u64 now)
{
	const __u64 count = trigger->rate_count;

	if (!count || !trigger->rate_ns)
		return true;
	for (int i = 0; i < RATE_TRIES; i++) {
		__u32 key = cfg_rate_base[index] + (__u32)(READ_ONCE(state->rated) % count);
		__u64 *slot = bpf_map_lookup_elem(&rate_times, &key);
		__u64 before;

		if (!slot)
			return false;
		before = READ_ONCE(*slot);
		if (before && now < before + trigger->rate_ns)
			return false;
		if (__sync_val_compare_and_swap(slot, before, now) == before) {
			__sync_fetch_and_add(&state->rated, 1);
			return true;
		}
	}
	return false;
}

/* Takes the fire's number and slot. False: dropped. */
static __always_inline bool claim(struct ptbpf_fire_page *page, __u64 *number, __u32 *slot)
{
	__u64 seen;

	if (page->single) {
		if (__sync_val_compare_and_swap(&page->claimed, 0, 1))
			return false;
		*number = 0;
	} else {
		*number = __sync_fetch_and_add(&page->claimed, 1);
	}
	*slot = *number & (PTBPF_MAX_FIRES - 1);
	seen = READ_ONCE(page->published[*slot]);
	if (!seen && *number >= PTBPF_MAX_FIRES)
		return false; /* the one before us in this slot still writes */
	return __sync_val_compare_and_swap(&page->published[*slot], seen, 0) == seen;
}

static __always_inline void wake(struct ptbpf_fire_page *page, const struct ptbpf_thread *thread,
				 const struct hit *hit, __u64 now)
{
	struct ptbpf_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record) {
		__sync_fetch_and_add(&page->wake_drops, 1);
		return;
	}
	__builtin_memset(record, 0, sizeof(*record));
	record->type = PTBPF_RECORD_WAKE;
	record->size = sizeof(*record);
	record->time_ns = now;
	record->pid = thread->pid;
	record->tid = thread->tid;
	record->ns_pid = thread->ns_pid;
	record->ns_tid = thread->ns_tid;
	__builtin_memcpy(record->comm, hit->comm, sizeof(record->comm));
	bpf_ringbuf_submit(record, BPF_RB_FORCE_WAKEUP);
}

static __always_inline bool fire(struct ptbpf_fire_page *page, const struct ptbpf_thread *thread,
				 const struct hit *hit, __u64 now)
{
	struct ptbpf_fire *record;
	__u64 number;
	__u32 slot;

	if (!claim(page, &number, &slot))
		return false;
	slot &= PTBPF_MAX_FIRES - 1;
	record = &page->fires[slot];
	record->time_ns = now;
	record->ip = hit->ip;
	__builtin_memcpy(record->args, hit->args, sizeof(record->args));
	record->sp = hit->sp;
	record->hit = hit->number;
	record->trigger = hit->trigger;
	record->attachment = hit->attachment;
	record->pid = thread->pid;
	record->tid = thread->tid;
	record->ns_pid = thread->ns_pid;
	record->ns_tid = thread->ns_tid;
	__builtin_memcpy(record->comm, hit->comm, sizeof(record->comm));
	record->sequence = number + 1;
	/* An exchange is a full barrier: the fire is whole before its number shows. */
	__sync_lock_test_and_set(&page->published[slot], number + 1);
	wake(page, thread, hit, now);
	return true;
}

static __always_inline bool passes(const volatile struct ptbpf_trigger *trigger,
				   const struct ptbpf_thread *thread, const struct hit *hit,
				   __u64 now)
{
	struct trigger_state *state = &states[hit->trigger & (PTBPF_MAX_TRIGGERS - 1)];

	if (trigger->flags & PTBPF_TRIGGER_HAS_TID && trigger->tid != thread->tid)
		return false;
	if (trigger->flags & PTBPF_TRIGGER_HAS_COMM && !comm_equals(trigger->comm, hit->comm))
		return false;
	return arguments_match(trigger, hit) && counts_match(trigger, state) &&
	       sample_matches(trigger) && rate_allows(trigger, hit->trigger, state, now);
}

/* Returns 1 for a fire only: the kernel then goes on to the perf event (and its aux_pause). */
SEC("uprobe")
int on_probe(struct pt_regs *regs)
{
	const __u64 cookie = bpf_get_attach_cookie(regs);
	const __u32 index = (__u32)cookie & (PTBPF_MAX_TRIGGERS - 1);
	const __u64 now = bpf_ktime_get_ns();
	const __u32 zero = 0;
	struct ptbpf_fire_page *page;
	struct ptbpf_thread *thread;
	struct hit hit = {};

	thread = bpf_task_storage_get(&threads, bpf_get_current_task_btf(), 0, 0);
	if (!thread)
		return 0;
	page = bpf_map_lookup_elem(&fire_page, &zero);
	if (!page)
		return 0;
	hit.trigger = index;
	hit.attachment = cookie >> 32;
	hit.args[0] = regs->di;
	hit.args[1] = regs->si;
	hit.args[2] = regs->dx;
	hit.args[3] = regs->cx;
	hit.args[4] = regs->r8;
	hit.args[5] = regs->r9;
	hit.ip = regs->ip; /* the kernel has set it back from behind the int3 */
	hit.sp = regs->sp;
	bpf_get_current_comm(hit.comm, sizeof(hit.comm));
	hit.number = __sync_fetch_and_add(&page->stats[index].hits, 1) + 1;
	if (!passes(&cfg_triggers[index], thread, &hit, now))
		return 0;
	if (!fire(page, thread, &hit, now)) {
		__sync_fetch_and_add(&page->stats[index].drops, 1);
		return 0;
	}
	__sync_fetch_and_add(&page->stats[index].fires, 1);
	return 1;
}
