// SPDX-License-Identifier: GPL-2.0-only
/* What a wait status means: how the run in flight ended. */
#include "record/soft/stepper.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#ifndef TRAP_HWBKPT
#define TRAP_HWBKPT 4
#endif

static bool is_restart(uint64_t rax)
{
	const int64_t value = (int64_t)rax;

	return value == -512 || value == -513 || value == -514 || value == -516;
}

/* A trap that the stepper caused itself. */
static bool is_own_trap(const siginfo_t *info)
{
	if (info->si_signo != SIGTRAP)
		return false;
	switch (info->si_code) {
	case TRAP_TRACE:
	case TRAP_BRKPT:
	case TRAP_HWBKPT:
	case SIGTRAP: /* a signal handler was entered while single-stepping */
		return true;
	default:
		return false;
	}
}

/*
 * Over a uprobe the kernel steps or emulates by itself and then sends SIGTRAP like kill() would
 * (arch_uprobe_post_xol(), arch_uprobe_skip_sstep()).
 */
static bool is_probe_trap(struct soft_thread *thread)
{
	struct code *code = &thread->process->code;
	uint8_t present, original;

	if (thread->run != RUN_STEP || thread->info.si_signo != SIGTRAP ||
	    thread->info.si_code != SI_USER || thread_fetch_regs(thread) ||
	    thread->regs.rip == thread->ip)
		return false;
	if (code_read_memory(code, thread->ip, &present, 1) != 1 || present != 0xcc ||
	    code_file_byte(code, thread->ip, &original) || original == 0xcc)
		return false;
	thread->info.si_code = TRAP_TRACE;
	thread->info.si_addr = (void *)thread->regs.rip;
	return true;
}

static void step_done(struct stepper *stepper, struct soft_thread *thread, uint64_t to)
{
	struct code_insn *code = &thread->code;
	uint64_t fired;

	thread->probed = false;
	if (!thread->drop && fires_hit(stepper, thread, &fired)) {
		record_end_at(thread, thread->ip);
		thread->ip = to;
		return;
	}
	if (code->kind == CODE_LOAD_SS && to != thread->ip + code->insn.length) {
		/* The trap came one instruction late. */
		record_step(stepper, thread, code, thread->ip + code->insn.length);
		thread->ip += code->insn.length;
		if (code_at(&thread->process->code, thread->ip, thread->process->mode_32, code))
			return;
	}
	if (code->kind == CODE_PUSHF)
		traps_fix_pushf(thread);
	/* The flag that was set before the instruction traps after it. */
	thread->tf_due = thread->own_tf;
	if (code->insn.touches_tf && code->kind != CODE_PUSHF && code->kind != CODE_LOAD_SS &&
	    !thread_fetch_regs(thread))
		thread->own_tf = thread->regs.eflags & 0x100;
	if (code->insn.writes_memory)
		thread->rseq_stale = true;
	if (code->kind != CODE_INTERRUPT && !thread->drop) {
		if (thread->verify)
			blocks_verify(stepper, thread, code, to);
		record_step(stepper, thread, code, to);
	}
	thread->ip = to;
}

/*
 * System calls that return EINTR when a tracer interrupts them, or when a signal comes that nobody
 * handles and that would not even wake an untraced thread: they are made again, so that the program
 * sees nothing.
 */
static bool restart_interrupted(struct soft_thread *thread)
{
	struct user_regs_struct *regs = &thread->regs;
	enum traps_pending pending;

	if (thread_fetch_regs(thread) || (int64_t)regs->rax != -EINTR)
		return false;
	pending = traps_pending(thread);
	if (pending == TRAPS_PENDING_HANDLED ||
	    (pending == TRAPS_PENDING_NONE && !thread->interrupted))
		return false;
	switch ((long)regs->orig_rax) {
	case 0:   /* read of an inotify descriptor */
	case 65:  /* semop */
	case 128: /* rt_sigtimedwait */
	case 220: /* semtimedop */
	case 232: /* epoll_wait */
	case 281: /* epoll_pwait */
	case 441: /* epoll_pwait2 */
		regs->rax = regs->orig_rax;
		regs->orig_rax = UINT64_MAX;
		regs->rip -= 2;
		thread->interrupted = false;
		return !thread_store_regs(thread);
	default:
		return false;
	}
}

static void syscall_done(struct stepper *stepper, struct soft_thread *thread, uint64_t to)
{
	thread->rseq_stale = true;
	if (!thread_fetch_regs(thread) && is_restart(thread->regs.rax)) {
		thread->restarting = true;
		thread->ip = to;
		traps_taken(thread);
		return;
	}
	thread->ip = to;
	thread->probed = false;
	if (restart_interrupted(thread)) {
		thread->ip = thread->regs.rip;
		traps_taken(thread);
		return;
	}
	thread->interrupted = false;
	syscall_after(stepper, thread);
}

