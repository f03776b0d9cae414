// SPDX-License-Identifier: GPL-2.0-only
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "snapshot/directory.h"
#include "snapshot/meta.h"
#include "snapshot/perf_format.h"

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* Matches @text backwards from *end: 'd' a digit, '+' one or more digits, else itself. */
static bool ends_with(const char *begin, const char *end, const char *pattern)
{
	for (const char *p = pattern + strlen(pattern); p-- > pattern;) {
		if (end-- == begin)
			return false;
		if (*p == 'd' || *p == '+') {
			if (!isdigit((unsigned char)*end))
				return false;
			while (*p == '+' && end > begin && isdigit((unsigned char)end[-1]))
				end--;
		} else if (*end != *p) {
			return false;
		}
	}
	return end > begin;
}

/* NAME-YYYYmmdd-HHMMSS-SEQ.part; nothing else is ever touched. */
static bool is_part_name(const char *name)
{
	const size_t len = strlen(name), suffix = strlen(".part");

	return len > suffix && !strcmp(name + len - suffix, ".part") &&
	       ends_with(name, name + len - suffix, "-dddddddd-dddddd-+");
}

static bool inside(const struct perf_format_section *section, uint64_t size)
{
	return section->offset <= size && section->size <= size - section->offset;
}

/* The writer puts the header's magic last, so what has one is whole. */
static bool has_whole_perf_data(int dir_fd)
{
	scoped_fd int fd = openat(dir_fd, "perf.data", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct perf_format_header header;
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
	       pread(fd, &header, sizeof(header), 0) == (ssize_t)sizeof(header) &&
	       header.magic == PERF_FORMAT_MAGIC && inside(&header.attrs, (uint64_t)st.st_size) &&
	       inside(&header.data, (uint64_t)st.st_size);
}

static bool has_whole_meta(int dir_fd)
{
	struct meta meta;
	char why[256];

	if (meta_read(dir_fd, "snapshot.json", &meta, why, sizeof(why)))
		return false;
	meta_fini(&meta);
	return true;
}

/* The .part called @name if it is ours and its writer is dead; -EAGAIN otherwise. */
static int claim(int parent_fd, const char *name, struct snapshot_directory *dir)
{
	scoped_fd int fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat ours, named;

	if (fd < 0 || fstat(fd, &ours) || (geteuid() && ours.st_uid != geteuid()))
		return -EAGAIN;
	if (flock(fd, LOCK_EX | LOCK_NB))
		return -EAGAIN;
	/* Between our open and lock its writer may have published it. */
	if (fstatat(parent_fd, name, &named, AT_SYMLINK_NOFOLLOW) || named.st_ino != ours.st_ino)
		return -EAGAIN;
	dir->fd = TAKE_FD(fd);
	return 0;
}

static int recover_one(const char *parent, int parent_fd, const char *name, unsigned int *removed,
		       unsigned int *recovered)
{
	struct snapshot_directory dir = SNAPSHOT_DIRECTORY_NONE;

	if (claim(parent_fd, name, &dir))
		return 0;
	dir.parent_fd = fcntl(parent_fd, F_DUPFD_CLOEXEC, 0);
	if (asprintf(&dir.part_path, "%s/%s", parent, name) < 0)
		dir.part_path = NULL;
	else if (asprintf(&dir.final_path, "%s/%.*s", parent, (int)(strlen(name) - 5), name) < 0)
		dir.final_path = NULL;
	if (!dir.final_path || dir.parent_fd < 0) {
		directory_close(&dir);
		return -ENOMEM;
	}
	if (has_whole_perf_data(dir.fd) && has_whole_meta(dir.fd)) {
		if (directory_publish(&dir) == 0)
			++*recovered;
		directory_close(&dir);
	} else {
		directory_abandon(&dir);
		if (faccessat(parent_fd, name, F_OK, AT_SYMLINK_NOFOLLOW))
			++*removed;
	}
	return 0;
}

int directory_recover(const char *parent, unsigned int *removed, unsigned int *recovered)
{
	scoped(close_dir) DIR *dir = opendir(parent);
	const struct dirent *entry;
	int err = 0;

	*removed = *recovered = 0;
	if (!dir)
		return errno == ENOENT ? 0 : -errno;
	while (!err && (entry = readdir(dir))) {
		if (is_part_name(entry->d_name))
			err = recover_one(parent, dirfd(dir), entry->d_name, removed, recovered);
	}
	return err;
}
