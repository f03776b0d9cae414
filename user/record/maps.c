// SPDX-License-Identifier: GPL-2.0-only
#include "record/maps.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/mem.h"

#define DELETED " (deleted)"

/* The kernel writes a newline in a path as \012 (fs/proc/task_mmu.c, seq_path's escape set). */
static void unescape(char *path)
{
	char *out = path;

	for (const char *in = path; *in; out++) {
		if (!strncmp(in, "\\012", 4)) {
			*out = '\n';
			in += 4;
		} else {
			*out = *in++;
		}
	}
	*out = '\0';
}

static uint32_t parse_prot(const char perms[5])
{
	return (perms[0] == 'r' ? PROT_READ : 0u) | (perms[1] == 'w' ? PROT_WRITE : 0u) |
	       (perms[2] == 'x' ? PROT_EXEC : 0u);
}

/* 0; -EINVAL when @line is no mapping; -ENOMEM. */
static int parse_line(char *line, struct maps_entry *entry)
{
	char perms[5] = "";
	size_t length;
	int at = 0;

	*entry = (struct maps_entry){ 0 };
	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %x:%x %" SCNu64 " %n",
		   &entry->start, &entry->end, perms, &entry->pgoff, &entry->maj, &entry->min,
		   &entry->ino, &at) < 7 ||
	    !at || entry->end <= entry->start)
		return -EINVAL;
	entry->prot = parse_prot(perms);
	entry->flags = perms[3] == 's' ? MAP_SHARED : MAP_PRIVATE;
	line += at;
	length = strlen(line);
	if (length > strlen(DELETED) && !strcmp(line + length - strlen(DELETED), DELETED)) {
		line[length - strlen(DELETED)] = '\0';
		entry->deleted = true;
	}
	unescape(line);
	entry->path = strdup(line);
	return entry->path ? 0 : -ENOMEM;
}

int maps_parse(const char *text, maps_entries *entries)
{
	scoped_free char *copy = strdup(text);
	char *line, *rest = copy;

	if (!copy)
		return -ENOMEM;
	while ((line = strsep(&rest, "\n"))) {
		struct maps_entry entry;
		int err = parse_line(line, &entry);

		if (err == -EINVAL)
			continue;
		if (!err)
			err = vec_push(entries, entry);
		if (err) {
			free(entry.path);
			return err;
		}
	}
	return 0;
}

int maps_read(pid_t pid, maps_entries *entries)
{
	char path[64];
	scoped_fd int fd = -1;
	VEC(char) text = { 0 };
	int err = 0;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	for (;;) {
		ssize_t n;

		err = vec_reserve(&text, 16384);
		if (err)
			break;
		n = read(fd, text.data + text.len, 16383);
		if (n <= 0) {
			err = n < 0 ? -errno : 0;
			break;
		}
		text.len += (size_t)n;
	}
	if (!err) {
		text.data[text.len] = '\0';
		err = maps_parse(text.data, entries);
	}
	vec_free(&text);
	return err;
}

void maps_fini(maps_entries *entries)
{
	struct maps_entry *entry;

	vec_for_each(entry, entries)
		free(entry->path);
	vec_free(entries);
}

bool maps_is_special(const struct maps_entry *entry)
{
	return !strcmp(entry->path, "[uprobes]") || !strcmp(entry->path, "[vsyscall]") ||
	       !strncmp(entry->path, "[vvar", 5);
}

bool maps_is_unbacked(const struct maps_entry *entry)
{
	return entry->path[0] != '/' || entry->deleted || !strncmp(entry->path, "/memfd:", 7) ||
	       !strncmp(entry->path, "/dev/zero", 9) || !strncmp(entry->path, "/SYSV", 5);
}
