// SPDX-License-Identifier: GPL-2.0-only
#include "record/session_state.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "record/session_setup.h"

#define MAX_CLOCK_PAIRS 256
#define TICK_NS 100000000ull
#define MAX_WARNINGS 1000
#define LINGER_NS 1000000000ull
/* A fire that BPF reported and the source has not: after this the session stops the threads itself.
 */
#define FIRE_GRACE_NS 300000000ull

void session_warn(struct session *session, const char *fmt, ...)
{
	char *text = NULL;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vasprintf(&text, fmt, args);
	va_end(args);
	if (n < 0)
		return;
	log_warn("%s", text);
	/* a long session must not grow by its complaints */
	if (session->warnings.len >= MAX_WARNINGS || vec_push(&session->warnings, text))
		free(text);
}

static int fail(struct session *session, enum exit_code code, int err)
{
	if (session->failure == EXIT_DONE)
		session->failure = code;
	return err;
}

/* The command got the Ctrl-C as well and mostly ends of it: its status is worth a moment. */
static void linger(struct session *session)
{
	session->linger_until_ns = clock_now_ns() + LINGER_NS;
}

/* Recording is over: full speed for all. A launched command's end is still awaited. */
static void end_recording(struct session *session)
{
	if (session->detached)
		return;
	/* full speed first: taking a probe out can cost a tenth of a second */
	session->source->ops->detach(session->source);
	if (session->evaluator)
		evaluator_detach_probes(session->evaluator);
	session->detached = true;
	if (!session->command_pid || session->failure != EXIT_DONE)
		session->done = true;
	else if (session->interrupts)
		linger(session);
}

static bool is_last(const struct session *session)
{
	return session->options->max_snapshots &&
	       session->sequence >= session->options->max_snapshots;
}

/* The published record of fire number @number; false when it is not there (yet, or any more). */
static bool read_fire(const struct session *session, uint64_t number, struct ptbpf_fire *fire)
{
	const uint64_t slot = (number - 1) % PTBPF_MAX_FIRES;

	if (!number ||
	    __atomic_load_n(&session->fires->published[slot], __ATOMIC_ACQUIRE) != number)
		return false;
	*fire = session->fires->fires[slot];
	return true;
}

static int on_fire(struct session *session, uint64_t number)
{
	struct ptbpf_fire fire;
	int err = 0;

	session->wake_ns = 0;
	if (session->detached)
		return 0;
	/* The source reports a fire late that the session has dealt with itself. */
	if (number <= session->last_fire)
		return session->source->ops->resume(session->source);
	session->last_fire = number;
	if (!read_fire(session, number, &fire)) {
		session_warn(session, "fire %llu was overwritten before it was read",
			     (unsigned long long)number);
		return session->source->ops->resume(session->source);
	}
	session->fires_seen++;
	if (session_shoot(session, &fire, NULL, fire.time_ns))
		fail(session, EXIT_FAILED, 0);
	if (is_last(session))
		end_recording(session);
	else
		err = session->source->ops->resume(session->source);
	session_hand_over(session);
	return err;
}

/* A fire in a thread that the source does not step: the session stops the others itself. */
static int on_unseen_fire(struct session *session)
{
	const uint64_t claimed = __atomic_load_n(&session->fires->claimed, __ATOMIC_ACQUIRE);
	const uint64_t number =
		claimed - session->last_fire > PTBPF_MAX_FIRES ? claimed : session->last_fire + 1;
	struct ptbpf_fire fire;

	session->wake_ns = 0;
	if (!read_fire(session, number, &fire))
		return 0;
	log_debug("fire %llu in thread %u, which is not stepped", (unsigned long long)number,
		  fire.tid);
	if (session->source->ops->freeze(session->source))
		return 0;
	return on_fire(session, number);
}

