// SPDX-License-Identifier: GPL-2.0-only
/* Threads and processes that come and go. */
#include "record/soft/stepper.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/kcmp.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"

#define ADOPT_AFTER_NS 100000000ull /* a creator that was killed never announces its child */
#define CS_32 0x23

static pid_t status_number(pid_t tid, const char *field)
{
	scoped_file FILE *file = NULL;
	char path[64], line[256];
	const size_t length = strlen(field);

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, field, length))
			return (pid_t)atoi(line + length);
	}
	return 0;
}

pid_t births_tgid(pid_t tid)
{
	return status_number(tid, "Tgid:");
}

pid_t births_tracer(pid_t tid)
{
	return status_number(tid, "TracerPid:");
}

bool births_is_dying(pid_t tid)
{
	scoped_file FILE *file = NULL;
	char path[64], line[256];

	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, "State:\t", 7))
			return line[7] == 'Z' || line[7] == 'X';
	}
	return true; /* or gone */
}

static void forget_probes_in(const struct soft_process *parent, pid_t child)
{
	scoped_fd int fd = -1;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", child);
	fd = open(path, O_RDWR | O_CLOEXEC);
	for (size_t i = 0; fd >= 0 && i < parent->probes.len; i++) {
		const uint64_t ip = parent->probes.data[i].ip;
		uint8_t original, present;

		if (pread(fd, &present, 1, (off_t)ip) != 1 || present != 0xcc ||
		    code_file_byte((struct code *)&parent->code, ip, &original) || original == 0xcc)
			continue;
		if (pwrite(fd, &original, 1, (off_t)ip) != 1)
			continue; /* it is gone */
	}
}

static bool shares_memory(pid_t a, pid_t b)
{
	return !syscall(SYS_kcmp, a, b, KCMP_VM, 0, 0);
}

/* A process that is not followed leaves as if nobody had traced its parent. */
static void let_go(struct stepper *stepper, struct soft_thread *thread)
{
	ptrace(PTRACE_DETACH, thread->tid, 0, 0);
	thread_remove(stepper, thread);
}

static void announce(struct stepper *stepper, struct soft_thread *thread)
{
	const bool is_thread = thread->pid == thread->parent_pid;

	thread->newborn = false;
	traps_read_mask(thread);
	if (!thread_fetch_regs(thread))
		thread->ip = thread->regs.rip;
	thread->run = RUN_FREE;
	if (thread->let_go) {
		let_go(stepper, thread);
		return;
	}
	thread->hold_event = !is_thread || stepper->config->multi_thread;
	stepper_tell(stepper, thread, is_thread ? SOURCE_BIRTH : SOURCE_FORK);
}

/* Whose child it is: now known, by the creator's event or by looking. */
static void child_known(struct stepper *stepper, struct soft_thread *child,
			const struct soft_thread *parent, pid_t pid)
{
	child->known = true;
	child->parent_pid = parent->pid;
	child->parent_tid = parent->tid;
	affinity_inherit(parent, child->tid);
	if (pid != parent->pid && !stepper->config->follow_forks) {
		child->let_go = true;
		child->pid = pid;
	} else if (thread_join(stepper, child, pid) == 0) {
		child->process->mode_32 = parent->process->mode_32;
	} else {
		child->let_go = true; /* no memory to follow it */
		child->pid = pid;
	}
	if (child->state == THREAD_STOPPED)
		announce(stepper, child);
}

void births_event(struct stepper *stepper, struct soft_thread *parent, int event)
{
	struct soft_thread *child;
	unsigned long message = 0;
	pid_t pid;

	parent->in_syscall = true;
	parent->in_vfork = event == PTRACE_EVENT_VFORK;
	if (ptrace(PTRACE_GETEVENTMSG, parent->tid, 0, &message))
		return;
	pid = status_number((pid_t)message, "Tgid:");
	child = thread_find(stepper, (pid_t)message);
	/* When all is being let go, a child that has stopped is gone already; others will stop. */
	if (!child && !stepper->detached)
		child = pid ? thread_add(stepper, (pid_t)message) : NULL;
	if (!child || child->known)
		return;
	if (pid != parent->pid && !shares_memory(parent->pid, pid))
		forget_probes_in(parent->process, pid);
	else if (pid != parent->pid && event != PTRACE_EVENT_VFORK)
		parent->process->memory_is_shared = true;
	child_known(stepper, child, parent, pid);
}

