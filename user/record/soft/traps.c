// SPDX-License-Identifier: GPL-2.0-only
/*
 * SIGTRAP's mask and disposition. A trap that the kernel forces on a thread that blocks or ignores
 * SIGTRAP unblocks it and resets its handler for the whole process (force_sig_info_to_task()). Both
 * are put back before anything can see it.
 */
#include "record/soft/stepper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/mem.h"

#define BIT(sig) (1ull << ((sig)-1))
#define FLAG_TF 0x100ul
#define FLAG_RF 0x10000ul
#define SYSCALL_STOP (SIGTRAP | 0x80)
#define RED_ZONE 128u

#define IGNORED_BY_DEFAULT (BIT(SIGCHLD) | BIT(SIGCONT) | BIT(SIGURG) | BIT(SIGWINCH))

struct dispositions {
	uint64_t pending, blocked, ignored, caught;
};

static bool read_dispositions(pid_t tid, struct dispositions *out)
{
	scoped_file FILE *file = NULL;
	char path[64], line[256];

	memset(out, 0, sizeof(*out));
	snprintf(path, sizeof(path), "/proc/%d/status", tid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		const uint64_t set = strlen(line) > 7 ? strtoull(line + 7, NULL, 16) : 0;

		if (!strncmp(line, "SigPnd:", 7) || !strncmp(line, "ShdPnd:", 7)) {
			out->pending |= set;
		} else if (!strncmp(line, "SigBlk:", 7)) {
			out->blocked = set;
		} else if (!strncmp(line, "SigIgn:", 7)) {
			out->ignored = set;
		} else if (!strncmp(line, "SigCgt:", 7)) {
			out->caught = set;
			return true; /* the last of them */
		}
	}
	return false;
}

enum traps_pending traps_pending(const struct soft_thread *thread)
{
	struct dispositions now;
	uint64_t pending;

	if (!read_dispositions(thread->tid, &now))
		return TRAPS_PENDING_NONE;
	pending = now.pending & ~now.blocked;
	if (pending & (now.caught | ~(now.ignored | IGNORED_BY_DEFAULT)))
		return TRAPS_PENDING_HANDLED;
	return pending ? TRAPS_PENDING_IGNORED : TRAPS_PENDING_NONE;
}

void traps_read_process(struct soft_process *process)
{
	struct dispositions now = { 0 };

	memset(&process->trap, 0, sizeof(process->trap));
	if (!read_dispositions(process->pid, &now))
		return;
	process->trap.caught = now.caught & BIT(SIGTRAP);
	process->trap.ignored = now.ignored & BIT(SIGTRAP);
	process->trap.action[0] = process->trap.ignored ? (uint64_t)SIG_IGN : (uint64_t)SIG_DFL;
	process->trap.known = !process->trap.caught;
}

void traps_set_mask(struct soft_thread *thread, uint64_t mask)
{
	thread->sigmask = mask & ~(BIT(SIGKILL) | BIT(SIGSTOP));
	thread->trap_blocked = mask & BIT(SIGTRAP);
	thread->mask_lost = false;
}

void traps_read_mask(struct soft_thread *thread)
{
	uint64_t mask;

	if (!ptrace(PTRACE_GETSIGMASK, thread->tid, sizeof(mask), &mask))
		traps_set_mask(thread, mask);
}

/* Calls that wait with another mask, in which SIGTRAP may be blocked. */
static bool has_own_mask(uint64_t nr)
{
	switch (nr) {
	case SYS_rt_sigsuspend:
	case SYS_ppoll:
	case SYS_pselect6:
	case SYS_epoll_pwait:
	case 333: /* io_pgetevents */
	case 441: /* epoll_pwait2 */
		return true;
	default:
		return false;
	}
}

void traps_taken(struct soft_thread *thread)
{
	struct soft_process *process = thread->process;
	const bool blocked = thread->trap_blocked || has_own_mask(thread->nr);

	thread->mask_lost |= thread->trap_blocked;
	if (process->trap.ignored || (blocked && process->trap.caught))
		process->trap.lost = true;
}

