// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: snapshot/directory snapshot/tree snapshot/recover snapshot/meta snapshot/meta_read
 * links: snapshot/meta_write snapshot/sink
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "snapshot/directory.h"
#include "snapshot/meta.h"
#include "snapshot/perf_format.h"

#define NOBODY_CHANGES (uid_t) - 1, (gid_t)-1

static char parent[64];

static void make_parent(void)
{
	strcpy(parent, "/tmp/ptbpf-dir.XXXXXX");
	CHECK(mkdtemp(parent));
}

static void remove_parent(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", parent);
	CHECK_EQ(system(command), 0);
}

static int count_entries(void)
{
	char command[128];
	FILE *pipe;
	int n = -1;

	snprintf(command, sizeof(command), "ls -A %s | wc -l", parent);
	pipe = popen(command, "r");
	CHECK_EQ(fscanf(pipe, "%d", &n), 1);
	pclose(pipe);
	return n;
}

static int count_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 256; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void put_file(int dir_fd, const char *name)
{
	const int fd = openat(dir_fd, name, O_WRONLY | O_CREAT, 0600);

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, "x", 1), 1);
	close(fd);
}

TEST(publish_renames_and_keeps_the_files)
{
	struct snapshot_directory dir;
	char *final_path;
	struct stat st;

	make_parent();
	CHECK_EQ(directory_create(parent, "a/b", 1, NOBODY_CHANGES, &dir), 0);
	CHECK(strstr(dir.part_path, "/a_b-") && strstr(dir.part_path, "-1.part"));
	CHECK_EQ(fstat(dir.fd, &st), 0);
	CHECK_EQ(st.st_mode & 07777, 0700);
	CHECK_EQ(fstatat(dir.fd, "images", &st, 0), 0);
	put_file(dir.fd, "perf.data");
	final_path = strdup(dir.final_path);
	CHECK_EQ(directory_publish(&dir), 0);
	CHECK_STR(dir.final_path, final_path);
	CHECK(!dir.part_path);
	CHECK_EQ(count_entries(), 1);
	directory_close(&dir);
	CHECK_EQ(stat(final_path, &st), 0);
	free(final_path);
	remove_parent();
}

TEST(taken_sequence_numbers_are_skipped)
{
	struct snapshot_directory dirs[5];

	make_parent();
	for (int i = 0; i < 5; i++)
		CHECK_EQ(directory_create(parent, "x", 1, NOBODY_CHANGES, &dirs[i]), 0);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(directory_publish(&dirs[i]), 0);
		directory_close(&dirs[i]);
	}
	CHECK_EQ(count_entries(), 5);
	remove_parent();
}

TEST(a_name_taken_before_the_rename_is_not_replaced)
{
	struct snapshot_directory dir;
	char *wanted;

	make_parent();
	CHECK_EQ(directory_create(parent, "x", 9, NOBODY_CHANGES, &dir), 0);
	wanted = strdup(dir.final_path);
	CHECK_EQ(mkdir(wanted, 0700), 0);
	CHECK_EQ(directory_publish(&dir), 0);
	CHECK(strcmp(dir.final_path, wanted));
	CHECK_STR(strrchr(dir.final_path, '-'), "-10");
	CHECK_EQ(count_entries(), 2);
	directory_close(&dir);
	free(wanted);
	remove_parent();
}

TEST(abandon_removes_everything_and_follows_no_link)
{
	struct snapshot_directory dir;
	struct stat st;

	make_parent();
	CHECK_EQ(directory_create(parent, "x", 1, NOBODY_CHANGES, &dir), 0);
	put_file(dir.fd, "perf.data");
	put_file(dir.fd, "images/vdso");
	CHECK_EQ(symlinkat("/usr", dir.fd, "link"), 0);
	CHECK_EQ(mkdirat(dir.fd, "images/deep", 0700), 0);
	put_file(dir.fd, "images/deep/file");
	directory_abandon(&dir);
	CHECK_EQ(count_entries(), 0);
	CHECK_EQ(stat("/usr/bin", &st), 0);
	remove_parent();
}

