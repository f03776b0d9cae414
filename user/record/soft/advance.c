// SPDX-License-Identifier: GPL-2.0-only
/* What a stopped thread does next. */
#include "record/soft/stepper.h"

#include <errno.h>
#include <string.h>
#include <sys/ptrace.h>

#include "base/clock.h"

int thread_fetch_regs(struct soft_thread *thread)
{
	if (thread->regs_valid)
		return 0;
	if (ptrace(PTRACE_GETREGS, thread->tid, 0, &thread->regs))
		return -errno;
	thread->regs_valid = true;
	return 0;
}

int thread_store_regs(struct soft_thread *thread)
{
	if (ptrace(PTRACE_SETREGS, thread->tid, 0, &thread->regs))
		return -errno;
	thread->regs_valid = true;
	return 0;
}

void thread_kick(struct soft_thread *thread)
{
	if (thread->state == THREAD_RUNNING && !thread->kicked)
		thread->kicked = !ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0);
}

void thread_resume(struct stepper *stepper, struct soft_thread *thread, int request,
		   enum thread_run run, int sig)
{
	/* The plan that is being verified says nothing about what is not stepped, or not seen. */
	if (thread->verify && (thread->drop || (run != RUN_STEP && run != RUN_PAST_REP)))
		thread->verify->planned = false;
	thread->regs_valid = false;
	thread->drop = false;
	thread->at_syscall_stop = false;
	thread->in_syscall = false;
	thread->in_vfork = false;
	thread->run = run;
	thread->signal = 0;
	thread_set_state(thread, THREAD_RUNNING);
	stepper->resumed_ns = clock_now_ns();
	if (thread_is_traced(thread)) {
		stepper->stats.stops++;
		thread->ring.header->stops++;
	}
	/* ESRCH: it was killed; waitpid() will say so. */
	ptrace(request, thread->tid, 0, sig);
}

bool thread_may_go(const struct stepper *stepper, const struct soft_thread *thread)
{
	if (thread->state != THREAD_STOPPED || !thread->known || thread->hold_event ||
	    thread->hold_take || (thread->process && thread->process->alone))
		return false;
	return thread_is_traced(thread) ? !stepper->frozen : !stepper->hold_all;
}

/* The stop's signal is another than the one to deliver: siginfo must come along. */
static int deliverable(struct soft_thread *thread)
{
	const int sig = thread->signal;

	if (sig && thread->signal_moved)
		ptrace(PTRACE_SETSIGINFO, thread->tid, 0, &thread->info);
	thread->signal_moved = false;
	return sig;
}

static void go_free(struct stepper *stepper, struct soft_thread *thread)
{
	const struct soft_process *process = thread->process;
	uint64_t stops[BLOCK_REGISTERS];
	size_t n = 0;

	affinity_unpin(stepper, thread);
	traps_restore(thread);
	traps_requeue(thread);
	if (process->entry)
		stops[n++] = process->entry;
	for (size_t i = 0; i < process->n_starts; i++)
		stops[n++] = process->starts[i];
	if (n && !stepper->detached && !thread->exiting)
		debug_set(thread, stops, n);
	else
		debug_clear(thread);
	if (!thread->exiting)
		thread->in_syscall = thread->restarting = false; /* not at its next stop */
	thread_resume(stepper, thread, PTRACE_CONT, RUN_FREE, deliverable(thread));
}

static void deliver(struct stepper *stepper, struct soft_thread *thread)
{
	/* Of two signals at once the first handler has not begun when the second one does. */
	if (thread->handler_ip != thread->ip || !encoder_retract(&thread->encoder))
		record_end_at(thread, thread->ip);
	if (thread->signal == SIGTRAP)
		traps_restore(thread);
	else
		traps_restore_mask(thread);
	if (thread->at_syscall_stop) {
		/* From here a signal can only be sent, not delivered: it stops the thread again. */
		thread->trap_info = thread->info;
		thread_resume(stepper, thread, PTRACE_SINGLESTEP, RUN_REDELIVER, thread->signal);
		return;
	}
	thread_resume(stepper, thread, PTRACE_SINGLESTEP, RUN_HANDLER, deliverable(thread));
}

/* The session saves code that is in no file while it is there. True: the thread waits for it. */
static bool tell_unmapping(struct stepper *stepper, struct soft_thread *thread)
{
	if (thread->unmap_told || !syscall_unmaps_code(thread)) {
		thread->unmap_told = false;
		return false;
	}
	thread->unmap_told = true;
	thread->hold_event = true;
	stepper_tell(stepper, thread, SOURCE_UNMAPPING);
	return true;
}

static void step_syscall(struct stepper *stepper, struct soft_thread *thread)
{
	if (tell_unmapping(stepper, thread))
		return;
	syscall_before(thread);
	record_log(stepper, thread, thread->ip);
	if (thread->encoder.on)
		encoder_end_far(&thread->encoder);
	encoder_flush(&thread->encoder);
	traps_requeue(thread);
	thread_resume(stepper, thread, PTRACE_SINGLESTEP, RUN_SYSCALL, deliverable(thread));
}

