// SPDX-License-Identifier: GPL-2.0-only
/* What each branch event does to the stack. */
#include "calls/calls.h"

#include <stdlib.h>

#include "base/mem.h"
#include "calls/state.h"

/* The side-band's exec time against the trace's: two clock readings and a fit. */
#define EXEC_SLACK_NS 50000

static bool look_up(struct calls *calls, uint64_t addr, uint64_t time_ns,
		    struct calls_function *function)
{
	*function = (struct calls_function){ .id = CALLS_NO_NAME };
	if (calls->options.lookup(calls->options.lookup_ctx, addr, time_ns, function))
		return true;
	function->id = CALLS_NO_NAME;
	function->entry = addr;
	function->is_stub = function->resumes_unwind = false;
	return false;
}

/* Without a look-up: certainly still in the code of the top frame. */
static bool in_piece(const struct frame *frame, uint64_t addr)
{
	return frame->flags & FRAME_NAMED && addr >= frame->start && addr < frame->end;
}

/* Still the same activation; a stub's unnamed target runs under the stub's name. */
static bool same_function(struct frame *frame, const struct calls_function *function, bool named)
{
	if (!named)
		return frame->flags & FRAME_STUB ||
		       (!(frame->flags & FRAME_NAMED) && frame->start == function->start);
	if (!(frame->flags & FRAME_NAMED) || frame->entry != function->entry)
		return false;
	frame->start = function->start;
	frame->end = function->end;
	return true;
}

/* Code that no frame owns: a stack that was not seen before, or a caller of all that is open. */
static int enter_unseen(struct calls *calls, const struct calls_function *function, bool named,
			uint64_t at)
{
	int err;

	if (calls->complete) {
		err = stack_push_seam(calls, SEAM_SWITCH);
		return err ? err : stack_push(calls, function, named, at, 0, EDGE_INFERRED);
	}
	err = stack_cut(calls, 0, EDGE_UNWOUND);
	return err ? err : stack_add_caller(calls, function, named, at);
}

/* A return or indirect jump to the middle of a function. *done tells whether it was explained. */
static int land(struct calls *calls, const struct calls_function *function, bool named, uint64_t to,
		bool *done)
{
	uint32_t frame = stack_find_return(calls, to, function, named);
	int err;

	*done = true;
	if (frame != NONE)
		return stack_cut(calls, frame, EDGE_SEEN);
	err = stack_resume(calls, to, function);
	if (err)
		return err < 0 ? err : 0;
	*done = false;
	return 0;
}

static int land_in_owner(struct calls *calls, const struct calls_function *function, bool named,
			 uint64_t to)
{
	const uint32_t frame = named ? stack_find_owner(calls, function->entry) : NONE;

	if (frame == NONE)
		return enter_unseen(calls, function, named, to);
	if (frame + 1u < calls->frames.len)
		return stack_cut(calls, frame + 1, EDGE_UNWOUND);
	return 0;
}

/* The frame at the newest seam returned, to nothing known. */
static int leave_seam(struct calls *calls, const struct calls_function *function, bool named,
		      uint64_t to)
{
	struct seam *seam = stack_seam(calls);
	int err;

	err = stack_pop(calls, EDGE_SEEN);
	if (err)
		return err;
	if (seam->kind == SEAM_GAP && named) {
		const uint32_t owner = stack_find_owner(calls, function->entry);

		if (owner != NONE)
			return stack_cut(calls, owner + 1, EDGE_UNWOUND);
	}
	if (seam->kind == SEAM_SIGNAL && !seam->handler_returned) {
		seam->handler_returned = true;
		return stack_push(calls, function, named, to, 0, EDGE_SEEN);
	}
	return stack_add_caller(calls, function, named, to);
}

/* A handler returns to the restorer, whatever that is. */
static bool is_handler(struct calls *calls)
{
	return stack_at_seam(calls) && !stack_top(calls)->ra &&
	       stack_seam(calls)->kind == SEAM_SIGNAL && !stack_seam(calls)->handler_returned;
}

