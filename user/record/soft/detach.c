// SPDX-License-Identifier: GPL-2.0-only
/*
 * Letting go. Neither the trap flag nor debug registers vanish with the tracer, and a trap already
 * queued would kill the target: each thread is brought to a clean stop first.
 */
#include "record/soft/stepper.h"

#include <sys/ptrace.h>

void detach_thread(struct stepper *stepper, struct soft_thread *thread)
{
	record_take(stepper, thread);
	debug_clear(thread);
	affinity_unpin(stepper, thread);
	if (thread->process && thread->known && !thread->let_go) {
		traps_restore(thread);
		traps_requeue(thread);
	}
	if (thread->signal && thread->signal_moved)
		ptrace(PTRACE_SETSIGINFO, thread->tid, 0, &thread->info);
	ptrace(PTRACE_DETACH, thread->tid, 0, thread->signal);
	thread_remove(stepper, thread);
}

static void detach_or_kick(struct stepper *stepper, struct soft_thread *thread)
{
	if (thread->state == THREAD_STOPPED) {
		detach_thread(stepper, thread);
		return;
	}
	if (thread->state == THREAD_LISTENING) {
		thread_set_state(thread, THREAD_RUNNING);
		thread->kicked = false;
	}
	thread_kick(thread);
}

void detach_all(struct stepper *stepper)
{
	stepper->detached = true;
	stepper->frozen = false;
	stepper->hold_all = false;
	thread_for_each(stepper, detach_or_kick);
}