static int on_exec(struct session *session, const struct source_event *event)
{
	struct session_process *process = session_process_get(session, event->pid);
	struct recording_event comm = { .kind = RECORDING_COMM,
					.time_ns = event->time_ns,
					.pid = event->pid,
					.tid = event->pid };
	struct source_event born = *event;
	struct session_thread *thread;
	int err;

	if (!process)
		return -ENOMEM;
	if (session->options->argv && !session->command_pid)
		session->command_pid = event->pid;
	session_process_reset(session, process);
	comm.comm.exec = true;
	memcpy(comm.comm.name, process->comm, sizeof(comm.comm.name));
	err = vec_push(&session->events, comm);
	if (!err)
		err = session_process_scan(session, process, event->time_ns);
	if (err)
		return err;
	born.comm[0] = '\0'; /* the COMM with its exec flag is there already */
	err = session_thread_born(session, &born);
	thread = session_thread_find(session, event->tid);
	if (thread)
		memcpy(thread->comm, process->comm, sizeof(thread->comm));
	return err;
}

static int on_birth(struct session *session, const struct source_event *event)
{
	struct session_process *process = session_process_find(session, event->pid);
	const bool known = process && !process->exited;
	int err;

	process = session_process_get(session, event->pid);
	if (!process)
		return -ENOMEM;
	err = session_thread_born(session, event);
	if (err || known)
		return err;
	err = session_process_scan(session, process, event->time_ns);
	session_process_save_images(process);
	/* what is attached to has its libraries already */
	if (!err && session->options->n_pids)
		err = session_process_entered(session, process);
	return err;
}

static int on_mapped(struct session *session, const struct source_event *event)
{
	struct session_process *process = session_process_get(session, event->pid);

	return process ? session_process_scan(session, process, event->time_ns) : -ENOMEM;
}

static int on_entry(struct session *session, const struct source_event *event)
{
	struct session_process *process = session_process_get(session, event->pid);
	int err;

	if (!process)
		return -ENOMEM;
	err = session_process_scan(session, process, event->time_ns);
	session_process_save_images(process);
	return err ? err : session_process_entered(session, process);
}

static void on_exit_event(struct session *session, const struct source_event *event)
{
	struct session_process *process = session_process_find(session, event->pid);
	struct session_thread *thread;

	session_thread_exited(session, event);
	vec_for_each(thread, &session->threads) {
		if (thread->pid == event->pid && !thread->exited)
			return;
	}
	if (process)
		process->exited = true;
	if (session->evaluator)
		evaluator_detach_process(session->evaluator, event->pid);
}

static int on_last_look(struct session *session, const struct source_event *event)
{
	struct session_process *process = session_process_find(session, event->pid);

	if (!process)
		return 0;
	session_process_scan(session, process, event->time_ns);
	session_process_save_images(process);
	return 0;
}

static int on_comm(struct session *session, const struct source_event *event)
{
	struct session_thread *thread = session_thread_find(session, event->tid);
	struct recording_event comm = { .kind = RECORDING_COMM,
					.time_ns = event->time_ns,
					.pid = event->pid,
					.tid = event->tid };

	if (!thread)
		return 0;
	memcpy(thread->comm, event->comm, sizeof(thread->comm));
	memcpy(comm.comm.name, event->comm, sizeof(comm.comm.name));
	return vec_push(&session->events, comm);
}

static int on_start(struct session *session, const struct source_event *event)
{
	struct session_process *process;
	int err = 0;

	if (!session->tracing)
		err = session_start_tracing(session, event->time_ns);
	vec_for_each(process, &session->processes) {
		if (process->starts.len && !process->exited)
			session->source->ops->set_start(session->source, process->pid, NULL, 0);
		process->starts.len = 0;
	}
	return err ? err : session->source->ops->resume(session->source);
}

/* The end of the last target: a snapshot if nothing was asked for, or nothing fired. */
static int on_end(struct session *session, const struct source_event *event)
{
	const bool wanted = session_wants_exit(session);
	int err;

	session->ended = true;
	session->done = true;
	session->command_status = event->status;
	if (session->detached || (session->sequence && !wanted))
		return 0;
	session->detached = true;
	err = session_shoot(session, NULL, "exit", event->time_ns);
	session_hand_over(session);
	return err;
}

static int on_failed(struct session *session, const char *text)
{
	log_err("the %s tracer stopped: %s", session->source->ops->name, text);
	session->done = true;
	if (!session->detached && !session->sequence)
		session_shoot(session, NULL, "failed", clock_now_ns());
	session_hand_over(session);
	return fail(session, EXIT_FAILED, -EIO);
}