static int on_return(struct calls *calls, const struct branch *branch)
{
	const struct frame *top = stack_top(calls);
	struct calls_function function;
	bool named, done;
	int err;

	if (top->ra == branch->to && top->ra)
		return stack_pop(calls, EDGE_SEEN);
	named = look_up(calls, branch->to, branch->time_ns, &function);
	err = land(calls, &function, named, branch->to, &done);
	if (err || done)
		return err;
	if (is_handler(calls))
		return leave_seam(calls, &function, named, branch->to);
	if (named && branch->to == function.entry) {
		/* Not a return: a jump by way of the stack (thunk, resolver, first run of a
		 * coroutine). A thunk's own call pushed the slot that this used up. */
		const bool thunk = top->flags & FRAME_LOCAL;

		err = thunk ? stack_pop(calls, EDGE_SEEN) : 0;
		if (!err && stack_top(calls)->flags & FRAME_STUB) {
			stack_rename(calls, &function);
			return 0;
		}
		err = err ? err : stack_replace(calls, &function, named, branch->to);
		if (!err && !thunk)
			stack_top(calls)->flags |= FRAME_BY_RETURN;
		return err;
	}
	if (!top->ra && stack_at_seam(calls))
		return leave_seam(calls, &function, named, branch->to);
	return land_in_owner(calls, &function, named, branch->to);
}

static int on_jump(struct calls *calls, uint64_t to, uint64_t time_ns, bool indirect)
{
	struct frame *top = stack_top(calls);
	struct calls_function function;
	bool named, done;
	int err;

	if (in_piece(top, to))
		return 0;
	named = look_up(calls, to, time_ns, &function);
	if (same_function(top, &function, named))
		return 0;
	if (top->flags & FRAME_STUB) {
		stack_rename(calls, &function);
		return 0;
	}
	if (!indirect || (named && to == function.entry))
		return stack_replace(calls, &function, named, to);
	err = land(calls, &function, named, to, &done);
	if (err || done)
		return err;
	if (!named)
		return stack_replace(calls, &function, named, to);
	return land_in_owner(calls, &function, named, to);
}

static int on_call(struct calls *calls, const struct branch *branch)
{
	const uint64_t ra = branch->from + branch->from_size;
	struct frame *top = stack_top(calls);
	struct calls_function function;
	bool named;

	if (branch->to == ra) /* reads its own address */
		return 0;
	if (in_piece(top, branch->to) && branch->to != top->entry)
		return stack_push_local(calls, ra);
	named = look_up(calls, branch->to, branch->time_ns, &function);
	if (named && branch->to != function.entry && same_function(top, &function, named))
		return stack_push_local(calls, ra);
	return stack_push(calls, &function, named, branch->to, ra, EDGE_SEEN);
}

/* Code that runs on into the next function, or a move that was not decoded. */
static int follow(struct calls *calls, const struct branch *branch)
{
	struct frame *top = stack_top(calls);
	struct calls_function function;
	uint32_t owner;

	if (!branch->from || in_piece(top, branch->from))
		return 0;
	if (!look_up(calls, branch->from, branch->time_ns, &function) ||
	    same_function(top, &function, true))
		return 0;
	owner = stack_find_owner(calls, function.entry);
	if (owner != NONE && owner + 1u < calls->frames.len && function.start != top->end)
		return stack_cut(calls, owner + 1, EDGE_UNWOUND);
	return stack_replace(calls, &function, true, branch->from);
}

/* The first frame of the trace, or of the trace after a gap or exec. */
static int begin_at(struct calls *calls, uint64_t at, uint64_t time_ns, bool is_program_start)
{
	struct calls_function function;
	const bool named = look_up(calls, at, time_ns, &function);
	const bool at_entry = named ? at == function.entry : is_program_start;

	return stack_push(calls, &function, named, at, 0, at_entry ? EDGE_SEEN : EDGE_INFERRED);
}

static int end_all(struct calls *calls, enum slice_edge edge)
{
	const bool complete = calls->complete;
	int err;

	calls->complete = true; /* nothing of it can come back */
	err = calls->frames.len ? stack_cut(calls, 0, edge) : 0;
	calls->complete = complete;
	return err;
}