bool traps_signal_is_dropped(const struct soft_process *process, int sig)
{
	struct dispositions now = { 0 };

	if (sig == SIGKILL || sig == SIGSTOP || sig > 64)
		return false;
	if (sig == SIGTRAP && process->trap.lost)
		return process->trap.ignored;
	if (!read_dispositions(process->pid, &now) || now.caught & BIT(sig))
		return false;
	return (now.ignored | IGNORED_BY_DEFAULT) & BIT(sig);
}

static int store_regs(const struct soft_thread *thread, const struct user_regs_struct *regs)
{
	return ptrace(PTRACE_SETREGS, thread->tid, 0, regs) ? -errno : 0;
}

/* To the next system call stop. All signals that can be are blocked; SIGSTOP waits for later. */
static int to_syscall_stop(struct soft_thread *thread)
{
	for (;;) {
		int status;

		if (ptrace(PTRACE_SYSCALL, thread->tid, 0, 0))
			return -ESRCH;
		while (waitpid(thread->tid, &status, __WALL) < 0) {
			if (errno != EINTR)
				return -ESRCH;
		}
		if (!WIFSTOPPED(status)) {
			thread->died = true;
			thread->exit_status = status;
			return -ESRCH;
		}
		if (status >> 16 == PTRACE_EVENT_EXIT)
			return -ESRCH;
		if (WSTOPSIG(status) == SYSCALL_STOP)
			return 0;
		if (status >> 16 == PTRACE_EVENT_STOP)
			thread->kicked = false;
		if (status >> 16 == 0 && !thread->signal) {
			thread->signal = WSTOPSIG(status);
			ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &thread->info);
		}
	}
}

long traps_inject(struct soft_thread *thread, long nr, const uint64_t args[4])
{
	const uint64_t gadget = code_gadget(&thread->process->code), all = UINT64_MAX;
	struct user_regs_struct regs, saved;
	uint64_t mask;
	long result;
	int err = thread_fetch_regs(thread);

	if (err || !gadget || thread->process->mode_32)
		return err ? err : -ENOSYS;
	/* Another signal would be taken from its queue and lost. */
	if (ptrace(PTRACE_GETSIGMASK, thread->tid, sizeof(mask), &mask) ||
	    ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof(all), &all))
		return -errno;
	saved = regs = thread->regs;
	regs.rip = gadget;
	/* A debug register may stand there; the program may single-step itself. */
	regs.eflags = (regs.eflags | FLAG_RF) & ~FLAG_TF;
	regs.rax = (uint64_t)nr;
	regs.orig_rax = UINT64_MAX;
	regs.rdi = args[0];
	regs.rsi = args[1];
	regs.rdx = args[2];
	regs.r10 = args[3];
	err = store_regs(thread, &regs);
	if (!err)
		err = to_syscall_stop(thread);
	if (!err)
		err = to_syscall_stop(thread);
	if (!err && ptrace(PTRACE_GETREGS, thread->tid, 0, &regs))
		err = -errno;
	result = err ? err : (long)regs.rax;
	/* The call has been left: it must not look like one to restart. */
	saved.orig_rax = UINT64_MAX;
	if (!err)
		err = store_regs(thread, &saved);
	if (!err && ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof(mask), &mask))
		err = -errno;
	thread->at_syscall_stop = !err;
	thread->regs = saved;
	return err ? err : result;
}

/* rt_sigaction(SIGTRAP) in the thread, with the structure in its stack below the red zone. */
static long sigaction_in(struct soft_thread *thread, uint64_t action[4], bool set)
{
	struct code *code = &thread->process->code;
	uint64_t kept[4], at, args[4] = { SIGTRAP, 0, 0, 8 };
	long err = thread_fetch_regs(thread);

	if (err)
		return err;
	at = ((thread->regs.rsp - RED_ZONE) & ~15ull) - sizeof(kept);
	if (code_read_memory(code, at, kept, sizeof(kept)) != sizeof(kept))
		return -EFAULT;
	if (set && code_write_memory(code, at, action, sizeof(kept)) != sizeof(kept))
		return -EFAULT;
	args[set ? 1 : 2] = at;
	err = traps_inject(thread, SYS_rt_sigaction, args);
	if (!err && !set)
		code_read_memory(code, at, action, sizeof(kept));
	code_write_memory(code, at, kept, sizeof(kept));
	return err;
}

