// SPDX-License-Identifier: GPL-2.0-only
/*
 * Letting go. Neither the trap flag nor debug registers vanish with the tracer, a trap already
 * queued would kill the target, and a trap forced on one thread can undo the SIGTRAP handler of
 * all. So everything is brought to a stop first, then put right, then let go together.
 */
#include "record/soft/stepper.h"

#include <sys/ptrace.h>

#include "base/clock.h"

#define TOGETHER_NS 500000000ull /* a parent in vfork() cannot stop before its child execs */

static void detach_thread(struct stepper *stepper, struct soft_thread *thread)
{
	if (thread->state != THREAD_STOPPED)
		return;
	record_take(stepper, thread);
	debug_clear(thread);
	affinity_unpin(stepper, thread);
	if (thread->process && thread->known && !thread->let_go) {
		traps_restore(thread);
		traps_requeue(thread);
	}
	if (thread->died) {
		births_gone(stepper, thread, thread->exit_status);
		return;
	}
	if (thread->signal && thread->signal_moved)
		ptrace(PTRACE_SETSIGINFO, thread->tid, 0, &thread->info);
	ptrace(PTRACE_DETACH, thread->tid, 0, thread->signal);
	thread_remove(stepper, thread);
}

static void stop_thread(struct stepper *stepper, struct soft_thread *thread)
{
	if (thread->state == THREAD_LISTENING) {
		thread_set_state(thread, THREAD_RUNNING);
		thread->kicked = false;
	}
	thread_kick(thread);
	stepper->running += thread->state == THREAD_RUNNING;
}

/* While all stand still: one thread of each process brings its handler back. */
static void restore_handler(struct stepper *stepper, struct soft_thread *thread)
{
	(void)stepper;
	if (thread->state == THREAD_STOPPED && thread->process && thread->known && !thread->let_go)
		traps_restore(thread);
}

void detach_all(struct stepper *stepper)
{
	const uint64_t now = clock_now_ns();

	if (!stepper->detached)
		stepper->detached_ns = now;
	stepper->detached = true;
	stepper->frozen = false;
	stepper->hold_all = false;
	stepper->running = 0;
	thread_for_each(stepper, stop_thread);
	if (stepper->running && now - stepper->detached_ns < TOGETHER_NS)
		return;
	thread_for_each(stepper, restore_handler);
	thread_for_each(stepper, detach_thread);
}