/* A new program: nothing of the old one comes back. */
static int on_exec(struct calls *calls, uint64_t to, uint64_t time_ns)
{
	struct seam *seam = &calls->seams.data[0];
	int err;

	err = end_all(calls, EDGE_UNWOUND);
	for (struct parked *it = calls->parked; it < calls->parked + PARKED_STACKS; it++)
		it->n = 0;
	seam->first_root = seam->last_root = seam->key = NONE;
	calls->complete = true;
	if (!err)
		time_estimate(calls, time_ns);
	time_anchor(calls, time_ns, true);
	return err ? err : begin_at(calls, to, time_ns, true);
}

static bool take_exec(struct calls *calls, uint64_t time_ns)
{
	const struct calls_options *options = &calls->options;
	bool taken = false;

	while (calls->execs_seen < options->n_execs &&
	       options->execs[calls->execs_seen] <= time_ns + EXEC_SLACK_NS) {
		calls->execs_seen++;
		taken = true;
	}
	return taken;
}

/* sigreturn: 1 when @to is where a signal interrupted the code below it. */
static int leave_signal(struct calls *calls, uint64_t to)
{
	for (size_t s = calls->seams.len; s-- > 1;) {
		const struct seam *seam = &calls->seams.data[s];
		int err;

		if (seam->kind != SEAM_SIGNAL || (seam->resume[0] != to && seam->resume[1] != to))
			continue;
		if (s + 1 == calls->seams.len && stack_at_seam(calls) && seam->handler_returned) {
			/* The restorer alone is left: it ends as it should. */
			err = stack_pop(calls, EDGE_SEEN);
			calls->seams.len--;
		} else {
			err = stack_cut(calls, seam->frame, EDGE_UNWOUND);
		}
		return err ? err : 1;
	}
	return 0;
}

static int enter_handler(struct calls *calls, const struct calls_function *function, bool named,
			 uint64_t at)
{
	int err = stack_push_seam(calls, SEAM_SIGNAL);

	if (err)
		return err;
	stack_seam(calls)->resume[0] = calls->off_resume[0];
	stack_seam(calls)->resume[1] = calls->off_resume[1];
	err = stack_push(calls, function, named, at, 0, EDGE_SEEN);
	if (!err)
		calls->out->slices.data[stack_top(calls)->slice].signal_handler = true;
	return err;
}

static int gap_seam(struct calls *calls, uint64_t at, uint64_t time_ns)
{
	int err = 0;

	if (calls->frames.len) {
		err = stack_push_seam(calls, SEAM_GAP);
		if (!err)
			stack_seam(calls)->gap_begin_ns = calls->gap_begin_ns;
	}
	return err ? err : begin_at(calls, at, time_ns, false);
}

/* Tracing begins again at a place that is not where it went off. */
static int on_moved(struct calls *calls, uint64_t to, uint64_t time_ns)
{
	const uint8_t off = calls->off_kind;
	struct calls_function function;
	struct seam *seam = stack_seam(calls);
	bool named;
	int err;

	if (off == BRANCH_SYSCALL) {
		err = leave_signal(calls, to);
		if (err)
			return err < 0 ? err : 0;
		if (seam->kind == SEAM_SIGNAL && seam->handler_returned && stack_at_seam(calls)) {
			calls->off_resume[0] = seam->resume[0];
			calls->off_resume[1] = seam->resume[1];
			err = stack_pop(calls, EDGE_SEEN);
			calls->seams.len--;
			if (err)
				return err;
			/* Of two signals at once the other's handler comes now. */
			if (look_up(calls, to, time_ns, &function) && to == function.entry)
				return enter_handler(calls, &function, true, to);
			/* The handler changed where the interrupted code goes on. */
			return on_jump(calls, to, time_ns, true);
		}
	}
	named = look_up(calls, to, time_ns, &function);
	if (off != BRANCH_SYSCALL && off != BRANCH_ASYNC) {
		calls->gap_begin_ns = calls->anchor_ns;
		return gap_seam(calls, to, time_ns);
	}
	if (!named || to == function.entry)
		return enter_handler(calls, &function, named, to);
	/* A restarted rseq section, an aborted transaction, a debugger's hand. */
	return on_jump(calls, to, time_ns, true);
}

