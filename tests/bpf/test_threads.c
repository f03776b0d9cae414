// SPDX-License-Identifier: GPL-2.0-only
/*
 * threads.bpf.c on the running kernel: births, execs, names, deaths, on-CPU time, scope.
 * links: record/evaluator record/evaluator_keeper record/evaluator_probes base/log base/clock
 */
#include "target.h"

#include <time.h>

#include "base/clock.h"

static volatile long sink;
static struct records records; /* of one test: each runs in its own process */

NOINLINE static long probed(long a)
{
	sink += a;
	return sink;
}

static void *named_thread(void *arg)
{
	prctl(PR_SET_NAME, "worker");
	*(pid_t *)arg = own_tid();
	probed(1);
	return NULL;
}

static void spin(uint64_t ns)
{
	struct timespec now;
	uint64_t start = 0;

	do {
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
		if (!start)
			start = (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
	} while ((uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec - start < ns);
}

static uint64_t cpu_time_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void *exec_thread(void *arg)
{
	execl("/proc/self/exe", "test_threads", (char *)arg, (char *)NULL);
	_exit(9);
}

/* What a target does is told word by word. */
static void body(const struct target *target)
{
	pthread_t thread;
	pid_t tid = 0, child;
	int status;

	for (;;) {
		switch (target_next(target)) {
		case 't': /* a thread, from birth to death */
			pthread_create(&thread, NULL, named_thread, &tid);
			pthread_join(thread, NULL);
			target_say(target, (uint64_t)tid);
			break;
		case 'f': /* a child that hits the probe and exits with 3 */
			child = fork();
			if (child == 0) {
				probed(2);
				_exit(3);
			}
			waitpid(child, &status, 0);
			target_say(target, (uint64_t)child);
			break;
		case 'n':
			prctl(PR_SET_NAME, "a-new-name");
			target_say(target, 0);
			break;
		case 's':
			spin(50000000);
			target_say(target, cpu_time_ns());
			break;
		case 'w':
			usleep(50000);
			target_say(target, cpu_time_ns());
			break;
		case 'r': /* runs on until told to stop */
			target_say(target, cpu_time_ns());
			for (struct pollfd stop = { .fd = target->in, .events = POLLIN };
			     !poll(&stop, 1, 0);)
				;
			break;
		case 'p':
			probed(3);
			target_say(target, 0);
			break;
		case 'x': /* exec by a thread that is not the main one */
			pthread_create(&thread, NULL, exec_thread, (char *)"--sleep");
			pthread_join(thread, NULL);
			break;
		case 'e':
			exec_thread((char *)"--exit");
			break;
		case 'b': /* many records */
			for (int i = 0; i < 10000; i++)
				prctl(PR_SET_NAME, i & 1 ? "one" : "two");
			target_say(target, 0);
			break;
		case 'k':
			raise(SIGKILL);
		}
	}
}

struct fixture {
	struct target target;
	struct evaluator *evaluator;
	struct ptbpf_fire_page *page;
};

static struct fixture set_up(bool multi_thread, bool follow_forks)
{
	static const struct ptbpf_trigger trigger;
	const struct evaluator_config config = { .triggers = &trigger,
						 .n_triggers = 1,
						 .multi_thread = multi_thread,
						 .follow_forks = follow_forks };
	struct fixture f = { .evaluator = must_open(&config) };

	f.page = evaluator_fire_page(f.evaluator);
	f.target = target_start(body);
	CHECK_EQ(evaluator_add_thread(f.evaluator, f.target.pid, f.target.pid), 0);
	return f;
}

static void tear_down(struct fixture *f)
{
	struct evaluator_drops drops;

	evaluator_read_drops(f->evaluator, &drops);
	CHECK_EQ(drops.threads, 0);
	target_end(&f->target);
	evaluator_close(f->evaluator);
}

static uint64_t ask(const struct fixture *f, int word)
{
	target_tell(&f->target, word);
	return target_hear(&f->target);
}

static void poll_all(const struct fixture *f)
{
	CHECK_EQ(evaluator_poll(f->evaluator, keep_record, &records), 0);
}

TEST(a_thread_is_born_named_and_dies)
{
	struct fixture f = set_up(true, false);
	const uint64_t before = clock_now_ns();
	const uint32_t tid = (uint32_t)ask(&f, 't');
	const struct ptbpf_record *birth, *comm, *end;
	size_t at = 0;

	poll_all(&f);
	birth = find_record(&records, PTBPF_RECORD_BIRTH, tid, &at);
	CHECK(birth);
	CHECK_EQ(birth->pid, f.target.pid);
	CHECK_EQ(birth->ns_tid, tid);
	CHECK_EQ(birth->parent_pid, f.target.pid);
	CHECK_EQ(birth->parent_tid, f.target.pid);
	CHECK_EQ(birth->new_process, 0);
	CHECK_STR(birth->comm, "test_threads");
	comm = find_record(&records, PTBPF_RECORD_COMM, tid, &at);
	CHECK(comm);
	CHECK_STR(comm->comm, "worker");
	end = find_record(&records, PTBPF_RECORD_EXIT, tid, &at);
	CHECK(end);
	CHECK_STR(end->comm, "worker");
	CHECK_EQ(end->exit_code, 0);
	CHECK(before <= birth->time_ns && birth->time_ns < comm->time_ns &&
	      comm->time_ns < end->time_ns && end->time_ns <= clock_now_ns());
	CHECK(end->oncpu_ns > 0 && end->oncpu_ns <= end->time_ns - birth->time_ns);
	tear_down(&f);
}

TEST(without_multi_thread_other_threads_stay_out)
{
	struct fixture f = set_up(false, false);
	uint32_t tid;

	must_attach(f.evaluator, 0, f.target.pid, probed);
	tid = (uint32_t)ask(&f, 't');
	poll_all(&f);
	CHECK(!find_record(&records, PTBPF_RECORD_BIRTH, 0, NULL));
	CHECK(!find_record(&records, PTBPF_RECORD_EXIT, tid, NULL));
	CHECK_EQ(f.page->stats[0].hits, 0);
	ask(&f, 'p');
	CHECK_EQ(f.page->stats[0].hits, 1);
	tear_down(&f);
}

TEST(a_new_thread_hits_the_probe_at_once)
{
	struct fixture f = set_up(true, false);
	uint32_t tid;

	must_attach(f.evaluator, 0, f.target.pid, probed);
	tid = (uint32_t)ask(&f, 't');
	CHECK_EQ(f.page->stats[0].hits, 1);
	CHECK_EQ(fire_number(f.evaluator, 1)->tid, tid);
	CHECK_EQ(fire_number(f.evaluator, 1)->pid, f.target.pid);
	CHECK_STR(fire_number(f.evaluator, 1)->comm, "worker");
	tear_down(&f);
}

TEST(children_join_only_when_forks_are_followed)
{
	struct fixture f = set_up(true, false);
	uint32_t child;
	const struct ptbpf_record *record;

	must_attach(f.evaluator, 0, f.target.pid, probed);
	ask(&f, 'f');
	poll_all(&f);
	CHECK(!find_record(&records, PTBPF_RECORD_BIRTH, 0, NULL));
	CHECK_EQ(f.page->stats[0].hits, 0);
	tear_down(&f);

	f = set_up(false, true);
	child = (uint32_t)ask(&f, 'f');
	poll_all(&f);
	record = find_record(&records, PTBPF_RECORD_BIRTH, child, NULL);
	CHECK(record);
	CHECK_EQ(record->pid, child);
	CHECK_EQ(record->new_process, 1);
	CHECK_EQ(record->parent_pid, f.target.pid);
	record = find_record(&records, PTBPF_RECORD_EXIT, child, NULL);
	CHECK(record);
	CHECK_EQ(record->exit_code, 3 << 8);
	tear_down(&f);
}

TEST(a_changed_name_is_reported)
{
	struct fixture f = set_up(false, false);
	const struct ptbpf_record *record;

	ask(&f, 'n');
	poll_all(&f);
	record = find_record(&records, PTBPF_RECORD_COMM, (uint32_t)f.target.pid, NULL);
	CHECK(record);
	CHECK_STR(record->comm, "a-new-name");
	tear_down(&f);
}

static const struct ptbpf_record *await_record(const struct fixture *f, uint32_t type, uint32_t tid)
{
	const struct ptbpf_record *record = NULL;

	for (int i = 0; i < 1000 && !record; i++) {
		struct pollfd ready = { .fd = evaluator_fd(f->evaluator), .events = POLLIN };

		poll(&ready, 1, 10);
		poll_all(f);
		record = find_record(&records, type, tid, NULL);
	}
	CHECK(record);
	return record;
}

TEST(exec_by_the_main_thread)
{
	struct fixture f = set_up(false, false);
	const uint32_t pid = (uint32_t)f.target.pid;
	const struct ptbpf_record *exec;

	target_tell(&f.target, 'e');
	exec = await_record(&f, PTBPF_RECORD_EXEC, pid);
	CHECK_EQ(exec->parent_tid, pid);
	CHECK_EQ(exec->pid, pid);
	CHECK_STR(exec->comm, "exe");
	CHECK_EQ(await_record(&f, PTBPF_RECORD_EXIT, pid)->exit_code, 5 << 8);
	tear_down(&f);
}

TEST(exec_by_another_thread_takes_over_the_main_ones_ids)
{
	struct fixture f = set_up(true, false);
	const uint32_t pid = (uint32_t)f.target.pid;
	const struct ptbpf_record *exec;
	uint64_t oncpu;

	target_tell(&f.target, 'x');
	exec = await_record(&f, PTBPF_RECORD_EXEC, pid);
	CHECK(exec->parent_tid != pid);
	CHECK(find_record(&records, PTBPF_RECORD_BIRTH, exec->parent_tid, NULL));
	CHECK_EQ(exec->ns_tid, pid);
	CHECK(find_record(&records, PTBPF_RECORD_EXIT, pid, NULL)); /* the former main thread */
	CHECK_EQ(evaluator_oncpu(f.evaluator, (pid_t)pid, &oncpu), 0);
	usleep(2000);
	CHECK_EQ(evaluator_oncpu(f.evaluator, (pid_t)exec->parent_tid, &oncpu), -ENOENT);
	kill(f.target.pid, SIGTERM);
	tear_down(&f);
}

TEST(death_by_a_signal_tells_the_status)
{
	struct fixture f = set_up(false, false);

	target_tell(&f.target, 'k');
	CHECK_EQ(await_record(&f, PTBPF_RECORD_EXIT, (uint32_t)f.target.pid)->exit_code, SIGKILL);
	CHECK_EQ(evaluator_add_thread(f.evaluator, f.target.pid, f.target.pid),
		 -ESRCH); /* zombie */
	tear_down(&f);
}

static uint64_t oncpu_of(const struct fixture *f)
{
	uint64_t ns = 0;

	usleep(1500); /* past the age of the list */
	CHECK_EQ(evaluator_oncpu(f->evaluator, f->target.pid, &ns), 0);
	return ns;
}

/* The target's CPU time by the kernel's own account, its running stretch included. */
static uint64_t cpu_clock(const struct fixture *f)
{
	struct timespec now;
	clockid_t clock;

	CHECK_EQ(clock_getcpuclockid(f->target.pid, &clock), 0);
	CHECK_EQ(clock_gettime(clock, &now), 0);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Our account, and the kernel's just before and just after. */
struct sample {
	uint64_t before, ours, after;
};

static struct sample take(const struct fixture *f)
{
	struct sample sample = { .before = cpu_clock(f) };

	sample.ours = oncpu_of(f);
	sample.after = cpu_clock(f);
	return sample;
}

/* Between two samples both accounts grew alike, whatever else runs on the machine. */
static void check_alike(const struct sample *from, const struct sample *to)
{
	const uint64_t least = to->before - from->after, most = to->after - from->before;
	const uint64_t ours = to->ours - from->ours;

	CHECK(ours + 2000000 >= least * 9 / 10);
	CHECK(ours <= most * 11 / 10 + 2000000);
}

TEST(oncpu_time_is_the_threads_cpu_time)
{
	struct fixture f = set_up(false, false);
	struct sample start, spun, slept;

	ask(&f, 'w');
	start = take(&f);
	ask(&f, 's');
	spun = take(&f);
	CHECK(spun.before - start.after >= 45000000);
	check_alike(&start, &spun);
	ask(&f, 'w'); /* sleeping adds nothing */
	slept = take(&f);
	check_alike(&spun, &slept);
	tear_down(&f);
}

/* Waits until the running target has used @ns more. */
static struct sample take_after(const struct fixture *f, const struct sample *from, uint64_t ns)
{
	for (int i = 0; i < 2000 && cpu_clock(f) < from->after + ns; i++)
		usleep(10000);
	CHECK(cpu_clock(f) >= from->after + ns);
	return take(f);
}

TEST(oncpu_time_includes_the_stretch_that_runs)
{
	struct fixture f = set_up(false, false);
	struct sample first, second;

	ask(&f, 'r');
	first = take(&f);
	second = take_after(&f, &first, 40000000);
	check_alike(&first, &second);
	target_tell(&f.target, 'n');
	tear_down(&f);
}

TEST(a_thread_that_runs_when_it_joins_counts_from_then)
{
	struct fixture f = set_up(false, false);
	struct sample join, first, second;

	CHECK_EQ(evaluator_remove_thread(f.evaluator, f.target.pid), 0);
	ask(&f, 'r');
	usleep(50000);
	join = (struct sample){ .before = cpu_clock(&f) };
	CHECK_EQ(evaluator_add_thread(f.evaluator, f.target.pid, f.target.pid), 0);
	join.after = cpu_clock(&f);
	first = take(&f);
	CHECK(first.ours <= (first.after - join.before) * 11 / 10 + 2000000);
	second = take_after(&f, &first, 40000000);
	check_alike(&join, &second);
	tear_down(&f);
}

TEST(unknown_threads_have_no_oncpu_time)
{
	struct fixture f = set_up(false, false);
	uint64_t ns;

	CHECK_EQ(evaluator_oncpu(f.evaluator, getpid(), &ns), -ENOENT);
	CHECK_EQ(evaluator_add_thread(f.evaluator, 1 << 22, 1 << 22), -ESRCH);
	tear_down(&f);
}

static int stop_at_once(void *ctx, const struct ptbpf_record *record)
{
	(void)record;
	++*(int *)ctx;
	return -EINTR;
}

TEST(a_callback_can_end_the_delivery)
{
	struct fixture f = set_up(true, false);
	int seen = 0;

	ask(&f, 't');
	CHECK_EQ(evaluator_poll(f.evaluator, stop_at_once, &seen), -EINTR);
	CHECK_EQ(seen, 1);
	poll_all(&f); /* the rest is still there */
	CHECK(find_record(&records, PTBPF_RECORD_EXIT, 0, NULL));
	CHECK_EQ(evaluator_poll(f.evaluator, stop_at_once, &seen), 0);
	CHECK_EQ(seen, 1);
	tear_down(&f);
}

TEST(a_full_ring_buffer_costs_records_but_no_fire)
{
	struct fixture f = set_up(false, false);
	struct evaluator_drops drops;

	must_attach(f.evaluator, 0, f.target.pid, probed);
	ask(&f, 'b');
	evaluator_read_drops(f.evaluator, &drops);
	CHECK(drops.records > 0);
	CHECK_EQ(drops.wakes, 0);
	ask(&f, 'p');
	CHECK(fire_number(f.evaluator, 1));
	CHECK_EQ(f.page->stats[0].fires, 1);
	evaluator_read_drops(f.evaluator, &drops);
	CHECK_EQ(drops.wakes, 1);
	poll_all(&f);
	CHECK(!find_record(&records, PTBPF_RECORD_WAKE, 0, NULL));
	ask(&f, 'p'); /* room again */
	poll_all(&f);
	CHECK(find_record(&records, PTBPF_RECORD_WAKE, 0, NULL));
	tear_down(&f);
}

int main(int argc, char **argv)
{
	extern const struct unit_test __start_unit_tests[], __stop_unit_tests[];

	if (argc > 1 && !strcmp(argv[1], "--sleep"))
		return sleep(20) ? 0 : 1;
	if (argc > 1 && !strcmp(argv[1], "--exit"))
		return 5;
	return unit_run_all("bpf/threads", __start_unit_tests,
			    (size_t)(__stop_unit_tests - __start_unit_tests));
}
