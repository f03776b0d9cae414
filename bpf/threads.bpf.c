// SPDX-License-Identifier: Dual BSD/GPL
/* Births, execs, names, deaths and on-CPU time of the traced threads, and who they are. */
#include "shared.bpf.h"

char LICENSE[] SEC("license") = "Dual BSD/GPL";

const volatile bool cfg_multi_thread; /* new threads of traced processes become traced */
const volatile bool cfg_follow_forks; /* new processes too */

/* Puts the type into the object's BTF, where tests/unit/test_abi.c looks for it. */
const struct ptbpf_record *const record_type;

__u64 stat_record_drops; /* records that did not fit into the ring buffer */
__u64 stat_thread_drops; /* threads that could not be given an entry */

/* ptbpf's own pid namespace, learnt from its own task: where pids and tids are counted. */
__u64 own_ns;
__u32 own_level;

/* What the loader asks the iterator on_select to do. */
__u32 select_tid;
__u32 select_add; /* 1: joins the scope, 0: leaves it */
__u32 select_found;

static __always_inline struct upid *upid_at(struct pid *pid, __u32 level)
{
	return (void *)&pid->numbers[0] + level * bpf_core_type_size(struct upid);
}

/* The id as ptbpf sees it; 0 when it does not. */
static __always_inline __u32 own_id(struct pid *pid)
{
	struct upid *upid;

	if (!pid || own_level > BPF_CORE_READ(pid, level))
		return 0;
	upid = upid_at(pid, own_level);
	return (__u64)BPF_CORE_READ(upid, ns) == own_ns ? BPF_CORE_READ(upid, nr) : 0;
}

/* The id as the target sees itself. */
static __always_inline __u32 inner_id(struct pid *pid)
{
	struct upid *upid;

	if (!pid)
		return 0;
	upid = upid_at(pid, BPF_CORE_READ(pid, level));
	return BPF_CORE_READ(upid, nr);
}

static __always_inline void identify(struct task_struct *task, struct ptbpf_thread *thread)
{
	struct pid *tid = BPF_CORE_READ(task, thread_pid);
	struct pid *pid = BPF_CORE_READ(task, group_leader, thread_pid);

	thread->pid = own_id(pid);
	thread->tid = own_id(tid);
	thread->ns_pid = inner_id(pid);
	thread->ns_tid = inner_id(tid);
}

static __always_inline struct ptbpf_thread *add_thread(struct task_struct *task)
{
	struct ptbpf_thread fresh = {}, *thread;

	identify(task, &fresh);
	thread = bpf_task_storage_get(&threads, task, &fresh, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread)
		__sync_fetch_and_add(&stat_thread_drops, 1);
	return thread;
}

static __always_inline struct ptbpf_record *
reserve_record(__u32 type, const struct ptbpf_thread *thread, struct task_struct *task)
{
	struct ptbpf_record *record = bpf_ringbuf_reserve(&records, sizeof(*record), 0);

	if (!record) {
		__sync_fetch_and_add(&stat_record_drops, 1);
		return NULL;
	}
	__builtin_memset(record, 0, sizeof(*record));
	record->type = type;
	record->size = sizeof(*record);
	record->time_ns = bpf_ktime_get_ns();
	record->pid = thread->pid;
	record->tid = thread->tid;
	record->ns_pid = thread->ns_pid;
	record->ns_tid = thread->ns_tid;
	bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), task->comm);
	return record;
}

/* Finished stretches and the one that runs. Not torn: a switch in between is seen and retried. */
static __always_inline __u64 oncpu_until_now(struct ptbpf_thread *thread)
{
	__u64 since = 0, sum = 0, now;

	for (int i = 0; i < 4; i++) {
		since = READ_ONCE(thread->switched_in_ns);
		sum = READ_ONCE(thread->oncpu_ns);
		if (since == READ_ONCE(thread->switched_in_ns))
			break;
	}
	now = bpf_ktime_get_ns();
	return since && now > since ? sum + now - since : sum;
}

/* Does a child of @parent belong to the scope? Returns the entry that makes it so. */
static __always_inline struct ptbpf_thread *traced_parent(struct task_struct *parent,
							  __u64 clone_flags)
{
	const bool is_thread = clone_flags & CLONE_THREAD;
	struct ptbpf_thread *thread = bpf_task_storage_get(&threads, parent, 0, 0);

	if (is_thread)
		return cfg_multi_thread ? thread : NULL;
	if (!cfg_follow_forks)
		return NULL;
	/* Without multi_thread only the main thread has an entry, but any thread may fork. */
	if (!thread && !cfg_multi_thread)
		thread = bpf_task_storage_get(&threads, parent->group_leader, 0, 0);
	return thread;
}

