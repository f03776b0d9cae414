// SPDX-License-Identifier: GPL-2.0-only
/*
 * Restartable sequences: the kernel sends a thread that was stopped inside one to its abort
 * address. Stepping through one would never end, so it runs to its end at full speed.
 */
#include "record/soft/stepper.h"

#include <stddef.h>
#include <sys/ptrace.h>

#include "base/clock.h"
#include "base/log.h"

#define FLAG_RF 0x10000ul
#define RSEQ_CS 8u /* offsetof(struct rseq, rseq_cs) */

struct rseq_descriptor {
	uint32_t version, flags;
	uint64_t start, length, abort;
};

void rseq_find(struct soft_thread *thread)
{
	struct __ptrace_rseq_configuration config = { 0 };

	thread->rseq = 0;
	thread->rseq_stale = true;
	if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, thread->tid, sizeof(config), &config) <= 0)
		return;
	thread->rseq = config.rseq_abi_pointer;
	if (thread->process && !thread->process->code.rseq)
		thread->process->code.rseq = thread->rseq;
}

/* The section that the thread is in by its own word; false: in none. */
static bool active_section(struct soft_thread *thread, struct rseq_descriptor *section)
{
	struct code *code = &thread->process->code;

	if (thread->rseq_stale) {
		thread->rseq_cs = 0;
		code_read_memory(code, thread->rseq + RSEQ_CS, &thread->rseq_cs,
				 sizeof(thread->rseq_cs));
		thread->rseq_stale = false;
	}
	if (!thread->rseq_cs)
		return false;
	if (code_read_memory(code, thread->rseq_cs, section, sizeof(*section)) != sizeof(*section))
		return false;
	return thread->ip - section->start < section->length;
}

static struct rseq_section *known_section(struct soft_process *process,
					  const struct rseq_descriptor *descriptor)
{
	const struct rseq_section fresh = {
		.start = descriptor->start,
		.end = descriptor->start + descriptor->length,
		.abort = descriptor->abort,
	};
	struct rseq_section *section;

	vec_for_each(section, &process->sections) {
		if (section->start == fresh.start && section->end == fresh.end)
			return section;
	}
	if (vec_push(&process->sections, fresh))
		return NULL;
	return &process->sections.data[process->sections.len - 1];
}

/* Where a run through the section comes out: its end, and the jumps that leave it. */
static size_t exits_of(struct soft_thread *thread, const struct rseq_section *section,
		       uint64_t exits[BLOCK_REGISTERS])
{
	uint64_t ip = section->start;
	struct code_insn code;
	size_t n = 0;

	exits[n++] = section->end;
	/* The first time, the abort handler is shown; then it must be left alone to succeed. */
	if (section->aborts <= 1)
		exits[n++] = section->abort;
	while (ip < section->end && n < BLOCK_REGISTERS) {
		if (code_at(&thread->process->code, ip, false, &code))
			break;
		if ((code.insn.class == INSN_JCC || code.insn.class == INSN_JMP) &&
		    code.insn.target - section->start >= section->end - section->start &&
		    code.insn.target != section->abort)
			exits[n++] = code.insn.target;
		ip += code.insn.length;
	}
	return n;
}

bool rseq_pass(struct stepper *stepper, struct soft_thread *thread)
{
	uint64_t exits[BLOCK_REGISTERS];
	struct rseq_descriptor descriptor;
	struct rseq_section *section;
	size_t n;

	if (!thread->rseq || !active_section(thread, &descriptor))
		return false;
	section = known_section(thread->process, &descriptor);
	if (!section || thread_fetch_regs(thread))
		return false;
	section->aborts++;
	n = exits_of(thread, section, exits);
	if (debug_set(thread, exits, n))
		return false;
	if (thread->regs.eflags & FLAG_RF) {
		/* It would pass the register on the abort address. */
		thread->regs.eflags &= ~FLAG_RF;
		if (thread_store_regs(thread))
			return false;
	}
	log_debug("thread %d: restartable sequence %#lx-%#lx runs unstepped", thread->tid,
		  section->start, section->end);
	record_end_at(thread, thread->ip);
	thread->gap_from_ns = clock_now_ns();
	thread_resume(stepper, thread, PTRACE_CONT, RUN_ATOMIC, 0);
	return true;
}
