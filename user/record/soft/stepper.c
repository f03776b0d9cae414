// SPDX-License-Identifier: GPL-2.0-only
/* The stepper's life: start, loop, end. */
#include "record/soft/stepper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/limits.h"
#include "base/mem.h"
#include "record/comm.h"

#define TICK_US 4000
#define IDLE_TICK_US 25000
#define IDLE_TICKS 10
#define QUANTUM_NS 1000000ull
#define RUNAWAY_TICKS 50 /* a plan's run that does not stop; page faults may take long */
#define GIVE_UP_TICKS 250
#define ATOMIC_TICKS 3
#define DRAIN_NS 1000000000ull

/* Set by signal handlers: the only state they can reach. */
static volatile sig_atomic_t woken, ticks, told_to_leave;

static void on_wake(int sig)
{
	(void)sig;
	woken = 1;
}

static void on_terminate(int sig)
{
	(void)sig;
	told_to_leave = 1;
	woken = 1;
}

static void on_tick(int sig)
{
	(void)sig;
	ticks++;
}

static void on_signal(int sig, void (*handler)(int))
{
	struct sigaction action = { .sa_handler = handler };

	sigaction(sig, &action, NULL);
}

/* Without ticks nothing would notice a wake-up just before waiting; idle, seldom is enough. */
static void set_timer(struct stepper *stepper, int us)
{
	const struct itimerval timer = { { 0, us }, { 0, us } };

	if (stepper->tick_us == us)
		return;
	stepper->tick_us = us;
	setitimer(ITIMER_REAL, &timer, NULL);
}

static const int own_signals[] = { SIGINT,  SIGQUIT, SIGTSTP, SIGTTOU, SIGTTIN, SIGHUP,
				   SIGPIPE, SIGTERM, SIGIO,   SIGALRM, SIGCHLD };
_Static_assert(ARRAY_SIZE(own_signals) == SIGNALS_OWN, "struct signals");