static int on_begin(struct calls *calls, uint64_t to, uint64_t time_ns)
{
	const bool resumes = calls->off_kind != BRANCH_BEGIN &&
			     (to == calls->off_resume[0] || to == calls->off_resume[1]);
	int err = 0;

	if (!calls->frames.len) {
		calls->complete = calls->options.from_birth;
		err = begin_at(calls, to, time_ns, calls->complete);
	} else if (!resumes && calls->off_kind == BRANCH_SYSCALL && take_exec(calls, time_ns)) {
		err = on_exec(calls, to, time_ns);
	} else {
		/* What ran before tracing went off took its own time, not that of the pause. */
		time_estimate(calls, time_ns);
		if (!resumes &&
		    (calls->off_kind != BRANCH_BEGIN || !in_piece(stack_top(calls), to)))
			err = on_moved(calls, to, time_ns);
		time_anchor(calls, time_ns, true);
	}
	calls->off_kind = BRANCH_BEGIN;
	return err;
}

static int on_gap(struct calls *calls, const struct branch *branch, uint64_t time_ns)
{
	const struct gap gap = {
		.begin_ns = time_ns,
		.end_ns = time_ns,
		.reason = branch->gap,
		.error = branch->flags & BRANCH_GAP_ERROR,
		.offset = branch->offset,
	};

	if (calls->started && (branch->flags & BRANCH_TIME_EXACT || time_ns > calls->anchor_ns))
		time_anchor(calls, time_ns, branch->flags & BRANCH_TIME_EXACT);
	if (!calls->open_gaps)
		calls->gap_from = branch->from;
	calls->gap_reason = branch->gap;
	calls->open_gaps++;
	return vec_push(&calls->out->gaps, gap);
}

/* The times of a gap are known when the trace goes on (or ends) at @time_ns. */
static void close_gaps(struct calls *calls, uint64_t time_ns)
{
	struct thread_timeline *out = calls->out;
	struct gap *previous = NULL;

	calls->gap_begin_ns = calls->started ? time_estimate(calls, time_ns) : time_ns;
	for (; calls->open_gaps; calls->open_gaps--) {
		struct gap *gap = &out->gaps.data[out->gaps.len - calls->open_gaps];

		if (gap->begin_ns < calls->gap_begin_ns || gap->begin_ns > time_ns)
			gap->begin_ns = calls->gap_begin_ns;
		/* Gaps that touch do not overlap. */
		gap->end_ns = time_ns;
		if (previous)
			previous->end_ns = gap->begin_ns;
		previous = gap;
	}
}

/* A change of rings holds the thread, and a section that cannot be stepped calls nothing. */
static bool went_on(struct calls *calls, uint64_t at, uint64_t time_ns)
{
	struct calls_function function;

	if (calls->gap_reason == GAP_RESIZE)
		return at == calls->gap_from ||
		       (calls->off_kind != BRANCH_BEGIN &&
			(at == calls->off_resume[0] || at == calls->off_resume[1]));
	if (calls->gap_reason != GAP_ATOMIC)
		return false;
	return same_function(stack_top(calls), &function, look_up(calls, at, time_ns, &function));
}

static int after_gap(struct calls *calls, uint64_t at, uint64_t time_ns)
{
	close_gaps(calls, time_ns);
	if (!calls->frames.len)
		return 0;
	if (take_exec(calls, time_ns))
		return on_exec(calls, at, time_ns);
	if (went_on(calls, at, time_ns)) {
		time_anchor(calls, time_ns, true);
		return 0;
	}
	time_anchor(calls, time_ns, true);
	return gap_seam(calls, at, time_ns);
}

static void go_off(struct calls *calls, const struct branch *branch)
{
	calls->off_kind = branch->kind;
	calls->off_resume[0] = calls->off_resume[1] = branch->from;
	if (branch->kind == BRANCH_SYSCALL)
		calls->off_resume[0] += branch->from_size;
}

