// SPDX-License-Identifier: GPL-2.0-only
#include "snapshot/directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

#include "base/mem.h"
#include "snapshot/tree.h"

#define PART_SUFFIX ".part"
#define MAX_NAME 100
#define MAX_SEQUENCE_TRIES 100000u

/* mkdir -p; what is created belongs to the owner. 0 or -errno. */
static int make_parents(const char *path, uid_t uid, gid_t gid)
{
	scoped_free char *prefix = strdup(path);
	char *slash = prefix;

	if (!prefix)
		return -ENOMEM;
	if (*prefix == '\0')
		return -ENOENT;
	while (slash) {
		slash = strchr(slash + 1, '/');
		if (slash)
			*slash = '\0';
		if (mkdir(prefix, 0777) == 0) {
			if (uid != (uid_t)-1 && lchown(prefix, uid, gid))
				return -errno;
		} else if (errno != EEXIST && errno != EISDIR) {
			/* An ancestor on a read-only file system may exist all the same. */
			const int err = -errno;
			struct stat st;

			if (stat(prefix, &st) || !S_ISDIR(st.st_mode))
				return err;
		}
		if (slash)
			*slash = '/';
	}
	return 0;
}

int directory_prepare(const char *parent, uid_t owner_uid, gid_t owner_gid)
{
	const int err = make_parents(parent, owner_uid, owner_gid);
	struct stat st;

	if (err)
		return err;
	if (stat(parent, &st))
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	return faccessat(AT_FDCWD, parent, W_OK | X_OK, AT_EACCESS) ? -errno : 0;
}

/* NAME as a file name: no slashes, not hidden, not too long, UTF-8 or not. */
static void clean_name(const char *name, char out[MAX_NAME + 1])
{
	snprintf(out, MAX_NAME + 1, "%s", *name ? name : "ptbpf");
	for (char *c = out; *c; c++) {
		if (*c == '/' || (unsigned char)*c < ' ' || *c == 0x7f)
			*c = '_';
	}
	if (out[0] == '.' || out[0] == '-')
		out[0] = '_';
}

