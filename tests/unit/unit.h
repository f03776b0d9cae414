/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Unit tests: TEST(name) { CHECK(...); } in tests/unit/test_MODULE.c, and UNIT_MAIN("unit/module")
 * at its end. Each test runs in a forked child, so that a crash fails one test only. The file's
 * head declares what it links: a comment line ` * links: record/budget base/size`.
 */
#ifndef PTBPF_TESTS_UNIT_H
#define PTBPF_TESTS_UNIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct unit_test {
	const char *name;
	void (*run)(void);
} __attribute__((aligned(32)));

#define TEST(test_name)                                                                   \
	static void test_name(void);                                                      \
	static const struct unit_test unit_##test_name                                    \
		__attribute__((used, section("unit_tests"))) = { #test_name, test_name }; \
	static void test_name(void)

#define CHECK(cond)                                                                \
	do {                                                                       \
		if (!(cond)) {                                                     \
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond); \
			exit(1);                                                   \
		}                                                                  \
	} while (0)

#define CHECK_EQ(a, b)                                                                     \
	do {                                                                               \
		const long long a_ = (long long)(a), b_ = (long long)(b);                  \
		if (a_ != b_) {                                                            \
			fprintf(stderr, "%s:%d: %s is %lld (0x%llx), not %lld (0x%llx)\n", \
				__FILE__, __LINE__, #a, a_, a_, b_, b_);                   \
			exit(1);                                                           \
		}                                                                          \
	} while (0)

#define CHECK_STR(a, b)                                                                          \
	do {                                                                                     \
		const char *const a_ = (a), *const b_ = (b);                                     \
		if (!a_ || strcmp(a_, b_)) {                                                     \
			fprintf(stderr, "%s:%d: %s is \"%s\", not \"%s\"\n", __FILE__, __LINE__, \
				#a, a_ ? a_ : "(null)", b_);                                     \
			exit(1);                                                                 \
		}                                                                                \
	} while (0)

/* Ends the test as skipped, for hardware or rights that are not there. */
#define SKIP(reason)                             \
	do {                                     \
		fprintf(stderr, "%s\n", reason); \
		exit(77);                        \
	} while (0)

static inline int unit_run_all(const char *id, const struct unit_test *tests, size_t n)
{
	const char *filter = getenv("T");
	int failed = 0;

	for (size_t i = 0; i < n; i++) {
		char name[256];
		int status;
		pid_t pid;

		snprintf(name, sizeof(name), "%s/%s", id, tests[i].name);
		if (filter && *filter && !strstr(name, filter))
			continue;
		fflush(NULL);
		pid = fork();
		if (pid == 0) {
			tests[i].run();
			exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid)
			abort();
		if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
			printf("PASS %s\n", name);
		} else if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
			printf("SKIP %s: see above\n", name);
		} else {
			printf("FAIL %s (status 0x%x)\n", name, status);
			failed = 1;
		}
	}
	return failed;
}

#define UNIT_MAIN(id)                                                                  \
	extern const struct unit_test __start_unit_tests[], __stop_unit_tests[];       \
	int main(void)                                                                 \
	{                                                                              \
		return unit_run_all(id, __start_unit_tests,                            \
				    (size_t)(__stop_unit_tests - __start_unit_tests)); \
	}

#endif
