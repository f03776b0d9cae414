// SPDX-License-Identifier: GPL-2.0-only
/* System calls of stepped threads that the stepper must know about. */
#include "record/soft/stepper.h"

#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#ifndef SYS_rseq
#define SYS_rseq 334
#endif

/* Calls that can see or pass on what SIGTRAP does. */
static bool sees_disposition(uint64_t nr)
{
	switch (nr) {
	case SYS_rt_sigaction:
	case SYS_clone:
	case SYS_clone3:
	case SYS_fork:
	case SYS_vfork:
	case SYS_execve:
	case SYS_execveat:
		return true;
	default:
		return false;
	}
}

#define FLAG_TF 0x100u
#define UC_SIGMASK 296u /* offsetof(struct ucontext, uc_sigmask), the kernel's */

/*
 * The mask that the call will set: read beforehand, because the trap that ends the step has already
 * changed the kernel's mask when the stepper sees it.
 */
static void read_new_mask(struct soft_thread *thread)
{
	const struct code *code = &thread->process->code;
	uint64_t set;

	thread->new_mask = thread->sigmask;
	thread->new_flags = 0;
	if (thread->nr == SYS_rt_sigreturn) {
		code_read_memory((void *)code, thread->regs.rsp + UC_FLAGS, &thread->new_flags, 8);
		if (code_read_memory((void *)code, thread->regs.rsp + UC_SIGMASK, &set, 8) == 8)
			thread->new_mask = set;
		return;
	}
	if (thread->nr != SYS_rt_sigprocmask || !thread->args[1] ||
	    code_read_memory((void *)code, thread->args[1], &set, 8) != 8)
		return;
	if (thread->args[0] == SIG_BLOCK)
		thread->new_mask |= set;
	else if (thread->args[0] == SIG_UNBLOCK)
		thread->new_mask &= ~set;
	else if (thread->args[0] == SIG_SETMASK)
		thread->new_mask = set;
}

void syscall_before(struct soft_thread *thread)
{
	const struct user_regs_struct *regs = &thread->regs;

	thread->nr = UINT64_MAX;
	if (thread_fetch_regs(thread))
		return;
	if (thread->process->mode_32) {
		traps_restore_mask(thread);
		return;
	}
	thread->nr = regs->rax;
	thread->args[0] = regs->rdi;
	thread->args[1] = regs->rsi;
	thread->args[2] = regs->rdx;
	thread->args[3] = regs->r10;
	if (sees_disposition(thread->nr))
		traps_restore(thread);
	else
		traps_restore_mask(thread);
	read_new_mask(thread);
	if (thread->nr == SYS_rt_sigaction && thread->args[0] == SIGTRAP && thread->args[1])
		code_read_memory(&thread->process->code, thread->args[1], thread->new_action,
				 sizeof(thread->new_action));
}

bool syscall_unmaps_code(struct soft_thread *thread)
{
	const struct code *code = &thread->process->code;
	const struct user_regs_struct *regs = &thread->regs;

	if (thread->process->mode_32 || thread_fetch_regs(thread))
		return false;
	switch (regs->rax) {
	case SYS_mmap:
		return (regs->r10 & MAP_FIXED) && code_overlaps(code, regs->rdi, regs->rsi);
	case SYS_munmap:
	case SYS_mremap:
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		return code_overlaps(code, regs->rdi, regs->rsi);
	case SYS_execve:
	case SYS_execveat:
		return true;
	default:
		return false;
	}
}

/* When one of these is done, the thread stops before its next instruction. */
bool syscall_writes_nothing(const struct soft_thread *thread)
{
	switch (thread->nr) {
	case SYS_futex:
		switch (thread->args[1] & (unsigned int)FUTEX_CMD_MASK) {
		case FUTEX_WAIT:
		case FUTEX_WAIT_BITSET:
		case FUTEX_WAKE:
			return true;
		default:
			return false;
		}
	case SYS_nanosleep:
		return !thread->args[1];
	case SYS_clock_nanosleep:
		return !thread->args[3];
	case SYS_pause:
	case SYS_sched_yield:
	case SYS_rt_sigsuspend:
		return true;
	default:
		return false;
	}
}

static void action_set(struct soft_thread *thread)
{
	struct soft_process *process = thread->process;

	if (thread->args[0] != SIGTRAP || !thread->args[1] || thread->regs.rax)
		return;
	memcpy(process->trap.action, thread->new_action, sizeof(process->trap.action));
	process->trap.known = true;
	process->trap.lost = false;
	process->trap.ignored = thread->new_action[0] == (uint64_t)SIG_IGN;
	process->trap.caught = thread->new_action[0] > (uint64_t)SIG_IGN;
}

static void mappings_changed(struct stepper *stepper, struct soft_thread *thread)
{
	struct code *code = &thread->process->code;
	const int64_t result = (int64_t)thread->regs.rax;
	bool executable = true;

	if (result < 0 && result > -4096)
		return;
	switch (thread->nr) {
	case SYS_brk:
		executable = false;
		break;
	case SYS_mmap:
		executable = thread->args[2] & PROT_EXEC ||
			     code_overlaps(code, thread->regs.rax, thread->args[1]);
		break;
	case SYS_mprotect:
	case SYS_pkey_mprotect:
		executable = thread->args[2] & PROT_EXEC ||
			     code_overlaps(code, thread->args[0], thread->args[1]);
		break;
	case SYS_munmap:
	case SYS_mremap:
		executable = code_overlaps(code, thread->args[0], thread->args[1]);
		break;
	default:
		break;
	}
	/* Block plans rely on what is mapped where; single steps only on code. */
	if (!executable && stepper->config->soft_step == SOFT_STEP_INSN)
		return;
	if (code_refresh(code) <= 0)
		return;
	thread->hold_event = true;
	stepper_tell(stepper, thread, SOURCE_MAPPED);
}

void syscall_after(struct stepper *stepper, struct soft_thread *thread)
{
	if (thread_fetch_regs(thread) || thread->process->mode_32) {
		traps_taken(thread);
		return;
	}
	switch (thread->nr) {
	case SYS_brk:
	case SYS_mmap:
	case SYS_mprotect:
	case SYS_pkey_mprotect:
	case SYS_munmap:
	case SYS_mremap:
	case SYS_shmat:
	case SYS_shmdt:
	case SYS_remap_file_pages:
		mappings_changed(stepper, thread);
		break;
	case SYS_rt_sigaction:
		action_set(thread);
		break;
	case SYS_rt_sigprocmask:
		if (!thread->regs.rax)
			traps_set_mask(thread, thread->new_mask);
		break;
	case SYS_rt_sigreturn:
		traps_set_mask(thread, thread->new_mask);
		thread->own_tf = thread->new_flags & FLAG_TF;
		break;
	case SYS_sched_getaffinity:
	case SYS_sched_setaffinity:
		affinity_after(stepper, thread);
		break;
	case SYS_prctl:
		if (thread->args[0] == PR_SET_NAME)
			stepper_tell(stepper, thread, SOURCE_COMM);
		break;
	case SYS_rseq:
		rseq_find(thread);
		break;
	case SYS_madvise:
		/* The kernel may empty these pages at any time. */
		thread->process->code.kernel_writes |= thread->args[2] == MADV_FREE;
		break;
	case SYS_io_setup:
	case SYS_io_uring_setup:
		thread->process->code.kernel_writes = true;
		break;
	default:
		break;
	}
	/* The trap that ended the step came after the call: it met what the call had set. */
	traps_taken(thread);
	thread->nr = UINT64_MAX;
}