/* Events after which the thread waits for source_release(). */
static bool is_held(enum source_event_kind kind)
{
	return kind == SOURCE_EXEC || kind == SOURCE_BIRTH || kind == SOURCE_FORK ||
	       kind == SOURCE_MAPPED || kind == SOURCE_EXITING || kind == SOURCE_ENTRY ||
	       kind == SOURCE_UNMAPPING;
}

static int dispatch(struct session *session, const struct source_event *event)
{
	switch (event->kind) {
	case SOURCE_EXEC:
		return on_exec(session, event);
	case SOURCE_BIRTH:
	case SOURCE_FORK:
		return on_birth(session, event);
	case SOURCE_MAPPED:
		return on_mapped(session, event);
	case SOURCE_ENTRY:
		return on_entry(session, event);
	case SOURCE_EXIT:
		on_exit_event(session, event);
		return 0;
	case SOURCE_EXITING:
	case SOURCE_UNMAPPING:
		return on_last_look(session, event);
	case SOURCE_COMM:
		return on_comm(session, event);
	case SOURCE_START:
		return on_start(session, event);
	case SOURCE_FIRE:
		return on_fire(session, event->fire);
	case SOURCE_GAP:
		session_thread_gap(session, event);
		return 0;
	case SOURCE_END:
		return on_end(session, event);
	case SOURCE_FAILED:
		return on_failed(session, event->text);
	}
	return 0;
}

static int on_source(struct session *session)
{
	struct source_event event;
	int err;

	while (!session->done && (err = session->source->ops->next(session->source, &event)) != 0) {
		if (err < 0)
			return on_failed(session, strerror(-err));
		err = dispatch(session, &event);
		if (is_held(event.kind) && !session->done && session->failure == EXIT_DONE)
			session->source->ops->release(session->source, event.tid);
		if (err)
			return fail(session, session_exit_code(err), err);
	}
	return 0;
}

static int on_record(void *ctx, const struct ptbpf_record *record)
{
	struct session *session = ctx;
	struct session_thread *thread;

	if (record->type == PTBPF_RECORD_WAKE) {
		if (!session->wake_ns)
			session->wake_ns = clock_now_ns();
		return 0;
	}
	thread = session_thread_find(session, (pid_t)record->tid);
	if (thread) {
		thread->ns_pid = (pid_t)record->ns_pid;
		thread->ns_tid = (pid_t)record->ns_tid;
	}
	return 0;
}

static int on_interrupt(struct session *session)
{
	if (++session->interrupts > 1) {
		end_recording(session);
		session->done = true;
		return 0;
	}
	if (session->detached) {
		linger(session);
		return 0;
	}
	if (session->source->ops->freeze(session->source))
		log_debug("the %s tracer could not stop every thread", session->source->ops->name);
	if (session_shoot(session, NULL, "interrupt", clock_now_ns()))
		fail(session, EXIT_FAILED, 0);
	end_recording(session);
	session_hand_over(session);
	return 0;
}

static int on_signal(struct session *session)
{
	struct signalfd_siginfo info;

	while (read(session->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info))
		on_interrupt(session);
	return 0;
}

/* One pair of clocks a second at first, ever fewer later: the fit needs length, not number. */
static void note_clocks(struct session *session, uint64_t now_ns)
{
	const size_t n = session->clock_pairs.len;
	const uint64_t pause_ns = 1000000000ull << (n < 64 ? n / 8 : 8);

	if (n < MAX_CLOCK_PAIRS && now_ns - session->clock_pairs.data[n - 1].ns >= pause_ns)
		vec_push(&session->clock_pairs, clock_read_pair());
}