static int move(struct calls *calls, const struct branch *branch, uint64_t time_ns)
{
	switch ((enum branch_kind)branch->kind) {
	case BRANCH_CALL:
		return on_call(calls, branch);
	case BRANCH_RETURN:
		return on_return(calls, branch);
	case BRANCH_JUMP:
	case BRANCH_COND:
		return on_jump(calls, branch->to, time_ns, branch->flags & BRANCH_INDIRECT);
	case BRANCH_FAR:
	case BRANCH_ABORT:
		return on_jump(calls, branch->to, time_ns, true);
	case BRANCH_SYSCALL:
	case BRANCH_ASYNC:
		go_off(calls, branch);
		return branch->to ? on_begin(calls, branch->to, time_ns) : 0;
	default:
		return 0;
	}
}

static int on_branch(struct calls *calls, const struct branch *branch)
{
	const bool begins = branch->kind == BRANCH_BEGIN;
	uint64_t time_ns = branch->time_ns;
	int err = 0;

	if (calls->started && time_ns < calls->anchor_ns)
		time_ns = calls->anchor_ns;
	if (branch->kind == BRANCH_GAP)
		return on_gap(calls, branch, time_ns);
	if (!calls->started) {
		calls->anchor_ns = time_ns;
		calls->anchor_exact = begins || branch->flags & BRANCH_TIME_EXACT;
		take_exec(calls, time_ns);
	}
	if (calls->open_gaps) {
		err = after_gap(calls, begins ? branch->to : branch->from, time_ns);
		calls->started = true;
		if (err || (begins && calls->frames.len)) {
			calls->off_kind = BRANCH_BEGIN;
			return err;
		}
	}
	calls->started = true;
	if (begins)
		return on_begin(calls, branch->to, time_ns);
	if (!calls->frames.len)
		err = begin_at(calls, branch->from, time_ns, false);
	if (err)
		return err;
	calls->position += branch->insns;
	calls->out->slices.data[stack_top(calls)->slice].insns += branch->insns;
	if (branch->kind != BRANCH_ABORT)
		err = follow(calls, branch);
	if (!err && branch->kind != BRANCH_SYSCALL && branch->kind != BRANCH_ASYNC && !branch->to)
		go_off(calls, branch);
	else if (!err)
		err = move(calls, branch, time_ns);
	if (branch->flags & BRANCH_TIME_EXACT || time_ns > calls->anchor_ns)
		time_anchor(calls, time_ns, branch->flags & BRANCH_TIME_EXACT);
	return err;
}

int calls_feed(void *ctx, const struct branch *branches, size_t n)
{
	struct calls *calls = ctx;
	int err = 0;

	for (size_t i = 0; !err && i < n; i++)
		err = on_branch(calls, &branches[i]);
	return err;
}

int calls_finish(struct calls *calls, uint64_t end_ns)
{
	const bool in_gap = calls->open_gaps;
	uint64_t end = end_ns > calls->anchor_ns ? end_ns : calls->anchor_ns;
	const struct frame *frame;

	if (in_gap)
		close_gaps(calls, end);
	else
		time_estimate(calls, end_ns ? end : UINT64_MAX);
	if (in_gap)
		end = calls->gap_begin_ns;
	else if (!end_ns)
		end = calls->anchor_ns;
	stack_settle_gaps(calls);
	vec_for_each(frame, &calls->frames) {
		if (!(frame->flags & FRAME_LOCAL) && frame->slice != NONE)
			slice_close_at(calls, frame->slice, EDGE_INFERRED, end);
	}
	return slices_finish(calls);
}

int calls_new(struct thread_timeline *out, const struct calls_options *options, struct calls **made)
{
	struct calls *calls = calloc(1, sizeof(*calls));

	if (!calls)
		return -ENOMEM;
	calls->out = out;
	calls->options = *options;
	calls->off_kind = BRANCH_BEGIN;
	stack_init(calls);
	if (stack_push_seam(calls, SEAM_START)) {
		calls_free(calls);
		return -ENOMEM;
	}
	*made = calls;
	return 0;
}

void calls_free(struct calls *calls)
{
	if (!calls)
		return;
	for (struct parked *it = calls->parked; it < calls->parked + PARKED_STACKS; it++)
		free(it->frames);
	vec_free(&calls->frames);
	vec_free(&calls->seams);
	vec_free(&calls->edges);
	vec_free(&calls->late);
	free(calls);
}