static void step_one(struct stepper *stepper, struct soft_thread *thread)
{
	if (thread->dr_on)
		debug_pass(thread);
	/* The trap after a uprobe is an ordinary signal: blocked, it would come too late. */
	if (thread->trap_blocked && !thread->mask_lost && fires_is_probe(thread))
		traps_unblock(thread);
	thread_resume(stepper, thread, PTRACE_SINGLESTEP, RUN_STEP, 0);
}

/* A string instruction is one instruction, but as many single steps as it has rounds. */
static bool run_past_rep(struct stepper *stepper, struct soft_thread *thread)
{
	const uint64_t end = thread->ip + thread->code.insn.length;

	if (thread->no_block || debug_set(thread, &end, 1))
		return false;
	thread_resume(stepper, thread, PTRACE_CONT, RUN_PAST_REP, 0);
	return true;
}

static void step_insn(struct stepper *stepper, struct soft_thread *thread)
{
	const enum soft_step mode = stepper->config->soft_step;

	switch (thread->code.kind) {
	case CODE_SYSCALL:
		step_syscall(stepper, thread);
		return;
	case CODE_INTERRUPT:
	case CODE_XBEGIN:
		/* The decoder must not see it: tracing ends before it, as at an exception. */
		record_end_at(thread, thread->ip);
		if (thread->code.kind == CODE_INTERRUPT)
			traps_restore(thread);
		step_one(stepper, thread);
		return;
	default:
		break;
	}
	if (mode == SOFT_STEP_BLOCK && !thread->no_block && !thread->own_tf) {
		if (!blocks_start(stepper, thread))
			return;
		stepper->stats.fallback_steps++;
	}
	if (thread->verify)
		blocks_predict(thread);
	if (thread->code.insn.is_rep_string && run_past_rep(stepper, thread))
		return;
	step_one(stepper, thread);
}

/* Code that no mapping of the last reading covers. True: the session was told, the thread waits. */
static bool found_new_code(struct stepper *stepper, struct soft_thread *thread)
{
	if (code_map_at(&thread->process->code, thread->ip) ||
	    code_refresh(&thread->process->code) <= 0)
		return false;
	thread->hold_event = true;
	stepper_tell(stepper, thread, SOURCE_MAPPED);
	return true;
}

static bool reached_entry(struct stepper *stepper, struct soft_thread *thread)
{
	if (thread->ip != thread->process->entry || !thread->ip)
		return false;
	thread->process->entry = 0;
	blocks_set_barriers(thread->process);
	thread->hold_event = true;
	stepper_tell(stepper, thread, SOURCE_ENTRY);
	return true;
}

static void step_user(struct stepper *stepper, struct soft_thread *thread)
{
	int err;

	affinity_pin(stepper, thread);
	traps_learn(thread);
	if (reached_entry(stepper, thread))
		return;
	if (stepper->config->evaluates && fires_evaluate(stepper, thread))
		return;
	err = code_at(&thread->process->code, thread->ip, thread->process->mode_32, &thread->code);
	if (err && found_new_code(stepper, thread))
		return;
	if (!err)
		record_begin(thread, thread->ip);
	if (rseq_pass(stepper, thread))
		return;
	if (err) {
		/* Emulated by the kernel (vsyscall), or the fault that ends it: no code to decode.
		 */
		record_end_at(thread, thread->ip);
		memset(&thread->code, 0, sizeof(thread->code));
		thread->code.kind = CODE_INTERRUPT;
		step_one(stepper, thread);
		return;
	}
	step_insn(stepper, thread);
}

void thread_go(struct stepper *stepper, struct soft_thread *thread)
{
	if (!thread_is_traced(thread) || stepper->detached || thread->exiting ||
	    !thread->process->code.slots) {
		go_free(stepper, thread);
		return;
	}
	if (thread->signal && traps_signal_is_dropped(thread->process, thread->signal))
		thread->signal = 0;
	if (thread->signal) {
		deliver(stepper, thread);
	} else if (thread->in_syscall || thread->restarting) {
		thread_resume(stepper, thread, PTRACE_SINGLESTEP, RUN_LEAVE, 0);
	} else {
		step_user(stepper, thread);
	}
}

void thread_go_if_free(struct stepper *stepper, struct soft_thread *thread)
{
	if (thread_is_traced(thread))
		return;
	if (thread_may_go(stepper, thread)) {
		thread_go(stepper, thread);
		if (thread->died) /* killed during a system call of the stepper's own */
			births_gone(stepper, thread, thread->exit_status);
	} else if (thread->process && thread->process->alone) {
		stepper->held_back = true;
	}
}
