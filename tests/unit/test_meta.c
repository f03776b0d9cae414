// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: snapshot/meta snapshot/meta_read snapshot/meta_write snapshot/sink
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <json-c/json.h>
#include <sys/stat.h>

#include "snapshot/meta.h"

static char dir_path[] = "/tmp/ptbpf-meta.XXXXXX";

static int temporary_directory(void)
{
	CHECK(mkdtemp(dir_path));
	return open(dir_path, O_RDONLY | O_DIRECTORY);
}

static void remove_directory(int dir)
{
	unlinkat(dir, "snapshot.json", 0);
	close(dir);
	CHECK_EQ(rmdir(dir_path), 0);
}

static void fill(struct meta *meta)
{
	const struct meta_count count = { strdup("sym:f"), 10, 1, UINT64_MAX, 3 };
	struct meta_thread thread = { .pid = 10,
				      .tid = 11,
				      .ns_pid = 1,
				      .ns_tid = 2,
				      .fired = true,
				      .exited = true,
				      .untraced = true,
				      .ring = 65536,
				      .tail = 16384,
				      .bytes = 70000,
				      .wrapped = true,
				      .lookback_ns = 5,
				      .instructions = 6,
				      .branches = 7,
				      .stops = 8,
				      .lost_insns = 9,
				      .extra_insns = 10,
				      .cut_error_ns = 11,
				      .untraced_ns = 12 };
	const struct meta_budget_event event = { 1, 2, 3, 4, 5, 6 };

	memset(meta, 0, sizeof(*meta));
	memcpy(thread.comm, "worker\xff/0", 10);
	meta->sequence = 3;
	meta->trigger = (struct meta_trigger){
		.kind = strdup("sym"),
		.spec = strdup("sym:f,arg1>3"),
		.symbol = strdup("f+0x4"),
		.pid = 10,
		.tid = 11,
		.ns_pid = 1,
		.ns_tid = 2,
		.comm = "main \"x\"",
		.ip = 0xffffffffff600000,
		.args = { 0, 1, UINT64_MAX, 1ull << 63, 4, 5 },
		.time_ns = 9007199254740993,
		.hit = 7,
	};
	CHECK_EQ(vec_push(&meta->counts, count), 0);
	CHECK_EQ(vec_push(&meta->threads, thread), 0);
	CHECK_EQ(vec_push(&meta->budget_events, event), 0);
	CHECK_EQ(vec_push(&meta->warnings, strdup("a \"quoted\"\nwarning \u00e9")), 0);
	meta->budget_requested = 9000;
	meta->budget_bytes = 16384;
	meta->budget_used = 16383;
	meta->budget_peak = 16382;
	meta->balance = strdup("activity");
	meta->source = strdup("soft");
	meta->soft_step = strdup("block");
	meta->evaluator = strdup("bpf");
	meta->host = strdup("host");
	meta->kernel = strdup("6.18");
	meta->cpu = strdup("GenuineIntel 6/85/7");
	meta->command = strdup("./a b/c");
	meta->target_exited = true;
	meta->target_status = 256;
	meta->clock = (struct clock_conv){ 0xfedcba98, 31, UINT64_MAX - 5, 77 };
	meta->wall_time_ns = 1700000000000000001;
	meta->thread_births = 20;
	meta->thread_exits = 19;
	meta->untraced_threads = 18;
	meta->dropped_records = 17;
	meta->instructions = 16;
	meta->stops = 15;
	meta->fallback_steps = 14;
	meta->disagreements = 13;
	meta->slow_down = 1234.0 / 7;
	meta->unit = strdup("ns");
}