void births_first_stop(struct stepper *stepper, struct soft_thread *thread)
{
	thread->seen_ns = clock_now_ns();
	if (thread->known)
		announce(stepper, thread);
}

void births_unknown(struct stepper *stepper, pid_t tid, int status)
{
	struct soft_thread *thread;

	if (!WIFSTOPPED(status))
		return;
	thread = thread_add(stepper, tid);
	if (thread)
		stop_handle(stepper, thread, status);
}

static void adopt(struct stepper *stepper, struct soft_thread *thread)
{
	struct soft_thread *parent;
	pid_t pid;

	if (thread->known || thread->state != THREAD_STOPPED ||
	    clock_now_ns() - thread->seen_ns < ADOPT_AFTER_NS)
		return;
	pid = status_number(thread->tid, "Tgid:");
	parent = thread_find(stepper, pid == thread->tid ? status_number(pid, "PPid:") : pid);
	if (parent && parent->known)
		child_known(stepper, thread, parent, pid);
	else
		let_go(stepper, thread); /* its creator is gone: it was never ours to keep */
}

void births_adopt(struct stepper *stepper)
{
	thread_for_each(stepper, adopt);
}

static uint64_t read_entry(pid_t pid)
{
	scoped_fd int fd = -1;
	Elf64_auxv_t entry;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/auxv", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	while (fd >= 0 && read(fd, &entry, sizeof(entry)) == sizeof(entry)) {
		if (entry.a_type == AT_ENTRY)
			return entry.a_un.a_val;
	}
	return 0;
}

static void process_execed(struct soft_process *process)
{
	code_close(&process->code);
	code_open(&process->code, process->pid);
	process->probes.len = 0;
	process->sections.len = 0;
	process->n_starts = 0;
	process->memory_is_shared = false;
	traps_read_process(process);
	process->entry = process->mode_32 ? 0 : read_entry(process->pid);
	blocks_set_barriers(process);
}

/* exec by a thread that is not the leader: the kernel gives it the leader's id. */
static void take_identity(struct stepper *stepper, struct soft_thread *leader,
			  struct soft_thread *former)
{
	record_end_at(leader, leader->ip);
	leader->pinned = former->pinned;
	leader->affinity = former->affinity;
	leader->sigmask = former->sigmask;
	leader->signal = 0;
	leader->hold_take = false;
	if (leader->exiting)
		leader->process->live++;
	if (!former->exiting)
		former->process->live--;
	record_end_at(former, former->ip);
	stepper_tell(stepper, former, SOURCE_EXIT);
	thread_remove(stepper, former);
}

void births_exec(struct stepper *stepper, struct soft_thread *thread)
{
	struct soft_thread *former;
	unsigned long message = 0;

	ptrace(PTRACE_GETEVENTMSG, thread->tid, 0, &message);
	former = thread_find(stepper, (pid_t)message);
	if (former && former != thread)
		take_identity(stepper, thread, former);
	thread->exiting = false;
	thread->in_syscall = true;
	thread->restarting = false;
	thread->rseq = 0;
	thread->rseq_stale = true;
	thread->dr_on = false;
	thread->no_block = false;
	memset(thread->dr, 0, sizeof(thread->dr));
	record_end_at(thread, thread->ip);
	if (!thread_fetch_regs(thread)) {
		thread->process->mode_32 = thread->regs.cs == CS_32;
		thread->ip = thread->regs.rip;
	}
	process_execed(thread->process);
	thread->hold_event = true;
	stepper_tell(stepper, thread, SOURCE_EXEC);
}

void births_gone(struct stepper *stepper, struct soft_thread *thread, int status)
{
	struct soft_process *process = thread->process;

	if (thread->tid == stepper->command) {
		stepper->command_status = status;
		stepper->command_ended = true;
	}
	if (process && !thread->exiting) {
		/* Killed too fast for the exit event: the last known place ends the trace. */
		record_end_at(thread, thread->ip);
		process->live--;
	}
	if (thread->known && !thread->let_go) {
		thread->exit_status = status;
		stepper_tell(stepper, thread, SOURCE_EXIT);
	}
	thread_remove(stepper, thread);
}
