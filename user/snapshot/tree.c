// SPDX-License-Identifier: GPL-2.0-only
#include "snapshot/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"

#define MAX_DEPTH 8

static void close_dir(DIR **dir)
{
	if (*dir)
		closedir(*dir);
}

/* Reads from the start, whatever the position of @dir_fd. */
static DIR *open_entries(int dir_fd)
{
	scoped_fd int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (dir)
		fd = -1;
	return dir;
}

static const char *next_entry(DIR *dir)
{
	const struct dirent *entry;

	do
		entry = readdir(dir);
	while (entry && (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")));
	return entry ? entry->d_name : NULL;
}

static int settle(int dir_fd, uid_t uid, gid_t gid, unsigned int depth)
{
	scoped(close_dir) DIR *dir = open_entries(dir_fd);
	const char *name;

	if (!dir)
		return -errno;
	while ((errno = 0, name = next_entry(dir))) {
		scoped_fd int fd =
			openat(dir_fd, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
		struct stat st;
		int err = 0;

		if (fd < 0 && errno == ELOOP)
			continue;
		if (fd < 0 || fstat(fd, &st))
			return -errno;
		if (S_ISDIR(st.st_mode) && depth < MAX_DEPTH)
			err = settle(fd, uid, gid, depth + 1);
		else if ((uid != (uid_t)-1 && fchown(fd, uid, gid)) || fsync(fd))
			err = -errno;
		if (err)
			return err;
	}
	if (errno || (uid != (uid_t)-1 && fchown(dir_fd, uid, gid)) || fsync(dir_fd))
		return -errno;
	return 0;
}

int tree_settle(int dir_fd, uid_t uid, gid_t gid)
{
	return settle(dir_fd, uid, gid, 0);
}

static int clear(int dir_fd, unsigned int depth)
{
	scoped(close_dir) DIR *dir = open_entries(dir_fd);
	const char *name;
	int first = 0;

	if (!dir)
		return -errno;
	while ((name = next_entry(dir))) {
		int err = unlinkat(dir_fd, name, 0) ? -errno : 0;

		if (err == -EISDIR || err == -EPERM) {
			scoped_fd int fd = openat(dir_fd, name,
						  O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			if (fd >= 0)
				err = depth < MAX_DEPTH ? clear(fd, depth + 1) : -ELOOP;
			if (fd >= 0 && !err && unlinkat(dir_fd, name, AT_REMOVEDIR))
				err = -errno;
		}
		if (err && !first)
			first = err;
	}
	return first;
}

int tree_clear(int dir_fd)
{
	return clear(dir_fd, 0);
}
