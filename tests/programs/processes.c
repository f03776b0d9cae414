// SPDX-License-Identifier: GPL-2.0-only
/*
 * processes MODE: fork, vfork (and exec of true), exec (itself again), thread-exec (a thread
 * execs), daemon (double fork and setsid, the grandchild works and writes its log), spawn
 * (posix_spawn), orphan (the parent ends first). Each process calls step_of_MODE functions that its
 * log names. With the environment variable PROCESSES_DONE=FILE the last process creates FILE at its
 * end.
 */
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>

#include "truth.h"

extern char **environ;
static volatile int zero;

NOINLINE void in_parent(int n)
{
	TRUTH(in_parent);
	zero = zero * n;
}

NOINLINE void in_child(int n)
{
	TRUTH(in_child);
	zero = zero * n;
}

NOINLINE void in_grandchild(int n)
{
	TRUTH(in_grandchild);
	zero = zero * n;
}

NOINLINE void after_exec(int n)
{
	TRUTH(after_exec);
	zero = zero * n;
}

static void done(void)
{
	const char *path = getenv("PROCESSES_DONE");

	if (path)
		close(open(path, O_WRONLY | O_CREAT, 0644));
}

static int await(pid_t child)
{
	int status;

	if (waitpid(child, &status, 0) != child)
		return 1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

static int run_fork(int n)
{
	int bad = 0;

	for (int i = 0; i < n; i++) {
		const pid_t child = fork();

		if (child == 0) {
			truth_child();
			for (int k = 0; k <= i; k++)
				in_child(k);
			truth_write();
			_exit(0);
		}
		in_parent(i);
		bad |= await(child);
	}
	return bad;
}

static int run_vfork(void)
{
	const pid_t child = vfork();

	if (child == 0) {
		execl("/bin/true", "true", (char *)NULL);
		_exit(9);
	}
	in_parent(1);
	return await(child);
}

static int run_spawn(void)
{
	char *args[] = { "true", NULL };
	pid_t child;

	in_parent(1);
	if (posix_spawn(&child, "/bin/true", NULL, NULL, args, environ))
		return 1;
	in_parent(2);
	return await(child);
}

static void *exec_again(void *self)
{
	in_child(1);
	execl(self, "processes", "after-exec", (char *)NULL);
	_exit(9);
}

static int run_thread_exec(char *self)
{
	pthread_t thread;

	in_parent(1);
	pthread_create(&thread, NULL, exec_again, self);
	pthread_join(thread, NULL);
	return 9;
}

static int run_daemon(int orphan)
{
	pid_t child = fork();

	if (child) {
		in_parent(1);
		truth_write();
		return orphan ? 0 : await(child);
	}
	truth_child();
	in_child(1);
	setsid();
	child = fork();
	if (child)
		_exit(0);
	truth_child();
	usleep(200 * 1000);
	for (int i = 0; i < 5; i++)
		in_grandchild(i);
	truth_write();
	done();
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "fork";
	int status = 2;

	truth_begin();
	if (!strcmp(mode, "fork")) {
		status = run_fork(3);
	} else if (!strcmp(mode, "vfork")) {
		status = run_vfork();
	} else if (!strcmp(mode, "spawn")) {
		status = run_spawn();
	} else if (!strcmp(mode, "exec")) {
		in_parent(1);
		execl("/proc/self/exe", "processes", "after-exec", (char *)NULL);
	} else if (!strcmp(mode, "thread-exec")) {
		status = run_thread_exec("/proc/self/exe");
	} else if (!strcmp(mode, "after-exec")) {
		for (int i = 0; i < 3; i++)
			after_exec(i);
		status = 0;
	} else if (!strcmp(mode, "daemon") || !strcmp(mode, "orphan")) {
		return run_daemon(!strcmp(mode, "orphan"));
	}
	truth_write();
	done();
	return status;
}
