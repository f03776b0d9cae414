// SPDX-License-Identifier: GPL-2.0-only
/* Debug registers, and block plans carried out with them. */
#include "record/soft/stepper.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/ptrace.h>

#include "base/log.h"

#define DR7_ALL 0x55ul    /* L0..L3: execution, length 1 */
#define RSEQ_AREA 64      /* no struct rseq is larger yet */
#define FLAG_RF 0x10000ul /* resume flag: the breakpoint at the present ip is passed */

static int poke_debug(const struct soft_thread *thread, unsigned int i, uint64_t value)
{
	const size_t at = offsetof(struct user, u_debugreg) + i * sizeof(long);

	return ptrace(PTRACE_POKEUSER, thread->tid, at, value) ? -errno : 0;
}

static int debug_write(struct soft_thread *thread, const uint64_t addrs[BLOCK_REGISTERS])
{
	int err;

	for (unsigned int i = 0; i < BLOCK_REGISTERS; i++) {
		if (thread->dr[i] == addrs[i])
			continue;
		err = poke_debug(thread, i, addrs[i]);
		if (err)
			return err;
		thread->dr[i] = addrs[i];
	}
	if (thread->dr_on)
		return 0;
	err = poke_debug(thread, 7, DR7_ALL);
	thread->dr_on = !err;
	return err;
}

int debug_set(struct soft_thread *thread, const uint64_t *addrs, size_t n)
{
	uint64_t all[BLOCK_REGISTERS];
	int err;

	for (size_t i = 0; i < BLOCK_REGISTERS; i++)
		all[i] = addrs[i < n ? i : 0];
	err = debug_write(thread, all);
	if (err)
		debug_clear(thread);
	return err;
}

void debug_clear(struct soft_thread *thread)
{
	if (thread->dr_on)
		poke_debug(thread, 7, 0);
	thread->dr_on = false;
}

static bool debug_stops_at(const struct soft_thread *thread, uint64_t ip)
{
	for (size_t i = 0; thread->dr_on && i < BLOCK_REGISTERS; i++) {
		if (thread->dr[i] == ip)
			return true;
	}
	return false;
}

/* A register on the very ip would stop the thread before it did anything. */
int debug_pass(struct soft_thread *thread)
{
	int err;

	if (!debug_stops_at(thread, thread->ip))
		return 0;
	err = thread_fetch_regs(thread);
	if (err || thread->regs.eflags & FLAG_RF)
		return err;
	thread->regs.eflags |= FLAG_RF;
	return thread_store_regs(thread);
}

void blocks_set_barriers(struct soft_process *process)
{
	VEC(uint64_t) addrs = { 0 };
	int err = 0;

	for (size_t i = 0; i < process->probes.len && !err; i++)
		err = vec_push(&addrs, process->probes.data[i].ip);
	for (size_t i = 0; i < process->n_starts && !err; i++)
		err = vec_push(&addrs, process->starts[i]);
	if (process->entry && !err)
		err = vec_push(&addrs, process->entry);
	if (!err && process->code.blocks)
		err = block_cache_set_barriers(process->code.blocks, addrs.data, addrs.len);
	if (err)
		log_errno(err, "cannot stop block stepping at the triggers");
	vec_free(&addrs);
}

static struct block_reader reader_of(struct soft_thread *thread)
{
	const struct block_reader reader = {
		.code = code_read,
		.memory = code_read_memory,
		.ctx = &thread->process->code,
	};

	return reader;
}

/* Only the planned thread can write to the process's private memory. */
static bool is_exclusive(const struct soft_process *process)
{
	return process->still >= process->threads && !process->code.kernel_writes &&
	       !process->memory_is_shared;
}

static int blocks_plan(struct soft_thread *thread)
{
	struct code *code = &thread->process->code;
	const struct block_reader reader = reader_of(thread);

	if (thread->process->mode_32 || thread_fetch_regs(thread))
		return -EAGAIN;
	block_cache_set_exclusive(code->blocks, is_exclusive(thread->process));
	block_cache_set_unstable(code->blocks, thread->rseq, thread->rseq ? RSEQ_AREA : 0);
	return block_plan_make(thread->plan, code->blocks, &thread->regs, &reader);
}

int blocks_start(struct stepper *stepper, struct soft_thread *thread)
{
	const bool exclusive = is_exclusive(thread->process);
	uint64_t next[BLOCK_REGISTERS], current[BLOCK_REGISTERS] = { 0 };
	int err = blocks_plan(thread);

	if (err)
		return err;
	if (thread->dr_on)
		memcpy(current, thread->dr, sizeof(current));
	block_plan_registers(thread->plan, thread->process->code.blocks, current, next);
	err = debug_write(thread, next);
	if (!err)
		err = debug_pass(thread);
	if (err) {
		/* All four are somebody else's, a perf breakpoint's: this thread is stepped. */
		if (err == -EBUSY || err == -ENOSPC)
			thread->no_block = true;
		debug_clear(thread);
		return -EAGAIN;
	}
	thread_resume(stepper, thread, PTRACE_CONT, RUN_PLAN, 0);
	if (exclusive)
		thread->process->alone = thread;
	return 0;
}