void traps_learn(struct soft_thread *thread)
{
	struct soft_process *process = thread->process;

	if (process->trap.known)
		return;
	process->trap.known = true; /* one try */
	if (sigaction_in(thread, process->trap.action, false))
		process->trap.caught = false; /* nothing that could be put back */
}

void traps_unblock(struct soft_thread *thread)
{
	const uint64_t mask = thread->sigmask & ~BIT(SIGTRAP);

	thread->mask_lost = !ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof(mask), &mask);
}

void traps_restore_mask(struct soft_thread *thread)
{
	if (!thread->mask_lost)
		return;
	ptrace(PTRACE_SETSIGMASK, thread->tid, sizeof(thread->sigmask), &thread->sigmask);
	thread->mask_lost = false;
}

/* Nothing can be injected inside a system call: out of it, or back to before it. */
static int leave_syscall(struct soft_thread *thread)
{
	struct user_regs_struct *regs = &thread->regs;
	int err;

	if (thread->in_syscall) {
		err = to_syscall_stop(thread);
		if (err)
			return err;
		thread->in_syscall = false;
		thread->at_syscall_stop = true;
		thread->regs_valid = false;
	}
	if (!thread->restarting)
		return 0;
	err = thread_fetch_regs(thread);
	if (err)
		return err;
	thread->restarting = false;
	if (thread->signal && (int64_t)regs->rax != -512 && (int64_t)regs->rax != -513) {
		regs->rax = (uint64_t)-EINTR;
	} else {
		regs->rax = (int64_t)regs->rax == -516 ? SYS_restart_syscall : regs->orig_rax;
		regs->rip -= 2;
	}
	regs->orig_rax = UINT64_MAX;
	thread->ip = regs->rip;
	return thread_store_regs(thread);
}

void traps_restore(struct soft_thread *thread)
{
	struct soft_process *process = thread->process;

	if (process->trap.lost && !thread->exiting && !thread->in_vfork && !leave_syscall(thread) &&
	    !sigaction_in(thread, process->trap.action, true))
		process->trap.lost = false;
	traps_restore_mask(thread);
}

void traps_requeue(struct soft_thread *thread)
{
	if (!thread->trap_held || thread->signal)
		return;
	thread->trap_held = false;
	thread->signal = SIGTRAP;
	thread->info = thread->trap_info;
	thread->signal_moved = true;
}

void traps_fix_pushf(struct soft_thread *thread)
{
	struct code *code = &thread->process->code;
	uint64_t flags;

	thread->regs_valid = false;
	if (thread_fetch_regs(thread) || thread->own_tf)
		return;
	if (code_read_memory(code, thread->regs.rsp, &flags, sizeof(flags)) != sizeof(flags))
		return;
	flags &= ~FLAG_TF;
	code_write_memory(code, thread->regs.rsp, &flags, thread->process->mode_32 ? 4 : 8);
}

void traps_save_flag(struct soft_thread *thread)
{
	struct code *code = &thread->process->code;
	const uint64_t frame = thread->regs.rsp + sizeof(uint64_t); /* above the return address */
	uint64_t flags;

	if (!thread->own_tf)
		return;
	/* The kernel took it for the tracer's and left it out. */
	thread->own_tf = false;
	if (code_read_memory(code, frame + UC_FLAGS, &flags, sizeof(flags)) != sizeof(flags))
		return;
	flags |= FLAG_TF;
	code_write_memory(code, frame + UC_FLAGS, &flags, sizeof(flags));
}
