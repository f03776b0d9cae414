// SPDX-License-Identifier: GPL-2.0-only
/* Starting a command under trace, or attaching to what runs. */
#include "record/soft/stepper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"

#define OPTIONS                                                                                \
	(PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACEEXEC | \
	 PTRACE_O_TRACEEXIT | PTRACE_O_TRACESYSGOOD)

/* What the child tells when it could not become the command. */
struct launch_failure {
	int err;
	bool is_user; /* the user could not be taken on */
};

static int become_user(const char *name)
{
	const struct passwd *user = getpwnam(name);

	if (!user)
		return -ENOENT;
	if (initgroups(name, user->pw_gid) || setgid(user->pw_gid) || setuid(user->pw_uid))
		return -errno;
	setenv("HOME", user->pw_dir, 1);
	setenv("USER", user->pw_name, 1);
	setenv("LOGNAME", user->pw_name, 1);
	return 0;
}

static void run_child(const struct stepper *stepper, char *const *argv, int go_fd, int fail_fd)
{
	struct launch_failure failure = { 0 };
	char byte;

	signals_restore(&stepper->signals);
	prctl(PR_SET_PDEATHSIG, 0);
	if (read(go_fd, &byte, 1) != 1)
		_exit(127);
	if (stepper->config->no_aslr)
		personality(ADDR_NO_RANDOMIZE);
	if (stepper->config->user) {
		failure.err = become_user(stepper->config->user);
		failure.is_user = failure.err != 0;
	}
	if (!failure.err) {
		execvp(argv[0], argv);
		failure.err = -errno;
	}
	if (write(fail_fd, &failure, sizeof(failure)) < 0)
		_exit(126);
	_exit(127);
}

static int seize(struct stepper *stepper, pid_t pid, pid_t tid)
{
	struct soft_thread *thread;
	int err;

	if (thread_find(stepper, tid))
		return 0;
	if (ptrace(PTRACE_SEIZE, tid, 0, OPTIONS)) {
		err = -errno;
		/* Its creator is traced already, and so is it: it will report itself. */
		if (err == -EPERM && births_tracer(tid) == getpid())
			return 0;
		return err == -EPERM && births_is_dying(tid) ? -ESRCH : err;
	}
	thread = thread_add(stepper, tid);
	if (!thread)
		return -ENOMEM;
	thread->known = true;
	thread->parent_pid = pid; /* a thread of a process that is there already */
	err = thread_join(stepper, thread, pid);
	return err == -ENOMEM ? err : 0;
}

/* To the exec event; signals and stops before it are none of the command's. */
static int run_to_exec(struct stepper *stepper, struct soft_thread *thread, int fail_fd,
		       struct launch_failure *failure)
{
	int status;

	for (;;) {
		if (waitpid(thread->tid, &status, __WALL) < 0) {
			if (errno != EINTR)
				return -errno;
			continue;
		}
		if (!WIFSTOPPED(status))
			return -ECHILD;
		if (status >> 16 == PTRACE_EVENT_EXEC)
			break;
		if (status >> 16 == PTRACE_EVENT_EXIT &&
		    read(fail_fd, failure, sizeof(*failure)) != sizeof(*failure))
			failure->err = -ECHILD;
		ptrace(PTRACE_CONT, thread->tid, 0,
		       status >> 16 == 0 && WSTOPSIG(status) != SIGTRAP ? WSTOPSIG(status) : 0);
	}
	thread->newborn = false;
	thread_set_state(thread, THREAD_STOPPED);
	births_exec(stepper, thread);
	return 0;
}

