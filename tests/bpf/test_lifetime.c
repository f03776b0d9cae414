// SPDX-License-Identifier: GPL-2.0-only
/*
 * How long probes last: past the main thread's end and past exec, not past the recorder.
 * links: record/evaluator record/evaluator_keeper record/evaluator_probes base/log base/clock
 */
#include "target.h"

#include <dirent.h>
#include <fcntl.h>

#include <bpf/bpf.h>

#define MAX_IDS 64

static volatile long sink;

NOINLINE static long probed(long a)
{
	sink += a;
	return sink;
}

static const struct target *shared; /* of the target's threads */

/* Each word is a call; 0 ends the thread. */
static void *serve(void *arg)
{
	int word;

	(void)arg;
	while ((word = target_next(shared))) {
		probed(word);
		target_say(shared, (uint64_t)own_tid());
	}
	return NULL;
}

/* The main thread ends; a worker serves, then a worker of that worker. */
static void *serve_in_turn(void *arg)
{
	pthread_t thread;

	serve(arg);
	pthread_create(&thread, NULL, serve, arg);
	target_say(shared, 0);
	return NULL;
}

static void body_without_main(const struct target *target)
{
	pthread_t thread;

	shared = target;
	serve(NULL);
	pthread_create(&thread, NULL, serve_in_turn, NULL);
	target_say(target, 0);
	pthread_exit(NULL);
}

static void body(const struct target *target)
{
	shared = target;
	serve(NULL);
}

static char in_text[16], out_text[16];

static void *exec_again(void *arg)
{
	execl("/proc/self/exe", "test_lifetime", "--serve", in_text, out_text, (char *)NULL);
	_exit(arg ? 9 : 8);
}

static void body_that_execs(const struct target *target)
{
	pthread_t thread;

	shared = target;
	snprintf(in_text, sizeof(in_text), "%d", target->in);
	snprintf(out_text, sizeof(out_text), "%d", target->out);
	serve(NULL);
	if (target_next(target) == 1)
		exec_again(NULL);
	pthread_create(&thread, NULL, exec_again, NULL);
	pthread_join(thread, NULL);
}

struct fixture {
	struct target target;
	struct evaluator *evaluator;
	struct ptbpf_fire_page *page;
};

static struct fixture set_up(void (*fn)(const struct target *target))
{
	static const struct ptbpf_trigger trigger;
	const struct evaluator_config config = { .triggers = &trigger,
						 .n_triggers = 1,
						 .multi_thread = true };
	struct fixture f = { .target = target_start(fn) }; /* before, so that it inherits nothing */

	f.evaluator = must_open(&config);
	f.page = evaluator_fire_page(f.evaluator);
	CHECK_EQ(evaluator_add_thread(f.evaluator, f.target.pid, f.target.pid), 0);
	return f;
}

static uint64_t ask(const struct fixture *f, int word)
{
	target_tell(&f->target, word);
	return target_hear(&f->target);
}

/* Polls until a record of this type, of @tid unless it is 0, came. */
static void await_record(const struct fixture *f, uint32_t type, uint32_t tid)
{
	static struct records records;

	for (int i = 0; i < 1000; i++) {
		struct pollfd ready = { .fd = evaluator_fd(f->evaluator), .events = POLLIN };

		poll(&ready, 1, 10);
		CHECK_EQ(evaluator_poll(f->evaluator, keep_record, &records), 0);
		if (find_record(&records, type, tid, NULL))
			return;
	}
	CHECK(!"no record");
}

/* The byte at the probed instruction, as the target has it. */
static int probed_byte(pid_t pid)
{
	unsigned char byte = 0;
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(fd >= 0);
	CHECK_EQ(pread(fd, &byte, 1, (off_t)(uintptr_t)probed), 1);
	close(fd);
	return byte;
}

TEST(a_place_probed_twice_is_hit_once)
{
	struct fixture f = set_up(body);
	const uint32_t first = must_attach(f.evaluator, 0, f.target.pid, probed);

	CHECK_EQ(must_attach(f.evaluator, 0, f.target.pid, probed), first);
	ask(&f, 1);
	CHECK_EQ(f.page->stats[0].hits, 1);
	target_end(&f.target);
	evaluator_close(f.evaluator);
}