static void check_equal(const struct meta *a, const struct meta *b)
{
	CHECK_EQ(a->version, META_VERSION);
	CHECK_EQ(a->sequence, b->sequence);
	CHECK_STR(a->trigger.kind, b->trigger.kind);
	CHECK_STR(a->trigger.spec, b->trigger.spec);
	CHECK_STR(a->trigger.symbol, b->trigger.symbol);
	CHECK(!memcmp(&a->trigger.pid, &b->trigger.pid,
		      sizeof(struct meta_trigger) - offsetof(struct meta_trigger, pid)));
	CHECK_EQ(a->counts.len, 1);
	CHECK_STR(a->counts.data[0].spec, b->counts.data[0].spec);
	CHECK(!memcmp(&a->counts.data[0].hits, &b->counts.data[0].hits, 28));
	CHECK_EQ(a->threads.len, 1);
	CHECK_STR(a->threads.data[0].comm, "worker\\xff/0");
	CHECK(!memcmp(&a->threads.data[0].pid, &b->threads.data[0].pid, 16));
	CHECK(!memcmp(&a->threads.data[0].fired, &b->threads.data[0].fired, 3));
	CHECK(!memcmp(&a->threads.data[0].ring, &b->threads.data[0].ring, 3 * 8 + 1));
	CHECK(!memcmp(&a->threads.data[0].lookback_ns, &b->threads.data[0].lookback_ns, 8 * 8));
	CHECK_EQ(a->budget_events.len, 1);
	CHECK_EQ(a->budget_events.data[0].time_ns, 1);
	CHECK_EQ(a->budget_events.data[0].tid, 2);
	CHECK(!memcmp(&a->budget_events.data[0].from, &b->budget_events.data[0].from, 4 * 8));
	CHECK_EQ(a->warnings.len, 1);
	CHECK_STR(a->warnings.data[0], b->warnings.data[0]);
	CHECK(!memcmp(&a->budget_requested, &b->budget_requested, 4 * 8));
	CHECK_STR(a->balance, "activity");
	CHECK_STR(a->source, "soft");
	CHECK_STR(a->soft_step, "block");
	CHECK_STR(a->evaluator, "bpf");
	CHECK_STR(a->host, "host");
	CHECK_STR(a->kernel, "6.18");
	CHECK_STR(a->cpu, "GenuineIntel 6/85/7");
	CHECK_STR(a->command, "./a b/c");
	CHECK_EQ(a->target_exited, true);
	CHECK_EQ(a->target_status, 256);
	CHECK(a->clock.mult == b->clock.mult && a->clock.shift == b->clock.shift);
	CHECK(a->clock.zero == b->clock.zero && a->clock.max_error_ns == 77);
	CHECK(!memcmp(&a->wall_time_ns, &b->wall_time_ns, 9 * 8 + sizeof(double)));
	CHECK_STR(a->unit, "ns");
}

TEST(everything_written_is_read_back)
{
	const int dir = temporary_directory();
	struct meta meta, again;
	char why[200];

	fill(&meta);
	CHECK_EQ(meta_write(dir, "snapshot.json", &meta), 0);
	CHECK_EQ(meta_read(dir, "snapshot.json", &again, why, sizeof(why)), 0);
	check_equal(&again, &meta);
	meta_fini(&again);
	/* Writing again replaces it, and leaves no other file. */
	CHECK_EQ(meta_write(dir, "snapshot.json", &meta), 0);
	meta_fini(&meta);
	remove_directory(dir);
}

TEST(an_empty_description_is_valid)
{
	const int dir = temporary_directory();
	struct meta meta = { 0 }, again;
	char why[200];

	CHECK_EQ(meta_write(dir, "snapshot.json", &meta), 0);
	CHECK_EQ(meta_read(dir, "snapshot.json", &again, why, sizeof(why)), 0);
	CHECK(!again.command && !again.trigger.kind && !again.threads.len);
	meta_fini(&again);
	remove_directory(dir);
}

static int read_text(const char *text, size_t size, struct meta *meta, char *why)
{
	char path[] = "/tmp/ptbpf-json.XXXXXX";
	const int fd = mkstemp(path);
	int err;

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, text, size), size);
	err = meta_read(AT_FDCWD, path, meta, why, 200);
	unlink(path);
	close(fd);
	return err;
}

#define HEAD "{\"format\":\"ptbpf-snapshot\",\"version\":1"

TEST(unknown_and_missing_members_are_fine)
{
	static const char text[] = HEAD ",\"new\":{\"a\":[1,2,{}]},\"budget\":{\"bytes\":5,"
					"\"colour\":\"red\"},\"threads\":[{\"tid\":4,\"x\":null}]}";
	struct meta meta;
	char why[200];

	CHECK_EQ(read_text(text, strlen(text), &meta, why), 0);
	CHECK_EQ(meta.budget_bytes, 5);
	CHECK_EQ(meta.threads.len, 1);
	CHECK_EQ(meta.threads.data[0].tid, 4);
	meta_fini(&meta);
}

