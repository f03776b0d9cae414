// SPDX-License-Identifier: GPL-2.0-only
/* What a stepped thread did, into its ring. */
#include "record/soft/stepper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"

static void open_insn_log(const struct stepper *stepper, struct soft_thread *thread)
{
	char path[4096];

	if (!stepper->config->insn_log || thread->insn_log)
		return;
	snprintf(path, sizeof(path), "%s/%d.insns", stepper->config->insn_log, thread->tid);
	thread->insn_log = fopen(path, "ae");
	if (!thread->insn_log)
		log_errno(-errno, "cannot write %s", path);
}

int record_give(struct stepper *stepper, struct soft_thread *thread, const struct aux_ring *ring)
{
	const uint64_t *steps = stepper->config->step_clock ? &stepper->steps : NULL;
	int err = 0;

	if (!thread->encoder.packets)
		err = encoder_init(&thread->encoder, steps);
	if (!err && !thread->plan)
		err = block_plan_new(&thread->plan);
	if (!err && !thread->verify && stepper->config->soft_step == SOFT_STEP_VERIFY) {
		thread->verify = calloc(1, sizeof(*thread->verify));
		err = thread->verify ? 0 : -ENOMEM;
	}
	if (!err)
		err = vec_push(&stepper->stepped, thread);
	if (err)
		return err;
	thread->ring = *ring;
	open_insn_log(stepper, thread);
	encoder_attach(&thread->encoder, &thread->ring);
	return 0;
}

void record_take(struct stepper *stepper, struct soft_thread *thread)
{
	if (!thread_is_traced(thread))
		return;
	record_end_at(thread, thread->ip);
	encoder_detach(&thread->encoder);
	aux_ring_free(&thread->ring);
	for (size_t i = 0; i < stepper->stepped.len; i++) {
		if (stepper->stepped.data[i] == thread)
			stepper->stepped.data[i] = stepper->stepped.data[--stepper->stepped.len];
	}
	if (thread->insn_log)
		fflush(thread->insn_log);
	if (thread->state == THREAD_RUNNING)
		thread->drop = true;
}

void record_end_at(struct soft_thread *thread, uint64_t ip)
{
	if (!thread_is_traced(thread))
		return;
	if (thread->encoder.on)
		encoder_end_at(&thread->encoder, ip);
	encoder_flush(&thread->encoder);
}

void record_begin(struct soft_thread *thread, uint64_t ip)
{
	if (thread_is_traced(thread) && !thread->encoder.on)
		encoder_begin(&thread->encoder, ip, thread->process->mode_32);
}

void record_log(struct stepper *stepper, struct soft_thread *thread, uint64_t ip)
{
	encoder_ran(&thread->encoder);
	stepper->steps++;
	stepper->stats.instructions++;
	thread->ring.header->instructions++;
	if (thread->insn_log && stepper->config->soft_step != SOFT_STEP_BLOCK)
		fwrite(&ip, sizeof(ip), 1, thread->insn_log);
}

/* Calls to the next instruction only read the address: neither decoder remembers them. */
static void encode_call(struct encoder *encoder, uint64_t return_address, uint64_t to, bool direct)
{
	if (!direct || return_address != to)
		encoder_call(encoder, return_address);
}

void record_step(struct stepper *stepper, struct soft_thread *thread, const struct code_insn *code,
		 uint64_t to)
{
	struct encoder *encoder = &thread->encoder;
	const uint64_t next = thread->ip + code->insn.length;

	if (!thread_is_traced(thread) || !encoder->on)
		return;
	record_log(stepper, thread, thread->ip);
	switch (code->insn.class) {
	case INSN_JCC:
		encoder_cond(encoder, to == code->insn.target, to);
		break;
	case INSN_CALL:
		encode_call(encoder, next, to, true);
		break;
	case INSN_CALL_IND:
		encode_call(encoder, next, to, false);
		encoder_indirect(encoder, to);
		break;
	case INSN_JMP_IND:
		encoder_indirect(encoder, to);
		break;
	case INSN_RET:
		encoder_return(encoder, to);
		break;
	case INSN_FAR:
		encoder_far(encoder, to, thread->process->mode_32);
		break;
	default:
		break;
	}
}

/* The instructions from @ip to the one at @to, over direct jumps; @to itself not counted. */
static uint64_t count_straight(struct soft_thread *thread, uint64_t ip, uint64_t to)
{
	struct code_insn code;
	uint64_t n = 0;

	while (ip != to && n < 1u << 20) {
		if (code_at(&thread->process->code, ip, false, &code))
			break;
		ip = code.insn.class == INSN_JMP ? code.insn.target : ip + code.insn.length;
		n++;
	}
	return n;
}

static void encode_event(struct encoder *encoder, const struct block_event *event)
{
	switch (event->kind) {
	case BLOCK_TAKEN:
	case BLOCK_NOT_TAKEN:
		encoder_cond(encoder, event->kind == BLOCK_TAKEN, event->to);
		break;
	case BLOCK_INDIRECT:
		if (event->return_address)
			encode_call(encoder, event->return_address, event->to, false);
		encoder_indirect(encoder, event->to);
		break;
	case BLOCK_RETURN:
		encoder_return(encoder, event->to);
		break;
	default:
		encode_call(encoder, event->return_address, event->to, true);
		break;
	}
}

void record_path(struct stepper *stepper, struct soft_thread *thread, const struct block_path *path)
{
	const uint64_t steps = stepper->steps;
	uint64_t ip = thread->ip;

	if (!thread_is_traced(thread) || !thread->encoder.on || !path->instructions)
		return;
	encoder_ran(&thread->encoder);
	for (size_t i = 0; i < path->n_events; i++) {
		const struct block_event *event = &path->events[i];

		/* Packets that carry the step clock must carry the same count as in insn mode. */
		if (stepper->config->step_clock)
			stepper->steps += count_straight(thread, ip, event->from) + 1;
		encode_event(&thread->encoder, event);
		ip = event->to;
	}
	stepper->steps = steps + path->instructions;
	stepper->stats.instructions += path->instructions;
	thread->ring.header->instructions += path->instructions;
	encoder_flush(&thread->encoder);
}

void record_gap(struct stepper *stepper, struct soft_thread *thread, const char *class,
		uint64_t since_ns)
{
	struct source_event event = {
		.kind = SOURCE_GAP,
		.pid = thread->pid,
		.tid = thread->tid,
		.time_ns = clock_now_ns(),
	};

	if (!thread_is_traced(thread))
		return;
	event.length_ns = event.time_ns - since_ns;
	if (!thread->encoder.on)
		event.offset = encoder_restart(&thread->encoder);
	snprintf(event.text, sizeof(event.text), "%s", class);
	stepper_send(stepper, &event);
}
