// SPDX-License-Identifier: GPL-2.0-only
/* Formats by name, and their files: nothing is overwritten, nothing is left half written. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cmd/pipeline.h"
#include "cmd/suggest.h"

#define TRIES 1000

static int refuse_format(const char *name)
{
	const struct output_format *const *format;
	struct suggest suggest = { 0 };
	char list[256] = "";

	for (format = output_formats(); *format; format++) {
		suggest_consider(&suggest, name, (*format)->name);
		strncat(list, (*format)->name, sizeof(list) - strlen(list) - 1);
		strncat(list, ", ", sizeof(list) - strlen(list) - 1);
	}
	if (suggest.best)
		log_err("--format %s: unknown; did you mean %s? There is: %snone", name,
			suggest.best, list);
	else
		log_err("--format %s: unknown. There is: %snone", name, list);
	return -EINVAL;
}

int pipeline_parse_formats(const char *list, struct pipeline_formats *formats)
{
	const char *at = list;
	size_t n = 0;

	*formats = (struct pipeline_formats){ 0 };
	if (!strcmp(list, "none"))
		return 0;
	while (true) {
		const size_t len = strcspn(at, ",");
		const struct output_format *format;
		size_t i = 0;
		char name[32];

		snprintf(name, sizeof(name), "%.*s", (int)(len < 31 ? len : 31), at);
		format = output_format_find(name);
		if (!format)
			return refuse_format(name);
		while (i < n && formats->list[i] != format)
			i++;
		if (i == n && n < PIPELINE_MAX_FORMATS)
			formats->list[n++] = format;
		if (!at[len])
			return 0;
		at += len + 1;
	}
}

/* A new file NAME, or NAME with a number before its suffix; -EEXIST when it is taken. */
static char *numbered(const char *file_name, unsigned int number)
{
	const char *dot = strrchr(file_name, '.');
	const int stem = (int)(dot ? (size_t)(dot - file_name) : strlen(file_name));
	char *name;

	if (number == 1)
		return strdup(file_name);
	return asprintf(&name, "%.*s-%u%s", stem, file_name, number, dot ? dot : "") < 0 ? NULL :
											   name;
}

static bool same_content(int dir_fd, const char *a, const char *b)
{
	scoped_fd int a_fd = openat(dir_fd, a, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	scoped_fd int b_fd = openat(dir_fd, b, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char a_buf[65536], b_buf[65536];
	struct stat a_st, b_st;
	ssize_t n;

	if (a_fd < 0 || b_fd < 0 || fstat(a_fd, &a_st) || fstat(b_fd, &b_st) ||
	    !S_ISREG(b_st.st_mode) || a_st.st_size != b_st.st_size)
		return false;
	while ((n = read(a_fd, a_buf, sizeof(a_buf))) > 0) {
		ssize_t got = 0, more = 1;

		while (got < n && (more = read(b_fd, b_buf + got, (size_t)(n - got))) > 0)
			got += more;
		if (got != n || memcmp(a_buf, b_buf, (size_t)n))
			return false;
	}
	return n == 0;
}

/* Gives the finished @temporary the first name that is free or holds the same bytes. */
static int publish(int dir_fd, const char *temporary, const char *file_name, char **name)
{
	int err = -EEXIST;

	for (unsigned int number = 1; number < TRIES && err == -EEXIST; number++) {
		scoped_free char *try = numbered(file_name, number);

		if (!try)
			return -ENOMEM;
		err = linkat(dir_fd, temporary, dir_fd, try, 0) ? -errno : 0;
		/* file systems without hard links */
		if (err == -EPERM || err == -EOPNOTSUPP || err == -ENOSYS || err == -EMLINK)
			err = faccessat(dir_fd, try, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ? -EEXIST :
			      renameat(dir_fd, temporary, dir_fd, try)               ? -errno :
										       0;
		if (!err || (err == -EEXIST && same_content(dir_fd, temporary, try))) {
			*name = TAKE_PTR(try);
			err = 0;
		}
	}
	return err;
}

/* stdio knows that a write failed, but not always why. */
static int write_error(int fd, int err)
{
	struct statvfs fs;

	return err == -EIO && !fstatvfs(fd, &fs) && !fs.f_bavail ? -ENOSPC : err;
}

static int write_file(int fd, const struct output_format *format, const struct timeline *timeline,
		      const struct output_filter *filter)
{
	FILE *file = fdopen(fd, "w");
	int err;

	if (!file) {
		err = -errno;
		close(fd);
		return err;
	}
	err = format->write(file, timeline, filter);
	if (!err && fflush(file))
		err = -errno;
	err = write_error(fd, err);
	if (fclose(file) && !err)
		err = -errno;
	return err;
}

static int write_into(int dir_fd, const struct pipeline *pipeline,
		      const struct output_format *format, const struct output_filter *filter,
		      char **name)
{
	char temporary[64];
	struct stat st;
	int fd, err;

	snprintf(temporary, sizeof(temporary), ".%s.%d", format->file_name, (int)getpid());
	if (unlinkat(dir_fd, temporary, 0) && errno != ENOENT)
		return -errno;
	fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	if (!geteuid() && !fstat(dir_fd, &st) && fchown(fd, st.st_uid, st.st_gid))
		log_debug("%s stays root's: %s", format->file_name, strerror(errno));
	err = write_file(fd, format, &pipeline->timeline, filter);
	if (!err)
		err = publish(dir_fd, temporary, format->file_name, name);
	unlinkat(dir_fd, temporary, 0);
	return err;
}

int pipeline_write(const struct pipeline *pipeline, const struct output_format *format,
		   const struct output_filter *filter, const char *dir, char **name)
{
	scoped_fd int dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return dir_fd < 0 ? -errno : write_into(dir_fd, pipeline, format, filter, name);
}
