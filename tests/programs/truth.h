/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What a test program knows about its own run: one log of enter, leave and resume records over all
 * threads, written at the end to $PTBPF_TRUTH (a child process: $PTBPF_TRUTH.PID), so that a test
 * can hold the decoded calls against it. A record costs about ten instructions and no call.
 * tests/e2e/lib.py reads the file: struct truth_header, its functions, its records.
 */
#ifndef PTBPF_TESTS_TRUTH_H
#define PTBPF_TESTS_TRUTH_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TRUTH_MAX_RECORDS (1u << 17)

enum truth_op {
	TRUTH_ENTER = 1,
	TRUTH_LEAVE = 2,
	TRUTH_RESUME = 3, /* control is back in this function without its callees having left */
};

struct truth_function {
	char name[64];
};

struct truth_record {
	uint32_t tid;
	uint16_t function;
	uint16_t op;
};

struct truth_header {
	char magic[8];
	uint32_t pid;
	uint32_t n_functions;
	uint32_t n_records;
	uint32_t lost;
};

extern const struct truth_function __start_truth_functions[], __stop_truth_functions[];
static struct truth_record truth_records[TRUTH_MAX_RECORDS];
static uint32_t truth_n_records;
static __thread uint32_t truth_tid;
static pid_t truth_first_pid;

#define TRUTH_INLINE static inline __attribute__((always_inline, unused))
#define NOINLINE __attribute__((noinline, noclone))

TRUTH_INLINE void truth_add(const struct truth_function *function, enum truth_op op)
{
	const uint32_t i = __atomic_fetch_add(&truth_n_records, 1, __ATOMIC_RELAXED);

	if (!truth_tid)
		truth_tid = (uint32_t)gettid();
	if (i >= TRUTH_MAX_RECORDS)
		return;
	truth_records[i].tid = truth_tid;
	truth_records[i].function = (uint16_t)(function - __start_truth_functions);
	truth_records[i].op = (uint16_t)op;
}

#define TRUTH_FUNCTION(var, text)              \
	static const struct truth_function var \
		__attribute__((used, section("truth_functions"))) = { text }

/* At the top of a function: its enter now, its leave when the scope ends (by an exception too). */
#ifdef __cplusplus
struct truth_scope {
	const struct truth_function *function;
	__attribute__((always_inline)) explicit truth_scope(const struct truth_function *f)
	    : function(f)
	{
		truth_add(f, TRUTH_ENTER);
	}
	__attribute__((always_inline)) ~truth_scope()
	{
		truth_add(function, TRUTH_LEAVE);
	}
};
#define TRUTH(name)                             \
	TRUTH_FUNCTION(truth_of_##name, #name); \
	truth_scope truth_scope_here(&truth_of_##name)
#define TRUTH_BACK_IN(name) truth_add(&truth_of_##name, TRUTH_RESUME)
#else
TRUTH_INLINE void truth_leave_scope(const struct truth_function **function)
{
	truth_add(*function, TRUTH_LEAVE);
}
#define TRUTH(name)                                                                           \
	TRUTH_FUNCTION(truth_of_##name, #name);                                               \
	const struct truth_function *truth_here __attribute__((cleanup(truth_leave_scope))) = \
		&truth_of_##name;                                                             \
	truth_add(truth_here, TRUTH_ENTER)
#define TRUTH_BACK_IN(name) truth_add(&truth_of_##name, TRUTH_RESUME)
/* For functions that end in a tail call: the leave stands before the jump. */
#define TRUTH_TAIL_ENTER(name)                  \
	TRUTH_FUNCTION(truth_of_##name, #name); \
	truth_add(&truth_of_##name, TRUTH_ENTER)
#define TRUTH_TAIL_LEAVE(name) truth_add(&truth_of_##name, TRUTH_LEAVE)
#endif

/* First thing in main(): remembers the process, so that children write files of their own. */
TRUTH_INLINE void truth_begin(void)
{
	truth_first_pid = getpid();
	truth_tid = (uint32_t)gettid();
}

/* In a forked child: forget what the parent logged. */
TRUTH_INLINE void truth_child(void)
{
	truth_n_records = 0;
	truth_tid = (uint32_t)gettid();
}

TRUTH_INLINE void truth_put(int fd, const void *data, size_t size)
{
	const char *at = (const char *)data;

	while (size) {
		const ssize_t n = write(fd, at, size);

		if (n <= 0)
			abort();
		at += n;
		size -= (size_t)n;
	}
}

/* Writes the log; a later call replaces what an earlier one wrote. */
TRUTH_INLINE void truth_write(void)
{
	const char *path = getenv("PTBPF_TRUTH");
	struct truth_header header = { { 'p', 't', 't', 'r', 'u', 't', 'h', '1' }, 0, 0, 0, 0 };
	uint32_t n = __atomic_load_n(&truth_n_records, __ATOMIC_ACQUIRE);
	const pid_t pid = getpid();
	char name[512];
	size_t len;
	int fd;

	if (!path || strlen(path) > sizeof(name) - 16)
		return;
	len = strlen(path);
	memcpy(name, path, len + 1);
	if (pid != truth_first_pid) {
		char digits[12];
		int at = 0;

		for (pid_t rest = pid; rest; rest /= 10)
			digits[at++] = (char)('0' + rest % 10);
		name[len++] = '.';
		while (at)
			name[len++] = digits[--at];
		name[len] = 0;
	}
	header.pid = (uint32_t)pid;
	header.n_functions = (uint32_t)(__stop_truth_functions - __start_truth_functions);
	header.lost = n > TRUTH_MAX_RECORDS ? n - TRUTH_MAX_RECORDS : 0;
	header.n_records = n - header.lost;
	fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	if (fd < 0)
		abort();
	truth_put(fd, &header, sizeof(header));
	truth_put(fd, __start_truth_functions, header.n_functions * sizeof(struct truth_function));
	truth_put(fd, truth_records, header.n_records * sizeof(struct truth_record));
	close(fd);
}

#endif