SEC("tp_btf/task_newtask")
int BPF_PROG(on_birth, struct task_struct *child, __u64 clone_flags)
{
	struct task_struct *parent = bpf_get_current_task_btf();
	struct ptbpf_thread *thread, creator = {};
	struct ptbpf_record *record;

	if (!traced_parent(parent, clone_flags))
		return 0;
	thread = add_thread(child);
	if (!thread)
		return 0;
	record = reserve_record(PTBPF_RECORD_BIRTH, thread, child);
	if (!record)
		return 0;
	identify(parent, &creator);
	record->parent_pid = creator.pid;
	record->parent_tid = creator.tid;
	record->new_process = !(clone_flags & CLONE_THREAD);
	bpf_ringbuf_submit(record, 0);
	return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task)
{
	struct ptbpf_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	struct ptbpf_record *record;
	__u32 old_tid;

	if (!thread)
		return 0;
	/* A thread that is not the main one takes over the main one's ids here. */
	old_tid = thread->tid;
	identify(task, thread);
	record = reserve_record(PTBPF_RECORD_EXEC, thread, task);
	if (!record)
		return 0;
	record->parent_pid = thread->pid;
	record->parent_tid = old_tid;
	bpf_ringbuf_submit(record, 0);
	return 0;
}

SEC("tp_btf/task_rename")
int BPF_PROG(on_rename, struct task_struct *task, const char *comm)
{
	struct ptbpf_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	struct ptbpf_record *record;

	if (!thread)
		return 0;
	record = reserve_record(PTBPF_RECORD_COMM, thread, task);
	if (!record)
		return 0;
	bpf_probe_read_kernel_str(record->comm, sizeof(record->comm), comm);
	bpf_ringbuf_submit(record, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
	struct ptbpf_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	struct ptbpf_record *record;

	if (!thread)
		return 0;
	record = reserve_record(PTBPF_RECORD_EXIT, thread, task);
	if (!record)
		return 0;
	record->exit_code = task->exit_code;
	record->oncpu_ns = oncpu_until_now(thread);
	bpf_ringbuf_submit(record, 0);
	return 0;
}

SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, bool preempt, struct task_struct *prev, struct task_struct *next)
{
	struct ptbpf_thread *thread;

	/* The idle task has pid 0. */
	thread = prev->pid ? bpf_task_storage_get(&threads, prev, 0, 0) : NULL;
	if (thread && thread->switched_in_ns) {
		thread->oncpu_ns += bpf_ktime_get_ns() - thread->switched_in_ns;
		WRITE_ONCE(thread->switched_in_ns, 0);
	}
	thread = next->pid ? bpf_task_storage_get(&threads, next, 0, 0) : NULL;
	if (thread)
		WRITE_ONCE(thread->switched_in_ns, bpf_ktime_get_ns());
	return 0;
}

/* Run by the loader once, in its own context. */
SEC("iter/task")
int on_self(struct bpf_iter__task *ctx)
{
	struct task_struct *self = bpf_get_current_task_btf();
	struct pid *pid = BPF_CORE_READ(self, thread_pid);
	struct upid *upid;

	if (!ctx->task || own_ns)
		return 0;
	own_level = BPF_CORE_READ(pid, level);
	upid = upid_at(pid, own_level);
	own_ns = (__u64)BPF_CORE_READ(upid, ns);
	return 0;
}

/* A thread that runs while it joins has no switch-in to be seen: it counts from now. */
static __always_inline void note_running(struct task_struct *task, struct ptbpf_thread *thread)
{
	const __u64 now = bpf_ktime_get_ns();

	if (!task->on_cpu || __sync_val_compare_and_swap(&thread->switched_in_ns, 0, now))
		return;
	if (!task->on_cpu)
		__sync_val_compare_and_swap(&thread->switched_in_ns, now, 0);
}

/* Puts select_tid into the scope or out of it. */
SEC("iter/task")
int on_select(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct ptbpf_thread *thread;

	if (!task)
		return 0;
	if (own_id(BPF_CORE_READ(task, thread_pid)) != select_tid)
		return 0;
	if (!select_add) {
		select_found = !bpf_task_storage_delete(&threads, task);
		return 0;
	}
	if (task->flags & PF_EXITING)
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (thread) {
		select_found = 1;
		return 0;
	}
	thread = add_thread(task);
	if (!thread)
		return 0;
	note_running(task, thread);
	/* It may have died meanwhile, before it had an entry: then nobody would report its death.
	 */
	if (task->flags & PF_EXITING)
		bpf_task_storage_delete(&threads, task);
	else
		select_found = 1;
	return 0;
}

/* Lists the traced threads that live. */
SEC("iter/task")
int on_list(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct ptbpf_thread *thread, line;

	if (!task || task->flags & PF_EXITING)
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!thread)
		return 0;
	line = *thread;
	line.oncpu_ns = oncpu_until_now(thread);
	bpf_seq_write(ctx->meta->seq, &line, sizeof(line));
	return 0;
}
