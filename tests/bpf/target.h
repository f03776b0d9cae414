/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Target processes for tests of the BPF side: forked from the test itself, so that the test's own
 * functions are the probed ones, and driven step by step through pipes. Nobody ptraces them.
 */
#ifndef PTBPF_TESTS_TARGET_H
#define PTBPF_TESTS_TARGET_H

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "record/evaluator.h"
#include "../unit/unit.h"

#define NOINLINE __attribute__((noipa))

struct target {
	pid_t pid;
	int to, from; /* pipes' ends of the test */
	int in, out;  /* those of the target */
};

/* In the target: waits for the test's word and returns it; ends when the test is gone. */
static inline int target_next(const struct target *target)
{
	unsigned char word;

	if (read(target->in, &word, 1) != 1)
		_exit(3);
	return word;
}

static inline void target_say(const struct target *target, uint64_t value)
{
	if (write(target->out, &value, sizeof(value)) != sizeof(value))
		_exit(3);
}

/* In the test. */
static inline void target_tell(const struct target *target, int word)
{
	const unsigned char byte = (unsigned char)word;

	CHECK_EQ(write(target->to, &byte, 1), 1);
}

static inline uint64_t target_hear(const struct target *target)
{
	struct pollfd ready = { .fd = target->from, .events = POLLIN };
	uint64_t value;

	CHECK_EQ(poll(&ready, 1, 20000), 1);
	CHECK_EQ(read(target->from, &value, sizeof(value)), sizeof(value));
	return value;
}

static inline void target_pipes(struct target *target)
{
	int down[2], up[2];

	CHECK_EQ(pipe(down), 0);
	CHECK_EQ(pipe(up), 0);
	target->in = down[0];
	target->to = down[1];
	target->from = up[0];
	target->out = up[1];
}

/* Forks a target that runs @body and then ends with status 0. */
static inline struct target target_start(void (*body)(const struct target *target))
{
	struct target target = {};

	target_pipes(&target);
	fflush(NULL);
	target.pid = fork();
	CHECK(target.pid >= 0);
	if (target.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(target.to);
		close(target.from);
		body(&target);
		_exit(0);
	}
	close(target.in);
	close(target.out);
	return target;
}

/* Lets a target that waits for a word end; returns its wait status. */
static inline int target_end(struct target *target)
{
	int status = -1;

	close(target->to);
	CHECK_EQ(waitpid(target->pid, &status, 0), target->pid);
	close(target->from);
	return status;
}

static inline pid_t own_tid(void)
{
	return (pid_t)syscall(SYS_gettid);
}

/* Opens or skips the test where BPF may not be loaded. */
static inline struct evaluator *must_open(const struct evaluator_config *config)
{
	struct evaluator *evaluator = NULL;
	const int err = evaluator_open(config, &evaluator);

	if (err == -EPERM || err == -EACCES)
		SKIP("BPF is not allowed here");
	CHECK_EQ(err, 0);
	return evaluator;
}

/* File offset of one of our own functions. */
static inline uint64_t own_offset(const void *function)
{
	const uint64_t addr = (uint64_t)(uintptr_t)function;
	FILE *maps = fopen("/proc/self/maps", "re");
	unsigned long from, to, offset;
	uint64_t found = 0;
	char line[512];

	CHECK(maps);
	while (fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) == 3 && addr >= from &&
		    addr < to)
			found = addr - from + offset;
	}
	fclose(maps);
	CHECK(found);
	return found;
}

static inline const char *own_path(void)
{
	static char path[4096];
	const ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	CHECK(n > 0);
	path[n] = '\0';
	return path;
}

static inline uint32_t must_attach(struct evaluator *evaluator, size_t trigger, pid_t pid,
				   const void *function)
{
	uint32_t attachment = 0;

	CHECK_EQ(evaluator_attach(evaluator, trigger, pid, own_path(), own_offset(function),
				  &attachment),
		 0);
	return attachment;
}

/* The fire with number @sequence, or NULL when it was not published. */
static inline const struct ptbpf_fire *fire_number(struct evaluator *evaluator, uint64_t sequence)
{
	struct ptbpf_fire_page *const page = evaluator_fire_page(evaluator);
	const size_t slot = (sequence - 1) % PTBPF_MAX_FIRES;

	if (__atomic_load_n(&page->published[slot], __ATOMIC_ACQUIRE) != sequence)
		return NULL;
	return &page->fires[slot];
}

/* All records so far. */
struct records {
	struct ptbpf_record data[8192];
	size_t n;
};

static inline int keep_record(void *ctx, const struct ptbpf_record *record)
{
	struct records *const records = ctx;

	if (records->n < sizeof(records->data) / sizeof(records->data[0]))
		records->data[records->n++] = *record;
	return 0;
}

/* The first record of a type, of @tid unless it is 0, at or after *from; *from moves behind it. */
static inline const struct ptbpf_record *find_record(const struct records *records, uint32_t type,
						     uint32_t tid, size_t *from)
{
	for (size_t i = from ? *from : 0; i < records->n; i++) {
		const struct ptbpf_record *const record = &records->data[i];

		if (record->type == type && (!tid || record->tid == tid)) {
			if (from)
				*from = i + 1;
			return record;
		}
	}
	return NULL;
}

#endif
