// SPDX-License-Identifier: GPL-2.0-only
/* What can be said about a target before it is touched; the source has the last word. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cmd/live.h"

/* As execvp() would find it: heap, or NULL with errno. */
static char *find_program(const char *program)
{
	const char *path = getenv("PATH");
	int err = ENOENT;

	if (strchr(program, '/'))
		return strdup(program);
	if (!path)
		path = "/bin:/usr/bin";
	for (const char *dir = path;; dir++) {
		const int len = (int)strcspn(dir, ":");
		char *file;

		if (asprintf(&file, "%.*s%s%s", len, dir, len ? "/" : "", program) < 0)
			return NULL;
		if (!access(file, X_OK))
			return file;
		if (!access(file, F_OK))
			err = EACCES; /* there, but not for us to run */
		free(file);
		dir += len;
		if (!*dir)
			break;
	}
	errno = err;
	return NULL;
}

static enum exit_code check_format(const char *file)
{
	scoped_fd int fd = open(file, O_RDONLY | O_CLOEXEC);
	Elf64_Ehdr head = { 0 };
	ssize_t n;

	if (fd < 0)
		return EXIT_DONE; /* may be executable without being readable */
	n = read(fd, &head, sizeof(head));
	if (n < 0 || (n >= 2 && !memcmp(&head, "#!", 2)))
		return EXIT_DONE;
	if (n < (ssize_t)sizeof(head) || memcmp(head.e_ident, ELFMAG, SELFMAG)) {
		log_err("%s is not a program: neither ELF nor a script that begins with #!; to run "
			"it by a shell: -- sh %s",
			file, file);
		return EXIT_FAILED;
	}
	if (head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_machine == EM_X86_64)
		return EXIT_DONE;
	log_err("%s is not a 64-bit x86 program; ptbpf traces only those", file);
	return EXIT_UNSUPPORTED;
}

enum exit_code target_check_command(const char *program)
{
	scoped_free char *file = find_program(program);
	struct stat st;

	if (!file || stat(file, &st)) {
		const int err = errno;

		log_err("%s: %s%s", program,
			err == ENOENT && !strchr(program, '/') ? "no such command in PATH" :
								 strerror(err),
			err == ENOENT ? "; check the name, or give a path" : "");
		return err == EACCES ? EXIT_PERMISSION : EXIT_NOT_FOUND;
	}
	if (S_ISDIR(st.st_mode)) {
		log_err("%s is a directory, not a program", file);
		return EXIT_PERMISSION;
	}
	if (!S_ISREG(st.st_mode)) { /* and to open a FIFO would wait for a writer */
		log_err("%s is not a regular file, so no program", file);
		return EXIT_PERMISSION;
	}
	if (access(file, X_OK)) {
		log_err("%s: not executable; chmod +x makes it so", file);
		return EXIT_PERMISSION;
	}
	return check_format(file);
}

struct process_status {
	unsigned int uid;
	int tracer;
	char state, comm[64];
	unsigned long vm_size;
};

static bool read_status(pid_t pid, struct process_status *status)
{
	scoped_file FILE *file = NULL;
	char path[64], line[256];

	*status = (struct process_status){ 0 };
	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "Name:\t%63[^\n]", status->comm);
		sscanf(line, "State: %c", &status->state);
		sscanf(line, "TracerPid: %d", &status->tracer);
		sscanf(line, "Uid: %*u %u", &status->uid);
		sscanf(line, "VmSize: %lu", &status->vm_size);
	}
	return file != NULL;
}

enum exit_code target_check_process(pid_t pid)
{
	struct process_status status, tracer;

	if (!read_status(pid, &status) || status.state == 'X') {
		log_err("-p %d: no such process", (int)pid);
		return EXIT_NOT_FOUND;
	}
	if (status.state == 'Z') {
		log_err("-p %d (%s): has ended; only its parent has not noticed yet", (int)pid,
			status.comm);
		return EXIT_NOT_FOUND;
	}
	if (!status.vm_size) {
		log_err("-p %d (%s): a kernel thread; ptbpf traces programs", (int)pid,
			status.comm);
		return EXIT_UNSUPPORTED;
	}
	if (status.tracer) {
		read_status(status.tracer, &tracer);
		log_err("-p %d (%s): is being traced by process %d (%s), and Linux allows one "
			"tracer; end that one first",
			(int)pid, status.comm, status.tracer, tracer.comm);
		return EXIT_PERMISSION;
	}
	if (kill(pid, 0) && errno == EPERM) {
		log_err("-p %d (%s): belongs to another user (uid %u); run ptbpf as that user or "
			"as root",
			(int)pid, status.comm, status.uid);
		return EXIT_PERMISSION;
	}
	return EXIT_DONE;
}
