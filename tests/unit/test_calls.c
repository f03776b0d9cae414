// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: calls/calls calls/stack calls/slices calls/timeline
 *
 * Properties that hold for any event stream, and a model program that keeps its own log.
 */
#include "unit.h"

#include "calls/calls.h"

#define N_FUNCTIONS 24
#define FUNCTION_SIZE 0x100u
#define CODE 0x10000u

struct random {
	uint64_t state;
};

static uint32_t draw(struct random *random, uint32_t below)
{
	random->state = random->state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(random->state >> 33) % below;
}

/* Function 0 to 19 have names, the code above has none; 18 is a stub, 19 resumes unwinding. */
static bool look_up(void *ctx, uint64_t addr, uint64_t time_ns, struct calls_function *function)
{
	const uint64_t i = (addr - CODE) / FUNCTION_SIZE;

	(void)ctx;
	(void)time_ns;
	if (addr < CODE || i >= 20) {
		function->start = CODE + 20 * FUNCTION_SIZE;
		function->end = UINT64_MAX;
		return false;
	}
	*function = (struct calls_function){
		.id = (uint32_t)i,
		.entry = CODE + (i == 17 ? 3 : i) * FUNCTION_SIZE, /* 17 is a part of 3 */
		.start = CODE + i * FUNCTION_SIZE,
		.end = CODE + (i + 1) * FUNCTION_SIZE,
		.is_stub = i == 18,
		.resumes_unwind = i == 19,
	};
	if (i == 17)
		function->id = 3;
	return true;
}

static const struct calls_options options = { .lookup = look_up };

/* Slices nest: parents come first and enclose, siblings do not overlap, self times add up. */
static void check_nesting(const struct thread_timeline *thread)
{
	struct {
		uint64_t last_end, children;
	} *const states = calloc(thread->slices.len + 1, sizeof(*states));
	uint64_t root_end = 0, last_begin = 0, inferred = 0;

	CHECK(states);
	for (size_t i = 0; i < thread->slices.len; i++) {
		const struct slice *slice = &thread->slices.data[i];
		uint64_t *last_end = &root_end;

		CHECK(slice->begin_ns <= slice->end_ns);
		CHECK(slice->begin_ns >= last_begin);
		CHECK(!(slice->flags & 0x80));
		last_begin = slice->begin_ns;
		inferred += slice->begin_edge == EDGE_INFERRED || slice->end_edge == EDGE_INFERRED;
		if (slice->parent != UINT32_MAX) {
			const struct slice *parent = &thread->slices.data[slice->parent];

			CHECK(slice->parent < i);
			CHECK(parent->begin_ns <= slice->begin_ns);
			CHECK(parent->end_ns >= slice->end_ns);
			CHECK_EQ(slice->depth, parent->depth + 1);
			last_end = &states[slice->parent].last_end;
			states[slice->parent].children += slice->end_ns - slice->begin_ns;
		} else {
			CHECK_EQ(slice->depth, 0);
		}
		CHECK(slice->begin_ns >= *last_end);
		*last_end = slice->end_ns;
	}
	for (size_t i = 0; i < thread->slices.len; i++) {
		const struct slice *slice = &thread->slices.data[i];

		CHECK_EQ(slice->self_ns + states[i].children, slice->end_ns - slice->begin_ns);
	}
	CHECK_EQ(inferred, thread->inferred);
	for (size_t i = 0; i < thread->gaps.len; i++)
		CHECK(thread->gaps.data[i].begin_ns <= thread->gaps.data[i].end_ns);
	free(states);
}

static void free_thread(struct thread_timeline *thread)
{
	vec_free(&thread->slices);
	vec_free(&thread->gaps);
	vec_free(&thread->instants);
}

static uint64_t random_address(struct random *random)
{
	const uint64_t start = CODE + draw(random, N_FUNCTIONS) * FUNCTION_SIZE;

	/* Few places, so that return addresses, entries and owners are hit again and again. */
	return start + draw(random, 3) * 8 * draw(random, 2);
}

static struct branch random_branch(struct random *random, uint64_t *time_ns)
{
	struct branch branch = {
		.from = random_address(random),
		.to = random_address(random),
		.insns = draw(random, 20),
		.from_size = (uint8_t)(draw(random, 2) * 8),
		.flags = (uint8_t)draw(random, 16),
	};

