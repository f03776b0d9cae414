// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: image/space image/files image/object image/symbols image/symtab image/plt image/match
 * links: image/debug_file image/demangle
 */
#include "image/space.h"

#include <limits.h>
#include <sys/stat.h>

#include "elf_maker.h"
#include "unit.h"

#define PID 100

static char dir[256];

/* A directory of the test's own; the files in it are few and named by the test. */
static const char *make_dir(void)
{
	snprintf(dir, sizeof(dir), "%s/space.XXXXXX", getenv("TMPDIR") ?: "/tmp");
	CHECK(mkdtemp(dir));
	return dir;
}

static const char *path_in(const char *name)
{
	static char paths[8][512];
	static int next;
	char *path = paths[next++ % 8];

	snprintf(path, sizeof(paths[0]), "%s/%s", dir, name);
	return path;
}

/* An ELF file of one page of @fill, with a build-id of @id and one function "fn_NAME". */
static void make_object(const char *path, uint8_t fill, uint8_t id)
{
	static struct made_file file;
	struct made_symbol symbol = { "fn", MADE_VADDR + 16, 32, STB_GLOBAL, STT_FUNC };
	uint8_t text[4096];

	memset(text, fill, sizeof(text));
	made_elf(&file, text, sizeof(text), id, &symbol, 1);
	made_write(path, file.bytes, file.size);
}

static void map(struct space *space, uint64_t time_ns, pid_t pid, uint64_t addr, uint64_t len,
		const char *path, uint8_t id)
{
	uint8_t build_id[20];
	struct space_map_request request = {
		.pid = pid,
		.addr = addr,
		.len = len,
		.pgoff = MADE_TEXT_OFFSET,
		.time_ns = time_ns,
		.path = path,
		.build_id = build_id,
		.build_id_size = id ? sizeof(build_id) : 0,
	};

	memset(build_id, id, sizeof(build_id));
	CHECK_EQ(space_map(space, &request), 0);
}

/* First byte at (pid, addr, time); -1: none. */
static int byte_at(const struct space *space, pid_t pid, uint64_t addr, uint64_t time_ns)
{
	uint8_t byte;

	return space_read(space, pid, addr, time_ns, &byte, 1) == 1 ? byte : -1;
}

TEST(a_later_mapping_covers_and_leaves_the_rest)
{
	struct space *space;
	uint8_t buf[32];

	make_dir();
	make_object(path_in("a"), 0xaa, 0);
	make_object(path_in("b"), 0xbb, 0);
	CHECK_EQ(space_new(NULL, &space), 0);
	map(space, 20, PID, 0x10400, 0x100, path_in("b"), 0); /* told out of order */
	map(space, 10, PID, 0x10000, 0x1000, path_in("a"), 0);
	CHECK_EQ(space_freeze(space), 0);
	CHECK_EQ(byte_at(space, PID, 0x10400, 15), 0xaa);
	CHECK_EQ(byte_at(space, PID, 0x10400, 20), 0xbb);
	CHECK_EQ(byte_at(space, PID, 0x104ff, 25), 0xbb);
	CHECK_EQ(byte_at(space, PID, 0x103ff, 25), 0xaa);
	CHECK_EQ(byte_at(space, PID, 0x10500, 25), 0xaa);
	CHECK_EQ(space_find(space, PID, 0x10500, 25)->pgoff, MADE_TEXT_OFFSET + 0x500);
	CHECK(!space_find(space, PID, 0x11000, 25));
	CHECK(!space_find(space, PID + 1, 0x10400, 25));
	/* A read that crosses the border sees both. */
	CHECK_EQ(space_read(space, PID, 0x103f0, 25, buf, 32), 32);
	CHECK_EQ(buf[15], 0xaa);
	CHECK_EQ(buf[16], 0xbb);
	CHECK_EQ(space_read(space, PID, 0x10ff8, 25, buf, 32), 8);
	space_free(space);
}

TEST(the_nearest_in_time_answers_when_none_is_in_force)
{
	struct space *space;

	make_dir();
	make_object(path_in("a"), 0xaa, 0);
	make_object(path_in("b"), 0xbb, 0);
	CHECK_EQ(space_new(NULL, &space), 0);
	map(space, 10, PID, 0x10000, 0x1000, path_in("a"), 0);
	CHECK_EQ(space_exec(space, PID, 20), 0);
	map(space, 50, PID, 0x10000, 0x1000, path_in("b"), 0);
	CHECK_EQ(space_freeze(space), 0);
	CHECK_EQ(byte_at(space, PID, 0x10000, 0), 0xaa);
	CHECK_EQ(byte_at(space, PID, 0x10000, 19), 0xaa);
	CHECK_EQ(byte_at(space, PID, 0x10000, 25), 0xaa);
	CHECK_EQ(byte_at(space, PID, 0x10000, 48), 0xbb);
	CHECK_EQ(byte_at(space, PID, 0x10000, 1000), 0xbb);
	space_free(space);
}