static void explain(const struct stepper *stepper, char *const *argv,
		    const struct launch_failure *failure, char *why, size_t why_size)
{
	if (failure->is_user && failure->err == -ENOENT)
		snprintf(why, why_size, "there is no user %s", stepper->config->user);
	else if (failure->is_user)
		snprintf(why, why_size, "cannot become user %s: %s", stepper->config->user,
			 strerror(-failure->err));
	else if (failure->err == -ENOENT && strchr(argv[0], '/') && !access(argv[0], F_OK))
		snprintf(why, why_size, "%s: the interpreter it names does not exist", argv[0]);
	else if (failure->err == -ENOENT)
		snprintf(why, why_size, "%s: no such command", argv[0]);
	else if (failure->err == -ENOEXEC)
		snprintf(why, why_size, "%s: not a program for this machine", argv[0]);
	else
		snprintf(why, why_size, "%s: %s", argv[0], strerror(-failure->err));
}

int launch_command(struct stepper *stepper, char *const *argv, char *why, size_t why_size)
{
	struct launch_failure failure = { 0 };
	struct soft_thread *thread;
	int go[2], fail[2], err;
	pid_t pid;

	if (pipe2(go, O_CLOEXEC))
		return -errno;
	if (pipe2(fail, O_CLOEXEC)) {
		err = -errno;
		close(go[0]);
		close(go[1]);
		return err;
	}
	pid = fork();
	if (pid == 0)
		run_child(stepper, argv, go[0], fail[1]);
	err = pid < 0 ? -errno : seize(stepper, pid, pid);
	close(go[0]);
	close(fail[1]);
	stepper->command = pid;
	thread = thread_find(stepper, pid);
	if (!err && thread) {
		thread->process->is_command = true;
		if (write(go[1], "", 1) != 1)
			err = -errno;
		else
			err = run_to_exec(stepper, thread, fail[0], &failure);
	} else {
		snprintf(why, why_size, "cannot trace a command: %s", strerror(-err));
	}
	close(go[1]);
	close(fail[0]);
	if (!err)
		return 0;
	stepper->command = 0;
	if (thread)
		thread_remove(stepper, thread);
	if (!failure.err)
		return err;
	explain(stepper, argv, &failure, why, why_size);
	return failure.err;
}

static int attach_failed(pid_t pid, int err, char *why, size_t why_size)
{
	if (err == -ESRCH)
		snprintf(why, why_size, "no process %d", pid);
	else if (err == -EPERM)
		snprintf(
			why, why_size,
			"not allowed to trace process %d: run as its user or as root, end another tracer "
			"of it, or see kernel.yama.ptrace_scope",
			pid);
	else
		snprintf(why, why_size, "cannot trace process %d: %s", pid, strerror(-err));
	return err;
}

static int seize_all(struct stepper *stepper, pid_t pid)
{
	char path[64];
	size_t before;
	int err = -ESRCH;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	/* New threads may appear while the list is read; once traced, they report themselves. */
	do {
		DIR *dir = opendir(path);
		const struct dirent *entry;

		before = stepper->threads;
		while (dir && (entry = readdir(dir))) {
			const pid_t tid = (pid_t)atoi(entry->d_name);
			const int one = tid > 0 ? seize(stepper, pid, tid) : -ESRCH;

			if (one != -ESRCH)
				err = one;
			if (err && err != -ESRCH)
				break;
		}
		if (dir)
			closedir(dir);
	} while (!err && stepper->threads != before);
	return err;
}

static void interrupt(struct stepper *stepper, struct soft_thread *thread)
{
	(void)stepper;
	if (thread->state == THREAD_RUNNING && thread->newborn) {
		ptrace(PTRACE_INTERRUPT, thread->tid, 0, 0);
		thread->kicked = true;
	}
}

int attach_process(struct stepper *stepper, pid_t pid, char *why, size_t why_size)
{
	const pid_t tgid = births_tgid(pid);
	int err;

	if (!tgid)
		return attach_failed(pid, -ESRCH, why, why_size);
	err = stepper->config->multi_thread ? seize_all(stepper, tgid) : seize(stepper, tgid, pid);
	if (err)
		return attach_failed(pid, err, why, why_size);
	thread_for_each(stepper, interrupt);
	return 0;
}