	/* Calls and returns prevail, as they do in life; the rest comes now and then. */
	branch.kind = (uint8_t)(draw(random, 8) ? draw(random, 3) : draw(random, BRANCH_GAP + 2));
	branch.gap = (uint8_t)(1 + draw(random, GAP_COUNT));
	if (!draw(random, 4))
		branch.to = 0;
	if (draw(random, 3))
		*time_ns += draw(random, 50);
	branch.time_ns = *time_ns;
	if (!draw(random, 200))
		branch.time_ns = draw(random, 2) ? 0 : branch.time_ns / 2;
	return branch;
}

TEST(any_stream_gives_slices_that_nest)
{
	for (uint64_t seed = 1; seed <= 1500; seed++) {
		const uint64_t execs[] = { 500, 2000000 };
		struct random random = { .state = seed * 0x9e3779b97f4a7c15ull };
		struct calls_options chosen = options;
		struct thread_timeline thread = { .tid = 1 };
		const uint32_t n = draw(&random, 600);
		uint64_t time_ns = draw(&random, 1000000), insns = 0;
		struct calls *calls;

		chosen.from_birth = draw(&random, 2);
		chosen.execs = execs;
		chosen.n_execs = draw(&random, 3);
		CHECK_EQ(calls_new(&thread, &chosen, &calls), 0);
		for (uint32_t i = 0; i < n; i++) {
			const struct branch branch = random_branch(&random, &time_ns);

			CHECK_EQ(calls_feed(calls, &branch, 1), 0);
			insns += branch.kind == BRANCH_GAP || branch.kind == BRANCH_BEGIN ?
					 0 :
					 branch.insns;
		}
		CHECK_EQ(calls_finish(calls, draw(&random, 2) ? 0 : time_ns + draw(&random, 100)),
			 0);
		check_nesting(&thread);
		/* Every instruction belongs to exactly one slice, also after merging. */
		for (size_t i = 0; i < thread.slices.len; i++)
			insns -= thread.slices.data[i].insns;
		CHECK_EQ(insns, 0);
		calls_free(calls);
		free_thread(&thread);
	}
}

/* A program that calls, returns, throws and takes signals at random, and writes down what it did.
 */
struct model {
	struct random random;
	struct calls *calls;
	struct {
		uint32_t function, call_site;
		uint64_t begin;
		uint32_t log;
	} stack[64];
	uint32_t depth;
	uint64_t clock;
	struct {
		uint32_t function;
		uint64_t begin, end;
	} log[4096];
	uint32_t n_log;
};

static uint64_t site(const struct model *model, uint32_t level)
{
	return CODE + model->stack[level].function * FUNCTION_SIZE + 16 +
	       model->stack[level].call_site * 8;
}

static void emit(struct model *model, uint8_t kind, uint64_t from, uint64_t to, uint8_t flags)
{
	/* Timestamps are rare: what has none is placed by instruction count, here one a tick. */
	const bool exact = kind == BRANCH_BEGIN || !draw(&model->random, 5);
	const uint32_t insns = kind == BRANCH_BEGIN ? 0 : 1 + draw(&model->random, 9);
	struct branch branch = {
		.kind = kind, .from = from, .to = to, .insns = insns, .from_size = 5, .flags = flags
	};

	model->clock += insns;
	branch.time_ns = exact ? model->clock : 0;
	branch.flags |= exact ? BRANCH_TIME_EXACT : 0;
	CHECK_EQ(calls_feed(model->calls, &branch, 1), 0);
}

static void enter(struct model *model, uint32_t function)
{
	model->stack[model->depth].function = function;
	model->stack[model->depth].log = model->n_log;
	model->log[model->n_log].function = function;
	model->log[model->n_log].begin = model->clock;
	model->n_log++;
	model->depth++;
}

static void leave(struct model *model)
{
	model->depth--;
	model->log[model->stack[model->depth].log].end = model->clock;
}