TEST(fork_copies_and_exec_ends)
{
	const struct space_mapping **mappings;
	struct space *space;

	make_dir();
	make_object(path_in("a"), 0xaa, 0);
	make_object(path_in("b"), 0xbb, 0);
	CHECK_EQ(space_new(NULL, &space), 0);
	map(space, 10, PID, 0x10000, 0x1000, path_in("a"), 0);
	CHECK_EQ(space_fork(space, PID, PID + 1, 20), 0);
	map(space, 30, PID, 0x20000, 0x1000, path_in("b"), 0);
	CHECK_EQ(space_exec(space, PID + 1, 40), 0);
	map(space, 41, PID + 1, 0x10000, 0x1000, path_in("b"), 0);
	CHECK_EQ(space_freeze(space), 0);
	CHECK_EQ(byte_at(space, PID + 1, 0x10000, 30), 0xaa);
	CHECK_EQ(byte_at(space, PID + 1, 0x10000, 41), 0xbb);
	CHECK_EQ(byte_at(space, PID + 1, 0x20000, 35), -1);
	CHECK_EQ(byte_at(space, PID, 0x10000, 50), 0xaa);
	CHECK_EQ(byte_at(space, PID, 0x20000, 50), 0xbb);
	CHECK_EQ(space_mappings(space, PID, &mappings), 2);
	CHECK_EQ(mappings[1]->addr, 0x20000);
	CHECK_EQ(space_mappings(space, 1, &mappings), 0);
	space_free(space);
}

TEST(the_same_mapping_again_changes_nothing)
{
	const struct space_mapping **mappings;
	struct space *space;

	make_dir();
	make_object(path_in("a"), 0xaa, 7);
	CHECK_EQ(space_new(NULL, &space), 0);
	for (uint64_t time_ns = 1; time_ns < 100; time_ns++)
		map(space, time_ns, PID, 0x10000, 0x1000, path_in("a"), 7);
	CHECK_EQ(space_freeze(space), 0);
	CHECK_EQ(space_mappings(space, PID, &mappings), 1);
	space_free(space);
}

TEST(missing_and_different_files_are_listed)
{
	const struct space_missing *missing;
	struct space *space;

	make_dir();
	make_object(path_in("good"), 0xaa, 7);
	make_object(path_in("other"), 0xaa, 8);
	make_object(path_in("plain"), 0xaa, 0);
	CHECK_EQ(space_new(NULL, &space), 0);
	map(space, 1, PID, 0x10000, 0x1000, path_in("good"), 7);
	map(space, 1, PID, 0x20000, 0x1000, path_in("other"), 7);
	map(space, 1, PID, 0x30000, 0x1000, path_in("plain"), 7);
	map(space, 1, PID, 0x40000, 0x1000, path_in("zzz"), 7);
	map(space, 1, PID, 0x50000, 0x1000, "[vdso]", 0);
	map(space, 1, PID, 0x60000, 0x1000, "//anon", 0);
	CHECK_EQ(space_freeze(space), 0);
	CHECK_EQ(byte_at(space, PID, 0x10000, 2), 0xaa);
	CHECK_EQ(byte_at(space, PID, 0x20000, 2), -1);
	CHECK_EQ(space_missing(space, &missing), 5);
	CHECK_STR(missing[0].path, "//anon");
	CHECK_STR(missing[1].path, path_in("other"));
	CHECK_STR(missing[1].reason,
		  "build-id differs: file 0808080808080808080808080808080808080808, recorded "
		  "0707070707070707070707070707070707070707");
	CHECK_STR(missing[2].reason,
		  "file has no build-id, recorded 0707070707070707070707070707070707070707");
	CHECK_STR(missing[3].reason, "no such file");
	CHECK_STR(missing[4].path, "[vdso]");
	CHECK(!missing[3].needed);
	space_need(space, PID, 0x40010, 5);
	space_need(space, PID, 0x10010, 5);
	space_need(space, PID, 0x99999, 5);
	CHECK(missing[3].needed && !missing[4].needed && !missing[1].needed);
	space_free(space);
}

