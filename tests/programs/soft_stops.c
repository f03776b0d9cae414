// SPDX-License-Identifier: GPL-2.0-only
/*
 * soft_stops: job control and interrupted system calls as without a tracer. The child stops itself,
 * the parent sees it stopped, continues it; a blocking epoll_wait() and a sleep are not cut short;
 * a signal without a handler changes nothing. Exits with the number of the first failed check.
 *
 * flags: -static
 */
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t alarms;

static void on_alarm(int sig)
{
	(void)sig;
	alarms++;
}

static int stop_and_go(void)
{
	const pid_t pid = fork();
	int status;

	if (pid == 0) {
		raise(SIGSTOP);
		_exit(7);
	}
	if (waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status) ||
	    WSTOPSIG(status) != SIGSTOP)
		return 1;
	kill(pid, SIGCONT);
	if (waitpid(pid, &status, WCONTINUED) != pid)
		return 2;
	if (WIFCONTINUED(status) && waitpid(pid, &status, 0) != pid)
		return 3;
	return WIFEXITED(status) && WEXITSTATUS(status) == 7 ? 0 : 4;
}

static int stopped_by_child(void)
{
	const pid_t self = getpid(), pid = fork();
	const struct timespec pause = { 0, 300000000 };
	int status;

	if (pid == 0) {
		kill(self, SIGSTOP);
		nanosleep(&pause, NULL);
		kill(self, SIGCONT);
		_exit(0);
	}
	return waitpid(pid, &status, 0) == pid ? 0 : 5;
}

static int blocking_calls(void)
{
	const struct timespec pause = { 0, 50000000 };
	struct sigaction action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct epoll_event event;
	char byte;
	int pipes[2], n, status;
	pid_t pid;

	signal(SIGURG, SIG_DFL);
	raise(SIGURG);
	sigaction(SIGALRM, &action, NULL);
	if (pipe(pipes))
		return 6;
	pid = fork();
	if (pid == 0) {
		const pid_t parent = getppid();

		nanosleep(&pause, NULL);
		kill(parent, SIGURG); /* ignored: the read goes on */
		nanosleep(&pause, NULL);
		kill(parent, SIGALRM); /* handled: the read is restarted */
		nanosleep(&pause, NULL);
		_exit(write(pipes[1], "x", 1) == 1 ? 0 : 1);
	}
	if (read(pipes[0], &byte, 1) != 1 || alarms != 1)
		return 7;
	waitpid(pid, &status, 0);
	n = epoll_wait(epoll_create1(0), &event, 1, 50);
	if (n != 0)
		return 8;
	pid = fork();
	if (pid == 0)
		_exit(nanosleep(&pause, NULL) != 0);
	/* SIGCHLD, which nobody handles, ends no wait; an alarm does. */
	if (epoll_wait(epoll_create1(0), &event, 1, 300) != 0 || waitpid(pid, &status, 0) != pid)
		return 10;
	alarm(1);
	if (epoll_wait(epoll_create1(0), &event, 1, 5000) != -1 || errno != EINTR || alarms != 2)
		return 11;
	return nanosleep(&pause, NULL) ? 9 : 0;
}

int main(void)
{
	int bad = stop_and_go();

	if (!bad)
		bad = stopped_by_child();
	return bad ? bad : blocking_calls();
}
