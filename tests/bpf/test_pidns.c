// SPDX-License-Identifier: GPL-2.0-only
/*
 * Pid namespaces: ids are ptbpf's own, and the target's own beside them.
 * links: record/evaluator record/evaluator_keeper record/evaluator_probes base/log base/clock
 */
#include "target.h"

static volatile long sink;
static struct records records;

NOINLINE static long probed(long a)
{
	sink += a;
	return sink;
}

static void *hit(void *arg)
{
	*(pid_t *)arg = own_tid();
	probed(1);
	return NULL;
}

/* Says its own tid, then for each word runs a thread that hits and says that one's own tid. */
static void body(const struct target *target)
{
	pthread_t thread;
	pid_t tid;

	target_say(target, (uint64_t)own_tid());
	for (;;) {
		target_next(target);
		if (pthread_create(&thread, NULL, hit, &tid))
			_exit(4);
		pthread_join(thread, NULL);
		target_say(target, (uint64_t)tid);
	}
}

/* Forks a process that is the first of a new pid namespace, runs @fn and ends. */
static pid_t fork_into_namespace(void (*fn)(const struct target *target),
				 const struct target *target)
{
	const pid_t child = (pid_t)syscall(SYS_clone, CLONE_NEWPID | SIGCHLD, 0, 0, 0, 0);

	if (child < 0)
		SKIP("pid namespaces are not allowed here");
	if (child == 0) {
		fn(target);
		exit(0);
	}
	return child;
}

static struct evaluator *open_on(pid_t pid)
{
	static const struct ptbpf_trigger trigger;
	const struct evaluator_config config = { .triggers = &trigger,
						 .n_triggers = 1,
						 .multi_thread = true };
	struct evaluator *evaluator = must_open(&config);

	CHECK_EQ(evaluator_add_thread(evaluator, pid, pid), 0);
	must_attach(evaluator, 0, pid, probed);
	return evaluator;
}

/* A new thread of @pid fires: its ids as we see them, and @inner_pid and what it says of itself. */
static void check_ids(struct evaluator *evaluator, const struct target *target, pid_t pid,
		      pid_t inner_pid)
{
	const struct ptbpf_record *birth;
	const struct ptbpf_fire *fire;
	char path[64];
	uint32_t inner;
	size_t at = 0;

	target_tell(target, 't');
	inner = (uint32_t)target_hear(target);
	fire = fire_number(evaluator, 1);
	CHECK(fire);
	CHECK_EQ(fire->pid, pid);
	CHECK_EQ(fire->ns_pid, inner_pid);
	CHECK_EQ(fire->ns_tid, inner);
	CHECK_EQ(evaluator_poll(evaluator, keep_record, &records), 0);
	birth = find_record(&records, PTBPF_RECORD_BIRTH, fire->tid, &at);
	CHECK(birth);
	CHECK_EQ(birth->pid, pid);
	CHECK_EQ(birth->parent_tid, pid);
	CHECK_EQ(birth->ns_pid, inner_pid);
	CHECK_EQ(birth->ns_tid, inner);
	CHECK(find_record(&records, PTBPF_RECORD_EXIT, fire->tid, &at));
	/* the ids are those under which /proc here knows the process */
	snprintf(path, sizeof(path), "/proc/%d", pid);
	if (getpid() != 1)
		CHECK_EQ(access(path, F_OK), 0);
}

TEST(the_target_alone_is_in_a_namespace)
{
	struct evaluator *evaluator;
	struct target target = {};

	target_pipes(&target);
	target.pid = fork_into_namespace(body, &target);
	CHECK_EQ(target_hear(&target), 1);
	evaluator = open_on(target.pid);
	check_ids(evaluator, &target, target.pid, 1);
	CHECK(fire_number(evaluator, 1)->tid != fire_number(evaluator, 1)->ns_tid);
	kill(target.pid, SIGKILL);
	evaluator_close(evaluator);
}

/* As the first process of a namespace: a recorder with a target of its own. */
static void inside(const struct target *unused)
{
	struct target target = target_start(body);
	struct evaluator *evaluator;

	(void)unused;
	CHECK_EQ(getpid(), 1);
	CHECK_EQ(target_hear(&target), (uint64_t)target.pid);
	evaluator = open_on(target.pid);
	check_ids(evaluator, &target, target.pid, target.pid);
	target_end(&target);
	evaluator_close(evaluator);
}

TEST(ptbpf_and_the_target_are_in_one_namespace)
{
	const pid_t child = fork_into_namespace(inside, NULL);
	int status;

	CHECK_EQ(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		exit(77);
	CHECK_EQ(status, 0);
}

static void inside_with_target_deeper(const struct target *unused)
{
	struct evaluator *evaluator;
	struct target target = {};

	(void)unused;
	target_pipes(&target);
	target.pid = fork_into_namespace(body, &target);
	CHECK(getpid() == 1 && target.pid == 2);
	CHECK_EQ(target_hear(&target), 1);
	evaluator = open_on(target.pid);
	check_ids(evaluator, &target, target.pid, 1);
	kill(target.pid, SIGKILL);
	evaluator_close(evaluator);
}

TEST(ptbpf_is_in_a_namespace_and_the_target_in_one_below)
{
	const pid_t child = fork_into_namespace(inside_with_target_deeper, NULL);
	int status;

	CHECK_EQ(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		exit(77);
	CHECK_EQ(status, 0);
}

static void outsider(const struct target *target)
{
	const struct ptbpf_trigger trigger = {};
	const struct evaluator_config config = { .triggers = &trigger, .n_triggers = 1 };
	struct evaluator *evaluator = must_open(&config);

	/* the same number means another thread, or none, in here */
	CHECK_EQ(evaluator_add_thread(evaluator, target->pid, target->pid), -ESRCH);
	evaluator_close(evaluator);
}

TEST(threads_outside_ptbpfs_namespace_are_not_found)
{
	struct target target = target_start(body);
	pid_t child;
	int status;

	target_hear(&target);
	child = fork_into_namespace(outsider, &target);
	CHECK_EQ(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		exit(77);
	CHECK_EQ(status, 0);
	target_end(&target);
}

UNIT_MAIN("bpf/pidns")