TEST(images_are_found_where_the_snapshot_is_now)
{
	const struct space_missing *missing;
	struct space_options options = { 0 };
	struct space *space;

	make_dir();
	mkdir(path_in("images"), 0755);
	make_object(path_in("images/vdso"), 0xdd, 0);
	made_write(path_in("images/anon-1000"), "\x90\xc3", 2);
	options.snapshot_dir = dir;
	CHECK_EQ(space_new(&options, &space), 0);
	map(space, 1, PID, 0x10000, 0x1000, "/gone/snap-1/images/vdso", 0);
	struct space_map_request anon = {
		.pid = PID, .addr = 0x20000, .len = 0x1000, .path = "/gone/snap-1/images/anon-1000"
	};
	CHECK_EQ(space_map(space, &anon), 0);
	CHECK_EQ(space_freeze(space), 0);
	CHECK_EQ(space_missing(space, &missing), 0);
	CHECK_EQ(byte_at(space, PID, 0x10010, 2), 0xdd);
	CHECK_EQ(byte_at(space, PID, 0x20001, 2), 0xc3);
	CHECK_EQ(byte_at(space, PID, 0x20002, 2), -1);
	space_free(space);
}

TEST(symfs_is_a_root_for_recorded_paths)
{
	struct space_options options = { 0 };
	const struct space_missing *missing;
	struct space *space;
	char recorded[512];

	make_dir();
	mkdir(path_in("usr"), 0755);
	make_object(path_in("usr/prog"), 0xaa, 0);
	options.symfs = dir;
	CHECK_EQ(space_new(&options, &space), 0);
	map(space, 1, PID, 0x10000, 0x1000, "/usr/prog", 0);
	snprintf(recorded, sizeof(recorded), "%s", path_in("usr/prog"));
	map(space, 1, PID, 0x20000, 0x1000, recorded, 0);
	CHECK_EQ(space_freeze(space), 0);
	CHECK_EQ(byte_at(space, PID, 0x10000, 2), 0xaa);
	CHECK_EQ(space_missing(space, &missing), 1);
	space_free(space);
}

TEST(names_have_run_time_addresses)
{
	struct space_name name;
	struct space *space;

	make_dir();
	make_object(path_in("a"), 0xaa, 0);
	CHECK_EQ(space_new(NULL, &space), 0);
	map(space, 1, PID, 0x7f0000, 0x1000, path_in("a"), 0);
	CHECK_EQ(space_freeze(space), 0);
	CHECK(space_name(space, PID, 0x7f0018, 2, &name));
	CHECK_STR(name.symbol->name, "fn");
	CHECK_EQ(name.start, 0x7f0010);
	CHECK(space_name(space, PID, 0x7f0100, 2, &name));
	CHECK(!name.symbol);
	CHECK_EQ(name.start, 0x7f0000);
	CHECK(!space_name(space, PID, 0x600000, 2, &name));
	space_free(space);
}

/* A recording of nonsense: odd sizes, wrap-around, everything overlapping. The answers must agree
 * with a plain replay over 64 cells. */
TEST(random_mappings_agree_with_a_plain_replay)
{
	unsigned int seed = 1;

	make_dir();
	make_object(path_in("a"), 0xaa, 0);
	for (int round = 0; round < 200; round++) {
		uint64_t owner[64] = { 0 }, at_30[64] = { 0 };
		struct space *space;

		CHECK_EQ(space_new(NULL, &space), 0);
		for (uint64_t time_ns = 1; time_ns <= 60; time_ns++) {
			unsigned int first = rand_r(&seed) % 64, n = rand_r(&seed) % 32;
			char name[32];

			snprintf(name, sizeof(name), "/gone/%d", rand_r(&seed) % 8);
			if (first + n > 64)
				n = 64 - first;
			map(space, time_ns, PID, first * 16, n * 16, name, 0);
			for (unsigned int i = first; i < first + n; i++)
				owner[i] = name[6];
			if (time_ns == 30)
				memcpy(at_30, owner, sizeof(owner));
		}
		CHECK_EQ(space_freeze(space), 0);
		for (unsigned int i = 0; i < 64; i++) {
			const struct space_mapping *last = space_find(space, PID, 16 * i + 8, 60);
			const struct space_mapping *mid = space_find(space, PID, 16 * i + 8, 30);

			CHECK_EQ(last ? last->path[6] : 0, owner[i]);
			if (at_30[i])
				CHECK_EQ(mid->path[6], at_30[i]);
		}
		space_free(space);
	}
}

TEST(what_wraps_around_is_left_out)
{
	struct space *space;

	CHECK_EQ(space_new(NULL, &space), 0);
	map(space, 1, PID, UINT64_MAX - 100, 4096, "/gone/x", 0);
	map(space, 1, PID, 0, 0, "/gone/x", 0);
	CHECK_EQ(space_freeze(space), 0);
	CHECK(!space_find(space, PID, UINT64_MAX - 50, 1));
	CHECK(!space_find(space, PID, 0, 1));
	space_free(space);
}

UNIT_MAIN("unit/space")