/* Back in user code after an event inside a system call, or after a restarted one ran again. */
static void leave_done(struct stepper *stepper, struct soft_thread *thread, uint64_t to)
{
	if (thread->restarting) {
		thread->restarting = false;
		if (thread_is_traced(thread) && !thread->drop) {
			record_begin(thread, to - 2);
			record_log(stepper, thread, to - 2);
			encoder_end_far(&thread->encoder);
		}
	}
	syscall_done(stepper, thread, to);
}

/* The run ended by the stepper's own trap. */
static void run_ended(struct stepper *stepper, struct soft_thread *thread, uint64_t ip)
{
	const bool is_breakpoint = thread->info.si_code == TRAP_HWBKPT;

	switch (thread->run) {
	case RUN_STEP:
		if (ip == thread->ip && (is_breakpoint || thread->code.insn.is_rep_string))
			break; /* before it executed, or between two rounds */
		step_done(stepper, thread, ip);
		break;
	case RUN_PAST_REP:
		if (ip != thread->ip)
			step_done(stepper, thread, ip);
		break;
	case RUN_SYSCALL:
		syscall_done(stepper, thread, ip);
		break;
	case RUN_LEAVE:
		leave_done(stepper, thread, ip);
		break;
	case RUN_PLAN:
		blocks_finish(stepper, thread, ip);
		thread->rseq_stale = true;
		thread->probed = false;
		thread->ip = ip;
		break;
	case RUN_HANDLER:
		thread->restarting = false;
		thread->rseq_stale = true;
		if (thread->info.si_code != SIGTRAP) {
			/* No handler after all: the instruction executed. */
			if (!code_at(&thread->process->code, thread->ip, thread->process->mode_32,
				     &thread->code))
				record_begin(thread, thread->ip);
			step_done(stepper, thread, ip);
			break;
		}
		traps_read_mask(thread);
		traps_save_flag(thread);
		thread->probed = false;
		thread->ip = thread->handler_ip = ip;
		break;
	case RUN_ATOMIC:
		record_gap(stepper, thread, "atomic", thread->gap_from_ns);
		/* fallthrough */
	default:
		thread->rseq_stale = true;
		thread->ip = ip;
		break;
	}
}

/* Something else stopped it at @ip; what it executed until there still counts. */
static void run_interrupted(struct stepper *stepper, struct soft_thread *thread, uint64_t ip)
{
	switch (thread->run) {
	case RUN_STEP:
	case RUN_PAST_REP:
		if (ip != thread->ip)
			step_done(stepper, thread, ip);
		break;
	case RUN_SYSCALL:
	case RUN_LEAVE:
		if (thread->exiting)
			thread->ip = ip;
		else if (ip != thread->ip || thread->run == RUN_SYSCALL)
			syscall_done(stepper, thread, ip);
		break;
	case RUN_PLAN:
		run_ended(stepper, thread, ip);
		break;
	case RUN_ATOMIC:
		record_gap(stepper, thread, "atomic", thread->gap_from_ns);
		thread->ip = ip;
		break;
	default:
		thread->ip = ip;
		break;
	}
	if (thread->verify)
		thread->verify->planned = false;
	/* Only the very next instruction can have been evaluated. */
	thread->run = RUN_FREE;
}

/* A thread at full speed met a debug register: the entry, or an address of set_start(). */
static void reached_stop(struct stepper *stepper, struct soft_thread *thread)
{
	struct soft_process *process = thread->process;

	if (thread->ip == process->entry) {
		process->entry = 0;
		blocks_set_barriers(process);
		stepper_tell(stepper, thread, SOURCE_ENTRY);
		thread->hold_event = true;
		return;
	}
	for (size_t i = 0; i < process->n_starts; i++) {
		if (process->starts[i] != thread->ip)
			continue;
		process->n_starts = 0;
		blocks_set_barriers(process);
		stepper_hold_all(stepper);
		stepper_tell(stepper, thread, SOURCE_START);
		return;
	}
}