static void signals_take(struct signals *signals, const sigset_t *command_mask)
{
	sigset_t none;

	for (size_t i = 0; i < SIGNALS_OWN; i++)
		sigaction(own_signals[i], NULL, &signals->actions[i]);
	sigemptyset(&none);
	signals->mask = *command_mask;
	for (size_t i = 0; i < SIGNALS_OWN; i++)
		on_signal(own_signals[i], SIG_IGN);
	on_signal(SIGCHLD, SIG_DFL);
	on_signal(SIGTERM, on_terminate);
	on_signal(SIGIO, on_wake);
	on_signal(SIGALRM, on_tick);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

void signals_restore(const struct signals *signals)
{
	for (size_t i = 0; i < SIGNALS_OWN; i++) {
		struct sigaction action = signals->actions[i];

		/* Handlers of the session's do not survive exec anyway, ignored ones do. */
		if (action.sa_handler != SIG_IGN)
			action.sa_handler = SIG_DFL;
		sigaction(own_signals[i], &action, NULL);
	}
	sigprocmask(SIG_SETMASK, &signals->mask, NULL);
}

static void flush_outbox(struct stepper *stepper)
{
	while (stepper->outbox_sent < stepper->outbox.len) {
		const struct source_event *event = &stepper->outbox.data[stepper->outbox_sent];

		if (send(stepper->event_fd, event, sizeof(*event), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
		stepper->outbox_sent++;
	}
	if (stepper->outbox_sent == stepper->outbox.len)
		stepper->outbox.len = stepper->outbox_sent = 0;
}

void stepper_send(struct stepper *stepper, const struct source_event *event)
{
	if (stepper->front_gone)
		return;
	if (vec_push(&stepper->outbox, *event))
		stepper->front_gone = true; /* no memory: leaving is all that is left */
	flush_outbox(stepper);
}

void stepper_tell(struct stepper *stepper, const struct soft_thread *thread,
		  enum source_event_kind kind)
{
	struct source_event event = {
		.kind = kind,
		.pid = thread->pid,
		.tid = thread->tid,
		.parent_pid = thread->parent_pid,
		.parent_tid = thread->parent_tid,
		.time_ns = clock_now_ns(),
		.status = thread->exit_status,
		.cut = thread->cut,
	};

	comm_read(thread->pid, thread->tid, event.comm);
	stepper_send(stepper, &event);
}

static void hold_if_free(struct stepper *stepper, struct soft_thread *thread)
{
	(void)stepper;
	if (!thread_is_traced(thread))
		thread_kick(thread);
}

void stepper_hold_all(struct stepper *stepper)
{
	stepper->hold_all = true;
	fires_freeze(stepper);
	thread_for_each(stepper, hold_if_free);
}

/*
 * How long an instruction takes at full speed, for the slow-down: a loop of adds, loads, stores and
 * a branch that depends on data. Real programs are within a factor of two or three of it.
 */
static double calibrate(void)
{
	enum { TRIES = 5, ROUNDS = 20000, INSNS = 9 };
	volatile uint64_t table[256];
	uint64_t x = 88172645463325252ull, best = UINT64_MAX;

	for (size_t i = 0; i < 256; i++)
		table[i] = i;
	for (int try = 0; try < TRIES; try++) {
		const uint64_t begin = clock_now_ns();
		uint64_t spent;

		for (int i = 0; i < ROUNDS; i++) {
			x ^= x << 13;
			x ^= x >> 7;
			table[x & 255] += x;
		}
		spent = clock_now_ns() - begin;
		best = spent < best ? spent : best;
	}
	return (double)best / ROUNDS / INSNS;
}

void stepper_fill_stats(const struct stepper *stepper, struct source_stats *stats)
{
	*stats = stepper->stats;
	if (stats->instructions > 1000 && stepper->full_speed_ns > 0)
		stats->slow_down = (double)stats->stepping_ns / (double)stats->instructions /
				   stepper->full_speed_ns;
}

static void handle_status(struct stepper *stepper, pid_t tid, int status)
{
	struct soft_thread *thread = thread_find(stepper, tid);

	if (thread) {
		stop_handle(stepper, thread, status);
	} else if (tid == stepper->command && !WIFSTOPPED(status)) {
		stepper->command_status = status; /* it ran on detached */
		stepper->command_ended = true;
	} else {
		births_unknown(stepper, tid, status);
	}
	thread = thread_find(stepper, tid);
	if (stepper->detached)
		return; /* it waits for the others */
	if (thread) {
		fires_check(stepper);
		thread_go_if_free(stepper, thread);
	}
	if (stepper->held_back) {
		stepper->held_back = false;
		thread_for_each(stepper, thread_go_if_free);
	}
}

/* What has stopped so far; with @wait, at least one stop, a signal, or nothing left to wait for. */
static bool collect(struct stepper *stepper, bool wait)
{
	for (;;) {
		int status;
		const pid_t tid = waitpid(-1, &status, __WALL | (wait ? 0 : WNOHANG));

		if (tid > 0) {
			handle_status(stepper, tid, status);
			wait = false;
			continue;
		}
		return tid == 0 || errno == EINTR;
	}
}

static struct soft_thread *next_runnable(struct stepper *stepper)
{
	const size_t n = stepper->stepped.len;

	for (size_t i = 0; i < n; i++) {
		struct soft_thread *thread = stepper->stepped.data[(stepper->cursor + i) % n];

		if (!thread_may_go(stepper, thread))
			continue;
		stepper->cursor = (stepper->cursor + i + 1) % n;
		return thread;
	}
	return NULL;
}

static bool is_slow(const struct soft_thread *thread)
{
	return thread->run == RUN_SYSCALL || thread->run == RUN_LEAVE || thread->run == RUN_FREE;
}

/* Steps one thread for a while, or until it is in the kernel, held or gone. */
static void run_quantum(struct stepper *stepper, struct soft_thread *thread)
{
	const uint64_t begin = clock_now_ns();
	const pid_t tid = thread->tid;
	uint64_t now = begin;
	int status;

	/* What another thread did meanwhile may have changed what the plan relies on. */
	if (thread->verify && stepper->stepped_tid != tid)
		thread->verify->planned = false;
	stepper->stepped_tid = tid;
	while (now - begin < QUANTUM_NS && !woken) {
		thread_go(stepper, thread);
		if (thread->died) {
			handle_status(stepper, tid, thread->exit_status);
			return;
		}
		if (thread->state != THREAD_RUNNING || is_slow(thread))
			break;
		thread->run_tick = ticks;
		if (waitpid(tid, &status, __WALL) < 0) {
			if (errno == EINTR)
				break;
			return;
		}
		handle_status(stepper, tid, status);
		thread = thread_find(stepper, tid);
		now = clock_now_ns();
		if (!thread || !thread_is_traced(thread) || !thread_may_go(stepper, thread))
			break;
	}
	stepper->stats.stepping_ns += now - begin;
}

/* It may wait for another thread of its process: those go on, and its run counts no more. */
static void give_up_plan(struct stepper *stepper, struct soft_thread *thread)
{
	record_end_at(thread, thread->ip);
	record_gap(stepper, thread, "lost", stepper->resumed_ns);
	thread->drop = true;
	thread->process->alone = NULL;
	stepper->held_back = false;
	thread_for_each(stepper, thread_go_if_free);
}

/* Runs that should have stopped long ago are interrupted; the next stop tells where they are. */
static void watch_runs(struct stepper *stepper)
{
	for (size_t i = 0; i < stepper->stepped.len; i++) {
		struct soft_thread *thread = stepper->stepped.data[i];
		const int since = ticks - thread->run_tick;

		if (thread->state != THREAD_RUNNING)
			continue;
		if ((thread->run == RUN_ATOMIC && since > ATOMIC_TICKS) ||
		    (thread->run == RUN_PLAN && since > RUNAWAY_TICKS))
			thread_kick(thread);
		if (since > GIVE_UP_TICKS && thread->process->alone == thread)
			give_up_plan(stepper, thread);
	}
}

static void tick(struct stepper *stepper)
{
	stepper->ticks_seen = ticks;
	if (++stepper->idle_ticks > IDLE_TICKS)
		set_timer(stepper, IDLE_TICK_US);
	watch_runs(stepper);
	births_adopt(stepper);
	fires_check(stepper);
}

static void send_end(struct stepper *stepper)
{
	struct source_event event = { .kind = SOURCE_END, .time_ns = clock_now_ns(), .status = -1 };

	if (stepper->end_sent)
		return;
	stepper->end_sent = true;
	if (stepper->command) {
		event.pid = event.tid = stepper->command;
		event.status = stepper->command_ended ? stepper->command_status : -1;
	}
	stepper_send(stepper, &event);
}

static void wait_for_session(struct stepper *stepper)
{
	struct pollfd polled = { .fd = stepper->command_fd, .events = POLLIN };

	poll(&polled, 1, 10);
	woken = 1;
}

static bool is_over(const struct stepper *stepper)
{
	return !stepper->threads && (!stepper->command || stepper->command_ended);
}

static void loop(struct stepper *stepper)
{
	for (;;) {
		struct soft_thread *thread;

		if (woken) {
			woken = 0;
			requests_serve(stepper);
			stepper->front_gone |= told_to_leave || getppid() != stepper->front;
		}
		if (stepper->detached || stepper->front_gone)
			detach_all(stepper);
		if (stepper->front_gone && !stepper->threads)
			break;
		flush_outbox(stepper);
		if (ticks != stepper->ticks_seen)
			tick(stepper);
		thread = stepper->detached ? NULL : next_runnable(stepper);
		if (thread) {
			stepper->idle_ticks = 0;
			set_timer(stepper, TICK_US);
			run_quantum(stepper, thread);
			collect(stepper, false);
			continue;
		}
		if (is_over(stepper))
			send_end(stepper);
		if (!collect(stepper, true))
			wait_for_session(stepper);
	}
}

void stepper_drain(struct stepper *stepper)
{
	const uint64_t limit = clock_now_ns() + DRAIN_NS;

	while (stepper->threads && clock_now_ns() < limit) {
		collect(stepper, false);
		detach_all(stepper);
		usleep(200);
	}
}

/*
 * The session's descriptors (BPF links above all) must not live as long as the stepper. What is
 * not close-on-exec was handed down by the user and belongs to the command.
 */
static void close_inherited(const struct stepper *stepper)
{
	DIR *dir = opendir("/proc/self/fd");
	const struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		const int fd = atoi(entry->d_name);

		if (fd > 2 && fd != stepper->command_fd && fd != stepper->event_fd &&
		    fd != dirfd(dir) && fcntl(fd, F_GETFD) == FD_CLOEXEC)
			close(fd);
	}
	if (dir)
		closedir(dir);
}

/* SIGIO comes when the session writes, and when it is gone. */
static void settle(const struct stepper *stepper)
{
	close_inherited(stepper);
	fcntl(stepper->command_fd, F_SETOWN, getpid());
	fcntl(stepper->command_fd, F_SETFL, O_ASYNC | O_NONBLOCK);
	prctl(PR_SET_PDEATHSIG, SIGIO);
	prctl(PR_SET_NAME, "ptbpf-stepper");
}

static int start(struct stepper *stepper, const struct source_target *target,
		 struct wire_reply *reply)
{
	int err = 0;

	if (target->argv)
		return launch_command(stepper, target->argv, reply->why, sizeof(reply->why));
	for (size_t i = 0; i < target->n_pids && !err; i++)
		err = attach_process(stepper, target->pids[i], reply->why, sizeof(reply->why));
	return err;
}

int stepper_main(const struct source_config *config, const struct source_target *target,
		 pid_t front, int command_fd, int event_fd)
{
	struct stepper *stepper = calloc(1, sizeof(*stepper));
	struct wire_reply reply = { 0 };

	if (!stepper)
		return 1;
	stepper->config = config;
	stepper->front = front;
	stepper->command_fd = command_fd;
	stepper->event_fd = event_fd;
	stepper->cpu = -1;
	stepper->random = clock_tsc() | 1;
	stepper->clock_start = clock_read_pair();
	stepper->payload = calloc(1, sizeof(*stepper->payload));
	if (!stepper->payload)
		return 1;
	signals_take(&stepper->signals, &config->signal_mask);
	settle(stepper);
	set_timer(stepper, TICK_US);
	stepper->full_speed_ns = calibrate();
	if (config->fires)
		stepper->fires_seen = 0;
	reply.err = start(stepper, target, &reply);
	limits_raise_files();
	if (reply.err)
		detach_all(stepper);
	if (send(command_fd, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
		stepper->front_gone = true;
	woken = 1;
	loop(stepper);
	return 0;
}