static void step(struct model *model)
{
	struct random *random = &model->random;
	const uint32_t top = model->depth - 1, action = draw(random, 100);
	const uint64_t here = CODE + model->stack[top].function * FUNCTION_SIZE + 200;

	if (action < 48 && model->depth < 60) {
		/* Functions 1 to 15: no recursion of a function that may catch, see below. */
		const uint32_t callee = 1 + draw(random, 15);

		model->stack[top].call_site = draw(random, 8);
		emit(model, BRANCH_CALL, site(model, top), CODE + callee * FUNCTION_SIZE, 0);
		enter(model, callee);
	} else if (action < 85 && top > 0) {
		emit(model, BRANCH_RETURN, here, site(model, top - 1) + 5, 0);
		leave(model);
	} else if (action < 92 && top > 0) {
		const uint32_t callee = 1 + draw(random, 15);

		if (callee == model->stack[top].function)
			return;
		emit(model, BRANCH_JUMP, here, CODE + callee * FUNCTION_SIZE, 0);
		leave(model);
		enter(model, callee);
	} else if (action < 94 && top > 0) {
		/* longjmp to main. */
		emit(model, BRANCH_JUMP, here, CODE + 240, BRANCH_INDIRECT);
		while (model->depth > 1)
			leave(model);
	} else {
		emit(model, BRANCH_COND, here, here - 8, 0);
	}
}

TEST(slices_equal_the_programs_own_log)
{
	for (uint64_t seed = 1; seed <= 200; seed++) {
		static struct model model;
		struct thread_timeline thread = { .tid = 1 };
		uint32_t inferred = 0;

		memset(&model, 0, sizeof(model));
		model.random.state = seed * 0x9e3779b97f4a7c15ull;
		CHECK_EQ(calls_new(&thread, &options, &model.calls), 0);
		emit(&model, BRANCH_BEGIN, 0, CODE, 0);
		enter(&model, 0);
		for (int i = 0; i < 2000; i++)
			step(&model);
		emit(&model, BRANCH_END, site(&model, model.depth - 1), 0, 0);
		inferred = model.depth;
		while (model.depth)
			leave(&model);
		CHECK_EQ(calls_finish(model.calls, model.clock), 0);
		check_nesting(&thread);
		CHECK_EQ(thread.slices.len, model.n_log);
		CHECK_EQ(thread.inferred, inferred);
		for (uint32_t i = 0; i < model.n_log; i++) {
			CHECK_EQ(thread.slices.data[i].name, model.log[i].function);
			CHECK_EQ(thread.slices.data[i].begin_ns, model.log[i].begin);
			CHECK_EQ(thread.slices.data[i].end_ns, model.log[i].end);
		}
		calls_free(model.calls);
		free_thread(&thread);
	}
}

TEST(deep_recursion_and_unwinding_stay_fast)
{
	struct thread_timeline thread = { .tid = 1 };
	struct calls *calls;
	struct branch call = { .kind = BRANCH_CALL,
			       .from = CODE + FUNCTION_SIZE + 16,
			       .to = CODE + FUNCTION_SIZE,
			       .insns = 1,
			       .from_size = 5 };
	struct branch miss = { .kind = BRANCH_RETURN,
			       .from = CODE + FUNCTION_SIZE + 32,
			       .to = CODE + FUNCTION_SIZE + 64,
			       .insns = 1 };
	struct branch jump = { .kind = BRANCH_JUMP,
			       .from = CODE + FUNCTION_SIZE + 32,
			       .insns = 1,
			       .to = CODE + 64,
			       .flags = BRANCH_INDIRECT };
	const struct branch begin = { .kind = BRANCH_BEGIN, .to = CODE };

	CHECK_EQ(calls_new(&thread, &options, &calls), 0);
	CHECK_EQ(calls_feed(calls, &begin, 1), 0);
	for (int i = 0; i < 300000; i++) {
		call.from = i ? CODE + FUNCTION_SIZE + 16 : CODE + 16;
		CHECK_EQ(calls_feed(calls, &call, 1), 0);
	}
	/* A return that fits nothing looks through all of them, each time. */
	for (int i = 0; i < 300000; i++)
		CHECK_EQ(calls_feed(calls, &miss, 1), 0);
	CHECK_EQ(calls_feed(calls, &jump, 1), 0);
	CHECK_EQ(calls_finish(calls, 0), 0);
	CHECK_EQ(thread.slices.len, 300001);
	CHECK_EQ(thread.slices.data[1].end_edge, EDGE_UNWOUND);
	check_nesting(&thread);
	calls_free(calls);
	free_thread(&thread);
}

TEST(nothing_fed_gives_nothing)
{
	struct thread_timeline thread = { .tid = 1 };
	struct calls *calls;

	CHECK_EQ(calls_new(&thread, &options, &calls), 0);
	CHECK_EQ(calls_finish(calls, 100), 0);
	CHECK_EQ(thread.slices.len, 0);
	calls_free(calls);
	free_thread(&thread);
}

UNIT_MAIN("unit/calls")