TEST(abandon_and_close_of_none)
{
	struct snapshot_directory dir = SNAPSHOT_DIRECTORY_NONE;

	directory_abandon(&dir);
	directory_close(&dir);
}

TEST(parents_are_created_and_all_belongs_to_the_owner)
{
	struct snapshot_directory dir;
	char deep[128], *final_path;
	struct stat st;

	if (geteuid())
		SKIP("only root gives files away");
	make_parent();
	snprintf(deep, sizeof(deep), "%s/p/q/", parent);
	CHECK_EQ(directory_create(deep, "x", 1, 1234, 1235, &dir), 0);
	put_file(dir.fd, "perf.data");
	put_file(dir.fd, "images/vdso");
	CHECK_EQ(directory_publish(&dir), 0);
	final_path = strdup(dir.final_path);
	directory_close(&dir);
	CHECK(strstr(final_path, "/p/q/x-"));
	for (const char *const *name = (const char *const[]){ "", "/perf.data", "/images",
							      "/images/vdso", "/..", NULL };
	     *name; name++) {
		char path[256];

		snprintf(path, sizeof(path), "%s%s", final_path, *name);
		CHECK_EQ(stat(path, &st), 0);
		CHECK_EQ(st.st_uid, 1234);
		CHECK_EQ(st.st_gid, 1235);
	}
	CHECK_EQ(stat(parent, &st), 0);
	CHECK_EQ(st.st_uid, 0);
	free(final_path);
	remove_parent();
}

TEST(bad_parents_fail_and_leak_nothing)
{
	struct snapshot_directory dir;
	const int before = count_fds();
	char path[128];

	make_parent();
	snprintf(path, sizeof(path), "%s/file", parent);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	CHECK_EQ(directory_create(path, "x", 1, NOBODY_CHANGES, &dir), -ENOTDIR);
	snprintf(path, sizeof(path), "%s/file/below", parent);
	CHECK_EQ(directory_create(path, "x", 1, NOBODY_CHANGES, &dir), -ENOTDIR);
	CHECK_EQ(directory_create("", "x", 1, NOBODY_CHANGES, &dir), -ENOENT);
	CHECK(directory_create("/proc/1/nowhere", "x", 1, NOBODY_CHANGES, &dir) < 0);
	CHECK_EQ(count_fds(), before);
	CHECK_EQ(count_entries(), 1);
	remove_parent();
}

TEST(prepare_creates_the_parent_or_says_why_not)
{
	char path[128];
	struct stat st;

	make_parent();
	snprintf(path, sizeof(path), "%s/a/b", parent);
	CHECK_EQ(directory_prepare(path, NOBODY_CHANGES), 0);
	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(directory_prepare(path, NOBODY_CHANGES), 0);
	snprintf(path, sizeof(path), "%s/file", parent);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	CHECK_EQ(directory_prepare(path, NOBODY_CHANGES), -ENOTDIR);
	if (mount("none", parent, "tmpfs", MS_RDONLY, "size=64k"))
		SKIP("mount: not allowed here");
	CHECK_EQ(directory_prepare(parent, NOBODY_CHANGES), -EROFS);
	CHECK_EQ(umount(parent), 0);
	remove_parent();
}

TEST(a_read_only_parent_is_refused)
{
	struct snapshot_directory dir;
	const int before = count_fds();

	make_parent();
	if (mount("none", parent, "tmpfs", MS_RDONLY, "size=64k"))
		SKIP("mount: not allowed here");
	CHECK_EQ(directory_create(parent, "x", 1, NOBODY_CHANGES, &dir), -EROFS);
	CHECK_EQ(umount(parent), 0);
	CHECK_EQ(count_fds(), before);
	remove_parent();
}

