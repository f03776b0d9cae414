// SPDX-License-Identifier: GPL-2.0-only
/* The tables of traced threads and processes. */
#include "record/soft/stepper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

static struct soft_thread **bucket(struct stepper *stepper, pid_t tid)
{
	return &stepper->buckets[(uint32_t)tid % STEPPER_BUCKETS];
}

struct soft_thread *thread_find(struct stepper *stepper, pid_t tid)
{
	struct soft_thread *thread = *bucket(stepper, tid);

	while (thread && thread->tid != tid)
		thread = thread->hash_next;
	return thread;
}

struct soft_thread *thread_add(struct stepper *stepper, pid_t tid)
{
	struct soft_thread *thread = calloc(1, sizeof(*thread));
	struct soft_thread **head = bucket(stepper, tid);

	if (!thread)
		return NULL;
	thread->tid = tid;
	thread->newborn = true;
	thread->rseq_stale = true;
	thread->hash_next = *head;
	*head = thread;
	stepper->threads++;
	return thread;
}

static void process_release(struct stepper *stepper, struct soft_process *process)
{
	struct soft_process **link = &stepper->processes;

	if (--process->threads)
		return;
	while (*link != process)
		link = &(*link)->next;
	*link = process->next;
	code_close(&process->code);
	vec_free(&process->probes);
	vec_free(&process->sections);
	free(process);
}

void thread_remove(struct stepper *stepper, struct soft_thread *thread)
{
	struct soft_thread **link = bucket(stepper, thread->tid);

	record_take(stepper, thread);
	while (*link != thread)
		link = &(*link)->hash_next;
	*link = thread->hash_next;
	stepper->threads--;
	if (thread->insn_log)
		fclose(thread->insn_log);
	encoder_fini(&thread->encoder);
	if (thread->plan)
		block_plan_free(thread->plan);
	free(thread->verify);
	thread_set_state(thread, THREAD_RUNNING);
	if (thread->process) {
		thread->process->still -= thread->still;
		process_release(stepper, thread->process);
	}
	free(thread);
}

struct soft_process *process_find(struct stepper *stepper, pid_t pid)
{
	struct soft_process *process = stepper->processes;

	while (process && process->pid != pid)
		process = process->next;
	return process;
}

struct soft_process *process_add(struct stepper *stepper, pid_t pid)
{
	struct soft_process *process = calloc(1, sizeof(*process));

	if (!process)
		return NULL;
	process->pid = pid;
	process->code.mem_fd = -1;
	process->next = stepper->processes;
	stepper->processes = process;
	return process;
}

int thread_join(struct stepper *stepper, struct soft_thread *thread, pid_t pid)
{
	struct soft_process *process = process_find(stepper, pid);
	int err = 0;

	if (thread->process)
		return 0;
	if (!process) {
		process = process_add(stepper, pid);
		if (!process)
			return -ENOMEM;
		/* A process that just dies has no memory to open; it is never stepped either. */
		err = code_open(&process->code, pid);
		traps_read_process(process);
	}
	process->threads++;
	process->live++;
	thread->still = thread->state != THREAD_RUNNING;
	process->still += thread->still;
	thread->process = process;
	thread->pid = pid;
	return err;
}

void thread_set_state(struct soft_thread *thread, enum thread_state state)
{
	const bool still = state != THREAD_RUNNING ||
			   (thread->run == RUN_SYSCALL && syscall_writes_nothing(thread));

	if (thread->process)
		thread->process->still += still - thread->still;
	if (thread->process && thread->process->alone == thread)
		thread->process->alone = NULL;
	thread->still = still;
	thread->state = state;
}

void thread_for_each(struct stepper *stepper, thread_fn fn)
{
	for (size_t i = 0; i < STEPPER_BUCKETS; i++) {
		struct soft_thread *thread = stepper->buckets[i], *next;

		for (; thread; thread = next) {
			next = thread->hash_next;
			fn(stepper, thread);
		}
	}
}