static void signal_stop(struct stepper *stepper, struct soft_thread *thread, int sig)
{
	uint64_t ip;

	memset(&thread->info, 0, sizeof(thread->info));
	if (ptrace(PTRACE_GETSIGINFO, thread->tid, 0, &thread->info))
		thread->info.si_signo = sig;
	if (is_own_trap(&thread->info) || is_probe_trap(thread)) {
		if (thread->info.si_code != SIGTRAP && thread->run != RUN_SYSCALL &&
		    thread->run != RUN_LEAVE)
			traps_taken(thread);
		ip = (uint64_t)thread->info.si_addr;
		if (thread->info.si_code == SIGTRAP || thread->process->mode_32) {
			if (thread_fetch_regs(thread))
				return;
			ip = thread->regs.rip;
		}
		if (thread->run == RUN_FREE) {
			thread->ip = ip;
			if (thread->info.si_code == TRAP_TRACE)
				thread->signal = SIGTRAP; /* of a step that it makes itself */
			else
				reached_stop(stepper, thread);
			return;
		}
		thread->tf_due = false;
		run_ended(stepper, thread, ip);
		/* Killed where it stands, it stops once more: that run is not counted twice. */
		thread->run = RUN_FREE;
		if (thread->tf_due && thread->info.si_code == TRAP_TRACE)
			thread->signal = SIGTRAP; /* the program's own single step */
		return;
	}
	if (thread_fetch_regs(thread))
		return;
	if (thread->run == RUN_REDELIVER) {
		/* Sent again after a system call of the stepper's: the first one's details count.
		 */
		thread->info = thread->trap_info;
		thread->signal_moved = true;
		thread->signal = sig;
		thread->run = RUN_FREE;
		return;
	}
	/* Without a tracer the kernel had not even woken it for a signal that nobody handles. */
	thread->interrupted |= traps_signal_is_dropped(thread->process, sig);
	if (thread->run == RUN_FREE) {
		restart_interrupted(thread);
		thread->interrupted = false;
	}
	run_interrupted(stepper, thread, thread->regs.rip);
	thread->signal = sig;
	thread->signal_moved = false;
	if (sig == SIGTRAP && thread->trap_blocked) {
		/* The program blocks it; the kernel's mask was undone by a forced trap. */
		thread->trap_held = true;
		thread->trap_info = thread->info;
		thread->signal = 0;
	}
}

/* Is a trap of ours queued behind this stop? Then the run has not ended yet. */
static bool trap_is_queued(const struct soft_thread *thread)
{
	siginfo_t infos[16];
	struct __ptrace_peeksiginfo_args args = { .nr = 16 };
	const long n = ptrace(PTRACE_PEEKSIGINFO, thread->tid, &args, infos);

	for (long i = 0; i < n; i++) {
		if (is_own_trap(&infos[i]))
			return true;
	}
	return false;
}

/* Stopped by the stepper, maybe in the middle of a system call. */
static void note_restart(struct soft_thread *thread)
{
	if (thread_fetch_regs(thread))
		return;
	restart_interrupted(thread);
	thread->interrupted = false;
	thread->restarting = is_restart(thread->regs.rax) && (int64_t)thread->regs.orig_rax >= 0;
}

static void stop_event(struct stepper *stepper, struct soft_thread *thread, int sig)
{
	thread->interrupted |= thread->kicked;
	thread->kicked = false;
	if (sig != SIGTRAP && !stepper->detached) {
		/* A group stop: it lasts until SIGCONT, which makes another event. */
		ptrace(PTRACE_LISTEN, thread->tid, 0, 0);
		thread_set_state(thread, THREAD_LISTENING);
		return;
	}
	if (thread->newborn) {
		note_restart(thread);
		births_first_stop(stepper, thread);
		return;
	}
	if (thread->run != RUN_FREE && trap_is_queued(thread)) {
		const bool steps = thread->run != RUN_PLAN && thread->run != RUN_PAST_REP &&
				   thread->run != RUN_ATOMIC;

		thread_resume(stepper, thread, steps ? PTRACE_SINGLESTEP : PTRACE_CONT, thread->run,
			      0);
		return;
	}
	if (thread_fetch_regs(thread))
		return;
	if (thread->run == RUN_FREE)
		note_restart(thread);
	run_interrupted(stepper, thread, thread->regs.rip);
	thread->restarting |= is_restart(thread->regs.rax) && (int64_t)thread->regs.orig_rax >= 0;
}

static void exit_stop(struct stepper *stepper, struct soft_thread *thread)
{
	struct soft_process *process = thread->process;

	thread->exiting = true;
	thread->in_syscall = true;
	if (!thread_fetch_regs(thread))
		run_interrupted(stepper, thread, thread->regs.rip);
	record_end_at(thread, thread->ip);
	if (--process->live)
		return;
	/* Its memory is still there: the last moment to read code for the snapshot. */
	thread->hold_event = true;
	stepper_tell(stepper, thread, SOURCE_EXITING);
}

void stop_handle(struct stepper *stepper, struct soft_thread *thread, int status)
{
	const int event = status >> 16;

	if (WIFEXITED(status) || WIFSIGNALED(status)) {
		births_gone(stepper, thread, status);
		return;
	}
	if (!WIFSTOPPED(status))
		return;
	thread_set_state(thread, THREAD_STOPPED);
	thread->regs_valid = false;
	if (thread->run == RUN_FREE)
		traps_read_mask(thread); /* nobody watched what it did to it */
	if (!thread->known && event != PTRACE_EVENT_STOP)
		return;
	switch (event) {
	case 0:
		signal_stop(stepper, thread, WSTOPSIG(status));
		break;
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
	case PTRACE_EVENT_CLONE:
		births_event(stepper, thread, event);
		break;
	case PTRACE_EVENT_EXEC:
		births_exec(stepper, thread);
		break;
	case PTRACE_EVENT_EXIT:
		exit_stop(stepper, thread);
		break;
	case PTRACE_EVENT_STOP:
		stop_event(stepper, thread, WSTOPSIG(status));
		break;
	default:
		thread->in_syscall = true;
		break;
	}
}