TEST(a_probe_outlives_the_threads_it_hung_on)
{
	struct fixture f = set_up(body_without_main);
	uint32_t worker;

	must_attach(f.evaluator, 0, f.target.pid, probed);
	ask(&f, 1);
	CHECK_EQ(f.page->stats[0].hits, 1);
	target_tell(&f.target, 0); /* the main thread goes, a worker stays */
	target_hear(&f.target);
	await_record(&f, PTBPF_RECORD_EXIT, (uint32_t)f.target.pid);
	worker = (uint32_t)ask(&f, 1);
	CHECK(worker != (uint32_t)f.target.pid);
	ask(&f, 1);
	CHECK_EQ(f.page->stats[0].hits, 3);
	CHECK_EQ(fire_number(f.evaluator, 3)->tid, worker);
	target_tell(&f.target, 0); /* the worker goes too, its own worker stays */
	target_hear(&f.target);
	await_record(&f, PTBPF_RECORD_EXIT, worker);
	CHECK(ask(&f, 1) != worker);
	CHECK_EQ(f.page->stats[0].hits, 4);
	kill(f.target.pid, SIGKILL);
	target_end(&f.target);
	evaluator_close(f.evaluator);
}

TEST(a_probe_can_be_set_when_the_main_thread_is_gone)
{
	struct fixture f = set_up(body_without_main);
	const struct ptbpf_fire *fire;

	target_tell(&f.target, 0);
	target_hear(&f.target);
	await_record(&f, PTBPF_RECORD_EXIT, (uint32_t)f.target.pid);
	must_attach(f.evaluator, 0, f.target.pid, probed);
	ask(&f, 1);
	fire = fire_number(f.evaluator, 1);
	CHECK(fire);
	CHECK_EQ(fire->pid, f.target.pid);
	kill(f.target.pid, SIGKILL);
	target_end(&f.target);
	evaluator_close(f.evaluator);
}

static void check_exec(int word)
{
	struct fixture f = set_up(body_that_execs);
	const uint32_t attachment = must_attach(f.evaluator, 0, f.target.pid, probed);

	target_tell(&f.target, 0);
	target_tell(&f.target, word);
	await_record(&f, PTBPF_RECORD_EXEC, (uint32_t)f.target.pid);
	CHECK_EQ(must_attach(f.evaluator, 0, f.target.pid, probed), attachment);
	CHECK_EQ(ask(&f, 1), (uint64_t)f.target.pid);
	CHECK_EQ(f.page->stats[0].hits, 1);
	evaluator_detach_process(f.evaluator, f.target.pid);
	ask(&f, 1);
	CHECK_EQ(f.page->stats[0].hits, 1);
	target_end(&f.target);
	evaluator_close(f.evaluator);
}

TEST(a_probe_outlives_exec_by_the_main_thread)
{
	check_exec(1);
}

TEST(a_probe_outlives_exec_by_another_thread)
{
	check_exec(2);
}

struct ids {
	struct {
		char kind; /* 'p'rogram, 'l'ink, 'm'ap */
		uint32_t id;
	} data[MAX_IDS];
	size_t n;
};

/* The BPF objects that process @pid holds. */
static struct ids held_by(pid_t pid)
{
	struct ids ids = {};
	struct dirent *entry;
	char path[320], line[256];
	DIR *directory;

	snprintf(path, sizeof(path), "/proc/%d/fdinfo", pid);
	directory = opendir(path);
	CHECK(directory);
	while ((entry = readdir(directory))) {
		FILE *file;

		snprintf(path, sizeof(path), "/proc/%d/fdinfo/%s", pid, entry->d_name);
		file = fopen(path, "re");
		while (file && fgets(line, sizeof(line), file)) {
			char kind[8];
			uint32_t id;

			if (sscanf(line, "%4[a-z]_id:\t%u", kind, &id) != 2 ||
			    !strcmp(kind, "mnt") || !strchr("plm", *kind))
				continue;
			CHECK(ids.n < MAX_IDS);
			ids.data[ids.n].kind = *kind;
			ids.data[ids.n++].id = id;
		}
		if (file)
			fclose(file);
	}
	closedir(directory);
	return ids;
}

static size_t count_kind(const struct ids *ids, char kind)
{
	size_t n = 0;

	for (size_t i = 0; i < ids->n; i++)
		n += ids->data[i].kind == kind;
	return n;
}

/* How many of them the kernel still has. */
static size_t count_alive(const struct ids *ids, bool links_only)
{
	size_t alive = 0;

	for (size_t i = 0; i < ids->n; i++) {
		const uint32_t id = ids->data[i].id;
		int fd;

		if (links_only && ids->data[i].kind != 'l')
			continue;
		fd = ids->data[i].kind == 'p' ? bpf_prog_get_fd_by_id(id) :
		     ids->data[i].kind == 'l' ? bpf_link_get_fd_by_id(id) :
						bpf_map_get_fd_by_id(id);
		if (fd >= 0) {
			alive++;
			close(fd);
		}
	}
	return alive;
}