/* The prediction failed: the trace says that something is missing rather than something wrong. */
static void disagree(struct stepper *stepper, struct soft_thread *thread, uint64_t ip)
{
	stepper->stats.disagreements++;
	log_debug("thread %d: the block at %#lx cannot have led to %#lx", thread->tid, thread->ip,
		  ip);
	block_cache_invalidate(thread->process->code.blocks, 0, UINT64_MAX);
	encoder_overflow(&thread->encoder, ip);
	record_gap(stepper, thread, "lost", stepper->resumed_ns);
}

/* The part of @path before the instruction at @ip: a fire that the plan ran past. */
static void cut_path(struct block_path *path, uint64_t from, uint64_t ip)
{
	for (size_t i = 0; i < path->n_events; i++) {
		if (ip >= from && ip <= path->events[i].from) {
			path->n_events = i;
			break;
		}
		from = path->events[i].to;
	}
}

void blocks_finish(struct stepper *stepper, struct soft_thread *thread, uint64_t ip)
{
	const struct block_reader reader = reader_of(thread);
	struct block_path path = { 0 };
	uint64_t fired;
	int err = thread_fetch_regs(thread);

	if (!err)
		err = block_plan_resolve(thread->plan, thread->process->code.blocks, &thread->regs,
					 &reader, &path);
	if (thread->drop || !thread_is_traced(thread) || !thread->encoder.on)
		return;
	if (err) {
		disagree(stepper, thread, ip);
	} else if (fires_hit(stepper, thread, &fired)) {
		if (fired != ip)
			cut_path(&path, thread->ip, fired);
		record_path(stepper, thread, &path);
		record_end_at(thread, fired);
	} else {
		record_path(stepper, thread, &path);
	}
}

/* verify: what the predictor says about the instruction that is about to be stepped. */
void blocks_predict(struct soft_thread *thread)
{
	struct block_cache *blocks = thread->process->code.blocks;
	const struct block_reader reader = reader_of(thread);
	struct verify *verify = thread->verify;

	verify->outcome = false;
	if (thread->process->mode_32 || thread->own_tf || thread_fetch_regs(thread))
		return;
	verify->outcome = !block_outcome(blocks, &thread->regs, &reader, &verify->event,
					 &verify->has_event, &verify->next);
	if (!verify->planned && !blocks_plan(thread)) {
		verify->planned = true;
		verify->n_events = 0;
		verify->instructions = 0;
		verify->n_stops = block_plan_stops(thread->plan, verify->stops);
	}
}

static void verify_failed(struct stepper *stepper, const struct soft_thread *thread,
			  const char *what, uint64_t to)
{
	stepper->stats.disagreements++;
	log_debug("thread %d: %s: %#lx led to %#lx", thread->tid, what, thread->ip, to);
}

static void verify_plan(struct stepper *stepper, struct soft_thread *thread, uint64_t to)
{
	struct verify *verify = thread->verify;
	const struct block_reader reader = reader_of(thread);
	struct block_path path = { 0 };
	int err;

	err = thread_fetch_regs(thread);
	if (!err)
		err = block_plan_resolve(thread->plan, thread->process->code.blocks, &thread->regs,
					 &reader, &path);
	verify->planned = false;
	if (err) {
		verify_failed(stepper, thread, "no path of the plan", to);
		return;
	}
	if (path.n_events != verify->n_events || path.instructions != verify->instructions) {
		verify_failed(stepper, thread, "another path of the plan", to);
		return;
	}
	for (size_t i = 0; i < path.n_events; i++) {
		const struct block_event *a = &path.events[i], *b = &verify->events[i];

		if (a->from == b->from && a->to == b->to && a->kind == b->kind)
			continue;
		verify_failed(stepper, thread, "another event of the plan", to);
		return;
	}
	stepper->stats.verified++;
}

static bool is_event(const struct code_insn *code)
{
	switch (code->insn.class) {
	case INSN_JCC:
	case INSN_CALL:
	case INSN_CALL_IND:
	case INSN_JMP_IND:
	case INSN_RET:
		return true;
	default:
		return false;
	}
}

static struct block_event event_of(const struct soft_thread *thread, const struct code_insn *code,
				   uint64_t to)
{
	struct block_event event = { .from = thread->ip, .to = to, .kind = BLOCK_CALL };

	if (code->insn.class == INSN_JCC)
		event.kind = to == code->insn.target ? BLOCK_TAKEN : BLOCK_NOT_TAKEN;
	else if (code->insn.class == INSN_RET)
		event.kind = BLOCK_RETURN;
	else if (code->insn.class != INSN_CALL)
		event.kind = BLOCK_INDIRECT;
	return event;
}

void blocks_verify(struct stepper *stepper, struct soft_thread *thread,
		   const struct code_insn *code, uint64_t to)
{
	struct verify *verify = thread->verify;
	const struct block_event event = event_of(thread, code, to);
	bool at_stop = false;

	if (verify->outcome && verify->next != to)
		verify_failed(stepper, thread, "another outcome", to);
	if (verify->outcome && verify->has_event != is_event(code))
		verify_failed(stepper, thread, "another kind", to);
	if (!verify->planned)
		return;
	verify->instructions++;
	if (is_event(code) && verify->n_events < VERIFY_EVENTS)
		verify->events[verify->n_events++] = event;
	for (size_t i = 0; i < verify->n_stops; i++)
		at_stop |= verify->stops[i] == to;
	if (at_stop)
		verify_plan(stepper, thread, to);
}