TEST(what_is_wrong_is_said)
{
	static const struct {
		const char *text, *why;
		int err;
	} cases[] = {
		{ "", "cut off", -EINVAL },
		{ "{", "cut off", -EINVAL },
		{ "[]", "not a description", -EINVAL },
		{ "3", "cut off", -EINVAL },
		{ "null", "cut off", -EINVAL },
		{ "{}", "not a description", -EINVAL },
		{ "{\"format\":1}", "not a description", -EINVAL },
		{ "{\"format\":\"ptbpf-snapshot\"}", "no version", -EINVAL },
		{ "{\"format\":\"ptbpf-snapshot\",\"version\":2}", "newer", -ENOTSUP },
		{ "{\"format\":\"ptbpf-snapshot\",\"version\":-1}", "no version", -EINVAL },
		{ HEAD ",\"trigger\":[]}", "trigger is not an object", -EINVAL },
		{ HEAD ",\"trigger\":{\"tid\":\"x\"}}", "trigger.tid", -EINVAL },
		{ HEAD ",\"trigger\":{\"tid\":4294967296}}", "trigger.tid", -EINVAL },
		{ HEAD ",\"trigger\":{\"ip\":\"zz\"}}", "trigger.ip", -EINVAL },
		{ HEAD ",\"trigger\":{\"ip\":\"0x10000000000000000\"}}", "trigger.ip", -EINVAL },
		{ HEAD ",\"trigger\":{\"args\":[0,0,0,0,0,0,0]}}", "trigger.args", -EINVAL },
		{ HEAD ",\"sequence\":-1}", "sequence", -EINVAL },
		{ HEAD ",\"sequence\":1.5}", "sequence", -EINVAL },
		{ HEAD ",\"clock\":{\"tsc_shift\":70000}}", "clock.tsc_shift", -EINVAL },
		{ HEAD ",\"threads\":{}}", "threads is not an array", -EINVAL },
		{ HEAD ",\"threads\":[{},5]}", "threads[1]", -EINVAL },
		{ HEAD ",\"warnings\":[7]}", "warnings[0]", -EINVAL },
		{ HEAD ",\"target\":{\"command\":{}}}", "target.command", -EINVAL },
		{ HEAD ",\"x\":[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]}", "nesting", -EINVAL },
		{ HEAD ",\"x\":\"\xff\"}", "byte", -EINVAL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct meta meta;
		char why[200] = "";
		const int err = read_text(cases[i].text, strlen(cases[i].text), &meta, why);

		fprintf(stderr, "%s: %d %s\n", cases[i].text, err, why);
		CHECK_EQ(err, cases[i].err);
		CHECK(strstr(why, cases[i].why));
	}
}

TEST(every_truncation_is_refused)
{
	const int dir = temporary_directory();
	struct meta meta, again;
	char why[200], text[8192];
	int fd;
	ssize_t size;

	fill(&meta);
	CHECK_EQ(meta_write(dir, "snapshot.json", &meta), 0);
	meta_fini(&meta);
	fd = openat(dir, "snapshot.json", O_RDONLY);
	size = read(fd, text, sizeof(text));
	CHECK(size > 1000 && size < (ssize_t)sizeof(text));
	close(fd);
	for (ssize_t cut = 0; cut < size - 2; cut += 7)
		CHECK_EQ(read_text(text, (size_t)cut, &again, why), -EINVAL);
	remove_directory(dir);
}

TEST(missing_and_odd_files)
{
	struct meta meta;
	char why[200];

	CHECK_EQ(meta_read(AT_FDCWD, "/nonexistent/x", &meta, why, sizeof(why)), -ENOENT);
	CHECK_EQ(meta_read(AT_FDCWD, "/tmp", &meta, why, sizeof(why)), -EINVAL);
	CHECK_STR(why, "not a regular file");
	CHECK_EQ(meta_read(AT_FDCWD, "/dev/zero", &meta, why, sizeof(why)), -EINVAL);
}

TEST(a_failed_write_leaves_nothing)
{
	struct meta meta = { 0 };
	const int dir = open("/proc/self", O_RDONLY | O_DIRECTORY);

	CHECK(meta_write(dir, "snapshot.json", &meta) < 0);
	CHECK(meta_write(-1, "snapshot.json", &meta) < 0);
	close(dir);
}

UNIT_MAIN("unit/meta")
