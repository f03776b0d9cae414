// SPDX-License-Identifier: GPL-2.0-only
#include "record/libraries.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

extern char **environ;

static bool is_runnable(const char *path)
{
	struct stat st;

	return !stat(path, &st) && S_ISREG(st.st_mode) && !access(path, X_OK);
}

char *command_path(const char *command)
{
	const char *path = getenv("PATH");
	scoped_free char *dirs = NULL;
	char *dir, *rest;

	if (strchr(command, '/'))
		return strdup(command);
	dirs = strdup(path ? path : "/usr/local/bin:/usr/bin:/bin");
	rest = dirs;
	while (dirs && (dir = strsep(&rest, ":"))) {
		char *candidate;

		if (asprintf(&candidate, "%s/%s", *dir ? dir : ".", command) < 0)
			return NULL;
		if (is_runnable(candidate))
			return candidate;
		free(candidate);
	}
	return NULL;
}

/* PT_INTERP of @path into @interp; "" for a static program. 0; -ENOEXEC: not a 64-bit ELF. */
static int read_interpreter(const char *path, char interp[PATH_MAX])
{
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	Elf64_Ehdr ehdr;
	Elf64_Phdr phdr;

	interp[0] = '\0';
	if (fd < 0)
		return -errno;
	if (pread(fd, &ehdr, sizeof(ehdr), 0) != (ssize_t)sizeof(ehdr) ||
	    memcmp(ehdr.e_ident, ELFMAG, SELFMAG) || ehdr.e_ident[EI_CLASS] != ELFCLASS64)
		return -ENOEXEC;
	for (unsigned int i = 0; i < ehdr.e_phnum; i++) {
		if (pread(fd, &phdr, sizeof(phdr), (off_t)(ehdr.e_phoff + i * sizeof(phdr))) !=
		    (ssize_t)sizeof(phdr))
			return -ENOEXEC;
		if (phdr.p_type != PT_INTERP || phdr.p_filesz >= PATH_MAX)
			continue;
		if (pread(fd, interp, phdr.p_filesz, (off_t)phdr.p_offset) < 0)
			return -errno;
		interp[phdr.p_filesz] = '\0';
	}
	return 0;
}

/* Lines of the linker's list: "NAME => PATH (0x...)" or "PATH (0x...)". */
static int add_listed(char *line, library_paths *paths)
{
	char *path = strchr(line, '/'), *arrow = strstr(line, "=> ");

	if (arrow)
		path = arrow + 3;
	if (!path || *path != '/')
		return 0;
	path[strcspn(path, " \n")] = '\0';
	path = strdup(path);
	if (!path || vec_push(paths, path)) {
		free(path);
		return -ENOMEM;
	}
	return 0;
}

static int list_by_linker(const char *interp, const char *program, library_paths *paths)
{
	char *const argv[] = { (char *)interp, (char *)"--list", (char *)program, NULL };
	posix_spawn_file_actions_t actions;
	int pipe_fds[2], err, status;
	char line[PATH_MAX + 64];
	FILE *out;
	pid_t pid;

	if (pipe2(pipe_fds, O_CLOEXEC))
		return -errno;
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_adddup2(&actions, pipe_fds[1], STDOUT_FILENO);
	posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
	err = -posix_spawn(&pid, interp, &actions, NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	close(pipe_fds[1]);
	out = err ? NULL : fdopen(pipe_fds[0], "r");
	if (!out) {
		close(pipe_fds[0]);
		return err ? err : -ENOMEM;
	}
	while (fgets(line, sizeof(line), out)) {
		if (!err)
			err = add_listed(line, paths);
	}
	fclose(out);
	waitpid(pid, &status, 0);
	return err;
}

int libraries_of(const char *command, library_paths *paths)
{
	char interp[PATH_MAX];
	char *path = command_path(command);
	int err;

	if (!path)
		return -ENOENT;
	if (vec_push(paths, path)) {
		free(path);
		return -ENOMEM;
	}
	err = read_interpreter(path, interp);
	if (err == -ENOEXEC)
		return access(path, R_OK) ? -errno : 0;
	return err || !interp[0] ? err : list_by_linker(interp, path, paths);
}

void libraries_fini(library_paths *paths)
{
	char **path;

	vec_for_each(path, paths)
		free(*path);
	vec_free(paths);
}
