// SPDX-License-Identifier: GPL-2.0-only
/* Does tracing work? Tried on children of ours. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "cmd/doctor.h"

#define REMEDY_PTRACE                                                                          \
	"allow ptrace: in a container --cap-add=SYS_PTRACE or a newer seccomp profile; check " \
	"'sysctl kernel.yama.ptrace_scope' (3 forbids it until reboot)"

static void __attribute__((noinline)) landmark(void)
{
	__asm__ volatile("" ::: "memory");
}

/* A child that waits to be traced, then passes the landmark and exits with 7. */
static pid_t start_child(void)
{
	const pid_t pid = fork();

	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	raise(SIGSTOP);
	landmark();
	_exit(7);
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, __WALL);
}

/* The child, seized and stopped; or -errno. */
static int seize_child(pid_t *child)
{
	int status, err;

	*child = start_child();
	if (*child < 0)
		return -errno;
	/* stopped by itself; then by us */
	if (waitpid(*child, &status, WUNTRACED) != *child || !WIFSTOPPED(status)) {
		end_child(*child);
		return -ECHILD;
	}
	if (ptrace(PTRACE_SEIZE, *child, 0, 0)) {
		err = -errno;
		end_child(*child);
		return err;
	}
	kill(*child, SIGCONT);
	if (ptrace(PTRACE_INTERRUPT, *child, 0, 0) || waitpid(*child, &status, __WALL) != *child) {
		err = -errno;
		end_child(*child);
		return err;
	}
	return 0;
}

/* The next SIGTRAP of a step or breakpoint; group stops and signals on the way are passed. */
static bool wait_trap(pid_t pid, enum __ptrace_request request)
{
	int status;

	for (int tries = 0; tries < 100; tries++) {
		if (ptrace(request, pid, 0, 0) || waitpid(pid, &status, __WALL) != pid ||
		    !WIFSTOPPED(status))
			return false;
		if (status >> 8 == SIGTRAP)
			return true;
	}
	return false;
}

void doctor_ptrace(struct doctor_finding *finding)
{
	pid_t pid;
	const int err = seize_child(&pid);
	int steps = 0;

	if (err) {
		doctor_report(finding, DOCTOR_FAIL, "the software tracer cannot run", REMEDY_PTRACE,
			      "tracing a child: %s", strerror(-err));
		return;
	}
	while (steps < 16 && wait_trap(pid, PTRACE_SINGLESTEP))
		steps++;
	end_child(pid);
	if (steps == 16)
		doctor_report(finding, DOCTOR_PASS, "", "", "a child was single-stepped");
	else
		doctor_report(finding, DOCTOR_FAIL, "the software tracer cannot run",
			      "single-stepping must work: some emulators and sandboxes lack it",
			      "a child was traced, but stopped after %d single steps", steps);
}

static bool poke(pid_t pid, int reg, uint64_t value)
{
	const size_t at = offsetof(struct user, u_debugreg) + (size_t)reg * sizeof(long);

	return !ptrace(PTRACE_POKEUSER, pid, at, value);
}

void doctor_debug_registers(struct doctor_finding *finding)
{
	const char *const meaning = "block stepping falls back to single steps: several times "
				    "slower, same trace";
	struct user_regs_struct regs = { 0 };
	bool set, hit;
	pid_t pid;
	const int err = seize_child(&pid);

	if (err) {
		doctor_report(finding, DOCTOR_FAIL, "the software tracer cannot run", REMEDY_PTRACE,
			      "tracing a child: %s", strerror(-err));
		return;
	}
	set = poke(pid, 0, (uint64_t)(uintptr_t)landmark) && poke(pid, 7, 1);
	hit = set && wait_trap(pid, PTRACE_CONT) && !ptrace(PTRACE_GETREGS, pid, 0, &regs) &&
	      regs.rip == (uint64_t)(uintptr_t)landmark;
	end_child(pid);
	if (hit)
		doctor_report(finding, DOCTOR_PASS, "", "",
			      "a child stopped at a hardware breakpoint");
	else if (set)
		doctor_report(finding, DOCTOR_WARN, meaning,
			      "use --soft-step insn; the hypervisor does not deliver them",
			      "a hardware breakpoint was set in a child, but never hit");
	else
		doctor_report(finding, DOCTOR_WARN, meaning,
			      "use --soft-step insn; something else may hold them",
			      "setting a hardware breakpoint in a child failed");
}

/* Yama's ptrace_scope; -1 without Yama. */
static int yama_scope(void)
{
	scoped_file FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
	int scope = -1;

	if (file && fscanf(file, "%d", &scope) != 1)
		scope = -1;
	return scope;
}

void doctor_attach(struct doctor_finding *finding)
{
	const int scope = yama_scope();
	int fds[2], err = 0;
	pid_t target, tracer;

	/* a sibling of the tracer, as an attached process would be */
	if (pipe(fds) || (target = fork()) < 0) {
		doctor_report(finding, DOCTOR_WARN, "", "", "not tried: %s", strerror(errno));
		return;
	}
	if (target == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(fds[1]);
		pause();
		_exit(0);
	}
	tracer = fork();
	if (tracer == 0) {
		err = ptrace(PTRACE_SEIZE, target, 0, 0) ? errno : 0;
		_exit(write(fds[1], &err, sizeof(err)) != sizeof(err));
	}
	close(fds[1]);
	if (tracer < 0 || read(fds[0], &err, sizeof(err)) != sizeof(err))
		err = ECHILD;
	close(fds[0]);
	if (tracer > 0)
		waitpid(tracer, NULL, 0);
	end_child(target);
	if (!err)
		doctor_report(finding, DOCTOR_PASS, "", "",
			      "a process that is no child of the tracer was attached");
	else
		doctor_report(finding, DOCTOR_WARN, "-p PID does not work; -- CMD does",
			      "run ptbpf as root, or: sudo sysctl kernel.yama.ptrace_scope=0",
			      "attaching to a process that is no child: %s%s", strerror(err),
			      scope > 0 ? " (kernel.yama.ptrace_scope is set)" : "");
}