static int on_tick(struct session *session)
{
	const uint64_t now_ns = clock_now_ns();
	struct session_process *process;
	uint64_t ticks;
	int err = 0;

	if (read(session->timer_fd, &ticks, sizeof(ticks)) < 0)
		return 0;
	if (session->detached) {
		session->done |= session->linger_until_ns && now_ns >= session->linger_until_ns;
		return 0;
	}
	note_clocks(session, now_ns);
	if (session->wake_ns && now_ns - session->wake_ns > FIRE_GRACE_NS) {
		on_source(session); /* its word may lie there unread */
		if (session->wake_ns && !session->detached && !session->done)
			return on_unseen_fire(session);
	}
	if (!session->tracing) {
		if (session->options->start_after_ns &&
		    now_ns - session->start_ns >= session->options->start_after_ns &&
		    !session->source->ops->freeze(session->source)) {
			const struct source_event event = { .time_ns = now_ns };

			return on_start(session, &event);
		}
	} else if (session->options->full_execution) {
		err = session_check_spools(session);
	} else {
		session_measure(session, now_ns);
		err = session_balance(session, now_ns, true);
	}
	/* threads at full speed map objects unseen */
	if (!session->options->multi_thread || !session->tracing) {
		for (size_t i = 0; !err && i < session->processes.len; i++) {
			process = &session->processes.data[i];
			if (!process->exited)
				err = session_process_scan(session, process, now_ns);
		}
	}
	return err ? fail(session, session_exit_code(err), err) : 0;
}

static int watch(int epoll_fd, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) ? -errno : 0;
}

/* Before any thread or process is made: they inherit the mask. */
static int block_signals(struct session *session)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	if (pthread_sigmask(SIG_BLOCK, &signals, &session->former_mask))
		return -EINVAL;
	session->signal_fd = signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
	return session->signal_fd < 0 ? -errno : 0;
}

static int open_loop(struct session *session)
{
	const struct itimerspec tick = { .it_interval.tv_nsec = TICK_NS,
					 .it_value.tv_nsec = TICK_NS };
	int err;

	session->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	session->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (session->epoll_fd < 0 || session->timer_fd < 0 ||
	    timerfd_settime(session->timer_fd, 0, &tick, NULL))
		return -errno;
	err = watch(session->epoll_fd, session->signal_fd);
	if (!err)
		err = watch(session->epoll_fd, session->timer_fd);
	if (!err)
		err = watch(session->epoll_fd, session->source->ops->fd(session->source));
	if (!err && session->evaluator)
		err = watch(session->epoll_fd, evaluator_fd(session->evaluator));
	return err;
}

static void run_loop(struct session *session)
{
	struct epoll_event events[4];

	while (!session->done && session->failure == EXIT_DONE) {
		const int n = epoll_wait(session->epoll_fd, events, 4, -1);

		if (n < 0 && errno != EINTR) {
			fail(session, EXIT_FAILED, log_errno(-errno, "wait for events"));
			return;
		}
		for (int i = 0; i < n && !session->done; i++) {
			if (events[i].data.fd == session->signal_fd)
				on_signal(session);
			else if (events[i].data.fd == session->timer_fd)
				on_tick(session);
			else if (session->evaluator &&
				 events[i].data.fd == evaluator_fd(session->evaluator))
				evaluator_poll(session->evaluator, on_record, session);
			else
				on_source(session);
		}
	}
}

/* Before the command ran anything, an error of ours means that it shall not run at all. */
static void abandon_command(struct session *session)
{
	if (session->failure != EXIT_DONE && session->command_pid && !session->sequence &&
	    !session->ended)
		kill(session->command_pid, SIGKILL);
}

enum exit_code session_run(const struct session_options *options, struct session_result *result)
{
	struct session session = {
		.options = options, .epoll_fd = -1, .signal_fd = -1, .timer_fd = -1
	};
	enum exit_code code;
	int err = block_signals(&session);

	*result = (struct session_result){ 0 };
	if (err) {
		log_errno(err, "take signals");
		return EXIT_FAILED;
	}
	code = session_open(&session);
	if (code == EXIT_DONE) {
		err = open_loop(&session);
		if (err)
			fail(&session, EXIT_FAILED, log_errno(err, "prepare the event loop"));
		else
			code = session_start(&session);
	}
	if (code == EXIT_DONE) {
		signal(SIGXFSZ, SIG_IGN); /* a full file is an error to report; not the command's */
		run_loop(&session);
		abandon_command(&session);
		code = session_finish(&session);
		result->fires = session.fires_seen;
		result->command_ended = session.ended;
		result->command_status = session.command_status;
		result->aborted = session.interrupts > 1;
		result->snapshots = session.sequence;
	}
	session_close(&session);
	return code;
}
