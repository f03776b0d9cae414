// SPDX-License-Identifier: GPL-2.0-only
/*
 * A step costs a third when the stepper and the thread share a CPU: stepped threads are moved to
 * the stepper's. The program must not notice: what it asks and sets is its own mask.
 */
#include "record/soft/stepper.h"

#include <sys/syscall.h>

static void pin_self(struct stepper *stepper, const cpu_set_t *wanted)
{
	cpu_set_t one;
	int cpu = sched_getcpu();

	for (int i = 0; cpu >= 0 && !CPU_ISSET(cpu, wanted) && i < CPU_SETSIZE; i++)
		cpu = CPU_ISSET(i, wanted) ? i : cpu;
	if (cpu < 0)
		return;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	if (!sched_setaffinity(0, sizeof(one), &one)) {
		stepper->cpu = cpu;
		stepper->pinned_mask = one;
	}
}

void affinity_pin(struct stepper *stepper, struct soft_thread *thread)
{
	if (thread->pinned || thread->unpinnable)
		return;
	thread->unpinnable = true;
	if (sched_getaffinity(thread->tid, sizeof(thread->affinity), &thread->affinity))
		return;
	if (stepper->cpu < 0)
		pin_self(stepper, &thread->affinity);
	if (stepper->cpu < 0 || !CPU_ISSET(stepper->cpu, &thread->affinity))
		return; /* it may not run there: its steps are slow */
	thread->pinned = !sched_setaffinity(thread->tid, sizeof(cpu_set_t), &stepper->pinned_mask);
	thread->unpinnable = !thread->pinned;
}

void affinity_unpin(const struct stepper *stepper, struct soft_thread *thread)
{
	cpu_set_t now;

	if (!thread->pinned)
		return;
	thread->pinned = false;
	/* Somebody else has set another mask in the meantime: that one counts. */
	if (!sched_getaffinity(thread->tid, sizeof(now), &now) &&
	    CPU_EQUAL(&now, &stepper->pinned_mask))
		sched_setaffinity(thread->tid, sizeof(thread->affinity), &thread->affinity);
}

void affinity_inherit(const struct soft_thread *parent, pid_t child)
{
	if (parent->pinned)
		sched_setaffinity(child, sizeof(parent->affinity), &parent->affinity);
}

static struct soft_thread *meant(struct stepper *stepper, struct soft_thread *thread)
{
	return thread->args[0] ? thread_find(stepper, (pid_t)thread->args[0]) : thread;
}

void affinity_after(struct stepper *stepper, struct soft_thread *thread)
{
	struct soft_thread *other = meant(stepper, thread);
	const int64_t result = (int64_t)thread->regs.rax;

	if (!other || !other->pinned)
		return;
	if (thread->nr == SYS_sched_getaffinity && result > 0) {
		const size_t n =
			(size_t)result < sizeof(cpu_set_t) ? (size_t)result : sizeof(cpu_set_t);

		code_write_memory(&thread->process->code, thread->args[2], &other->affinity, n);
	} else if (thread->nr == SYS_sched_setaffinity && result == 0) {
		sched_getaffinity(other->tid, sizeof(other->affinity), &other->affinity);
		other->pinned = false;
		affinity_pin(stepper, other);
	}
}