static int exists(int parent_fd, const char *name)
{
	return faccessat(parent_fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/*
 * Opens and locks a new .part. -EAGAIN: a recovering process saw it unlocked and removed it between
 * our two steps.
 */
static int open_locked(int parent_fd, const char *part, int *fd)
{
	scoped_fd int opened =
		openat(parent_fd, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat ours, named;

	if (opened < 0)
		return errno == ENOENT ? -EAGAIN : -errno;
	/* File systems without flock cost the recognition of leftovers, nothing else. */
	if (flock(opened, LOCK_EX) && errno != ENOSYS && errno != ENOTSUP && errno != EBADF)
		return -errno;
	if (fstat(opened, &ours))
		return -errno;
	if (fstatat(parent_fd, part, &named, AT_SYMLINK_NOFOLLOW) || named.st_ino != ours.st_ino)
		return -EAGAIN;
	*fd = TAKE_FD(opened);
	return 0;
}

static int create_numbered(int parent_fd, const char *stem, uint64_t *sequence, int *fd)
{
	for (unsigned int i = 0; i < MAX_SEQUENCE_TRIES; i++) {
		char final[NAME_MAX], part[NAME_MAX + sizeof(PART_SUFFIX)];
		int err;

		snprintf(final, sizeof(final), "%s-%" PRIu64, stem, *sequence);
		snprintf(part, sizeof(part), "%s" PART_SUFFIX, final);
		if (!exists(parent_fd, final)) {
			err = mkdirat(parent_fd, part, 0700) ? -errno :
							       open_locked(parent_fd, part, fd);
			if (err == 0)
				return 0;
			if (err != -EEXIST && err != -EAGAIN) {
				unlinkat(parent_fd, part, AT_REMOVEDIR);
				return err;
			}
			if (err == -EAGAIN)
				continue;
		}
		(*sequence)++;
	}
	return -EEXIST;
}

static int fill_directory(struct snapshot_directory *dir)
{
	if (dir->owner_uid != (uid_t)-1 && fchown(dir->fd, dir->owner_uid, dir->owner_gid))
		return -errno;
	if (mkdirat(dir->fd, "images", 0700))
		return -errno;
	if (dir->owner_uid != (uid_t)-1 &&
	    fchownat(dir->fd, "images", dir->owner_uid, dir->owner_gid, AT_SYMLINK_NOFOLLOW))
		return -errno;
	return 0;
}

static int create_in(const char *parent, const char *name, uint64_t sequence,
		     struct snapshot_directory *dir)
{
	scoped_free char *absolute = realpath(parent, NULL);
	char clean[MAX_NAME + 1], stem[MAX_NAME + 40], stamp[32];
	const time_t now = time(NULL);
	struct tm tm;
	int err;

	if (!absolute)
		return -errno;
	dir->parent_fd = open(absolute, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir->parent_fd < 0)
		return -errno;
	clean_name(name, clean);
	if (!localtime_r(&now, &tm))
		return -EOVERFLOW;
	strftime(stamp, sizeof(stamp), "%Y%m%d-%H%M%S", &tm);
	snprintf(stem, sizeof(stem), "%s-%s", clean, stamp);
	err = create_numbered(dir->parent_fd, stem, &sequence, &dir->fd);
	if (err)
		return err;
	if (asprintf(&dir->final_path, "%s/%s-%" PRIu64, strcmp(absolute, "/") ? absolute : "",
		     stem, sequence) < 0)
		dir->final_path = NULL;
	else if (asprintf(&dir->part_path, "%s" PART_SUFFIX, dir->final_path) < 0)
		dir->part_path = NULL;
	if (!dir->part_path) {
		char part[NAME_MAX];

		snprintf(part, sizeof(part), "%s-%" PRIu64 PART_SUFFIX, stem, sequence);
		unlinkat(dir->parent_fd, part, AT_REMOVEDIR);
		return -ENOMEM;
	}
	return fill_directory(dir);
}

int directory_create(const char *parent, const char *name, uint64_t sequence, uid_t owner_uid,
		     gid_t owner_gid, struct snapshot_directory *dir)
{
	int err;

	*dir = (struct snapshot_directory)SNAPSHOT_DIRECTORY_NONE;
	dir->owner_uid = owner_uid;
	dir->owner_gid = owner_gid;
	err = make_parents(parent, owner_uid, owner_gid);
	if (!err)
		err = create_in(parent, name, sequence, dir);
	if (err)
		directory_abandon(dir);
	return err;
}

static const char *base_name(const char *path)
{
	return strrchr(path, '/') + 1;
}

/* Never replaces anything. */
static int rename_new(int parent_fd, const char *from, const char *to)
{
	if (renameat2(parent_fd, from, parent_fd, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (exists(parent_fd, to))
		return -EEXIST;
	return renameat(parent_fd, from, parent_fd, to) ? -errno : 0;
}

/* FINAL's name with its sequence number one higher. */
static char *next_name(const char *final_path)
{
	const char *dash = strrchr(final_path, '-');
	char *next;

	if (asprintf(&next, "%.*s-%llu", (int)(dash - final_path), final_path,
		     strtoull(dash + 1, NULL, 10) + 1) < 0)
		return NULL;
	return next;
}

static int rename_final(struct snapshot_directory *dir)
{
	for (unsigned int i = 0; i < MAX_SEQUENCE_TRIES; i++) {
		const int err = rename_new(dir->parent_fd, base_name(dir->part_path),
					   base_name(dir->final_path));
		char *next;

		if (err != -EEXIST && err != -ENOTEMPTY)
			return err;
		next = next_name(dir->final_path);
		if (!next)
			return -ENOMEM;
		free(dir->final_path);
		dir->final_path = next;
	}
	return -EEXIST;
}

int directory_publish(struct snapshot_directory *dir)
{
	int err = tree_settle(dir->fd, dir->owner_uid, dir->owner_gid);

	if (!err)
		err = rename_final(dir);
	if (err)
		return err;
	free(dir->part_path);
	dir->part_path = NULL;
	/* The rename happened; whether it is on the disk already does not undo it. */
	fsync(dir->parent_fd);
	return 0;
}

void directory_close(struct snapshot_directory *dir)
{
	free(dir->part_path);
	free(dir->final_path);
	if (dir->fd >= 0)
		close(dir->fd);
	if (dir->parent_fd >= 0)
		close(dir->parent_fd);
	*dir = (struct snapshot_directory)SNAPSHOT_DIRECTORY_NONE;
}

void directory_abandon(struct snapshot_directory *dir)
{
	if (dir->part_path && dir->fd >= 0 && tree_clear(dir->fd) == 0)
		unlinkat(dir->parent_fd, base_name(dir->part_path), AT_REMOVEDIR);
	directory_close(dir);
}