/* Freeing goes on for a moment after the last user is gone. */
static void check_gone(const struct ids *ids, bool links_only)
{
	for (int i = 0; i < 300 && count_alive(ids, links_only); i++)
		usleep(10000);
	CHECK_EQ(count_alive(ids, links_only), 0);
}

TEST(closing_leaves_nothing)
{
	struct fixture f = set_up(body);
	const int before = probed_byte(f.target.pid);
	struct ids ids;

	must_attach(f.evaluator, 0, f.target.pid, probed);
	CHECK_EQ(probed_byte(f.target.pid), 0xcc);
	ids = held_by(getpid());
	CHECK_EQ(count_kind(&ids, 'l'), 5); /* of the thread programs; the keeper has the probe */
	CHECK(count_kind(&ids, 'p') >= 6);
	CHECK(count_alive(&ids, false) > 10);
	evaluator_close(f.evaluator);
	CHECK_EQ(probed_byte(f.target.pid), before);
	check_gone(&ids, false);
	ids = held_by(getpid());
	CHECK_EQ(ids.n, 0);
	ask(&f, 1);
	target_end(&f.target);
}

TEST(detaching_probes_leaves_the_thread_programs)
{
	struct fixture f = set_up(body);
	const int before = probed_byte(f.target.pid);
	struct ids ids;

	must_attach(f.evaluator, 0, f.target.pid, probed);
	evaluator_detach_probes(f.evaluator);
	CHECK_EQ(probed_byte(f.target.pid), before);
	ids = held_by(getpid());
	CHECK_EQ(count_kind(&ids, 'l'), 5);
	target_end(&f.target);
	evaluator_close(f.evaluator);
}

/*
 * A recorder that is killed. Its own child, forked before the first thread was added as a source's
 * stepper is, lives on and holds nothing that is attached.
 */
TEST(a_killed_recorder_leaves_nothing)
{
	struct target target = target_start(body), recorder = {};
	const int before = probed_byte(target.pid);
	struct ids ids, inherited;
	pid_t stepper;

	target_pipes(&recorder);
	recorder.pid = fork();
	if (recorder.pid == 0) {
		static const struct ptbpf_trigger trigger;
		const struct evaluator_config config = { .triggers = &trigger, .n_triggers = 1 };
		struct evaluator *evaluator = must_open(&config);

		stepper = fork();
		if (stepper == 0) {
			close(recorder.to); /* so that it ends with the test */
			target_next(&recorder);
			_exit(0);
		}
		CHECK_EQ(evaluator_add_thread(evaluator, target.pid, target.pid), 0);
		must_attach(evaluator, 0, target.pid, probed);
		target_say(&recorder, (uint64_t)stepper);
		pause();
	}
	stepper = (pid_t)target_hear(&recorder);
	CHECK_EQ(probed_byte(target.pid), 0xcc);
	ids = held_by(recorder.pid);
	inherited = held_by(stepper);
	CHECK_EQ(count_kind(&inherited, 'l'), 0);
	CHECK(count_kind(&ids, 'l') > 0);
	kill(recorder.pid, SIGKILL);
	CHECK_EQ(waitpid(recorder.pid, NULL, 0), recorder.pid);
	check_gone(&ids, true);
	for (int i = 0; i < 500 && probed_byte(target.pid) != before; i++)
		usleep(10000); /* the keeper of the probes goes on without it */
	CHECK_EQ(probed_byte(target.pid), before);
	target_tell(&recorder, 0); /* the stepper ends */
	check_gone(&ids, false);
	target_tell(&target, 1);
	target_hear(&target);
	target_end(&target);
}

TEST(without_rights_it_says_so_and_nothing_else)
{
	const struct evaluator_config config = {};
	struct evaluator *evaluator = NULL;
	char text[16];
	int err, log[2];

	if (geteuid() != 0)
		SKIP("needs root, to drop it");
	CHECK_EQ(pipe2(log, O_NONBLOCK), 0);
	CHECK_EQ(setresuid(65534, 65534, 65534), 0);
	dup2(log[1], STDERR_FILENO);
	err = evaluator_open(&config, &evaluator);
	CHECK(err == -EPERM || err == -EACCES);
	CHECK(!evaluator);
	CHECK_EQ(read(log[0], text, sizeof(text)), -1); /* silent */
	evaluator_close(NULL);
}

int main(int argc, char **argv)
{
	extern const struct unit_test __start_unit_tests[], __stop_unit_tests[];

	if (argc == 4 && !strcmp(argv[1], "--serve")) {
		const struct target target = { .in = atoi(argv[2]), .out = atoi(argv[3]) };

		shared = &target;
		serve(NULL);
		return 0;
	}
	return unit_run_all("bpf/lifetime", __start_unit_tests,
			    (size_t)(__stop_unit_tests - __start_unit_tests));
}