/* As many inodes as there are: each step of creating one runs out once. */
TEST(a_full_parent_leaves_nothing_behind)
{
	struct snapshot_directory dir;

	make_parent();
	for (int inodes = 1; inodes < 6; inodes++) {
		char options[32];
		int err;

		snprintf(options, sizeof(options), "size=64k,nr_inodes=%d", inodes);
		if (mount("none", parent, "tmpfs", 0, options))
			SKIP("mount: not allowed here");
		err = directory_create(parent, "x", 1, NOBODY_CHANGES, &dir);
		CHECK_EQ(err, inodes < 3 ? -ENOSPC : 0);
		if (!err)
			directory_abandon(&dir);
		CHECK_EQ(count_entries(), 0);
		CHECK_EQ(umount(parent), 0);
	}
	remove_parent();
}

static void put_perf_data(int dir_fd, uint64_t magic, uint64_t data_size)
{
	const struct perf_format_header header = { .magic = magic,
						   .size = sizeof(header),
						   .data = { sizeof(header), data_size } };
	const int fd = openat(dir_fd, "perf.data", O_WRONLY | O_CREAT, 0600);

	CHECK(fd >= 0);
	CHECK_EQ(write(fd, &header, sizeof(header)), sizeof(header));
	close(fd);
}

/* A writer that dies by SIGKILL in the middle. */
static void leave_part(bool with_perf_data, uint64_t magic, uint64_t data_size, bool with_meta)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		const struct meta meta = { 0 };
		struct snapshot_directory dir;

		if (directory_create(parent, "x", 1, NOBODY_CHANGES, &dir))
			_exit(1);
		if (with_perf_data)
			put_perf_data(dir.fd, magic, data_size);
		if (with_meta && meta_write(dir.fd, "snapshot.json", &meta))
			_exit(1);
		put_file(dir.fd, "images/vdso");
		kill(getpid(), SIGKILL);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
}

TEST(leftovers_of_killed_writers_are_removed_or_published)
{
	unsigned int removed, recovered;
	struct snapshot_directory living;

	make_parent();
	CHECK_EQ(directory_create(parent, "x", 1, NOBODY_CHANGES, &living), 0);
	put_perf_data(living.fd, PERF_FORMAT_MAGIC, 0);
	leave_part(false, 0, 0, false);
	leave_part(true, PERF_FORMAT_MAGIC, 0, false);
	leave_part(true, 0, 0, true);
	leave_part(true, PERF_FORMAT_MAGIC, 1, true);
	CHECK_EQ(count_entries(), 5);
	CHECK_EQ(directory_recover(parent, &removed, &recovered), 0);
	CHECK_EQ(removed, 4);
	CHECK_EQ(recovered, 0);
	leave_part(true, PERF_FORMAT_MAGIC, 0, true);
	CHECK_EQ(directory_recover(parent, &removed, &recovered), 0);
	CHECK_EQ(removed, 0);
	CHECK_EQ(recovered, 1);
	CHECK_EQ(count_entries(), 2);
	CHECK_EQ(directory_publish(&living), 0);
	directory_close(&living);
	CHECK_EQ(count_entries(), 2);
	remove_parent();
}

TEST(recovering_touches_nothing_else)
{
	static const char *const names[] = {
		"x.part",
		"x-20260101-000000-.part",
		"x-20260101-000000-1",
		"x-2026010-000000-1.part",
		"x-20260101-0000001.part",
		"-20260101-000000-1.part",
		".part",
	};
	unsigned int removed, recovered;
	char path[256];
	struct stat st;

	make_parent();
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", parent, names[i]);
		CHECK_EQ(mkdir(path, 0700), 0);
	}
	/* A link or a file of the right name is no leftover either. */
	snprintf(path, sizeof(path), "%s/x-20260101-000000-1.part", parent);
	CHECK_EQ(symlink("x.part", path), 0);
	snprintf(path, sizeof(path), "%s/x-20260101-000000-2.part", parent);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	CHECK_EQ(directory_recover(parent, &removed, &recovered), 0);
	CHECK_EQ(removed + recovered, 0);
	CHECK_EQ(count_entries(), 9);
	CHECK_EQ(stat(path, &st), 0);
	CHECK_EQ(directory_recover("/nonexistent/x", &removed, &recovered), 0);
	CHECK_EQ(directory_recover("/etc/passwd", &removed, &recovered), -ENOTDIR);
	remove_parent();
}

UNIT_MAIN("unit/directory")
