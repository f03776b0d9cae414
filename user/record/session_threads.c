// SPDX-License-Identifier: GPL-2.0-only
#include "record/session_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/size.h"

/* A long session keeps the newest of its budget's history. */
#define MAX_BUDGET_EVENTS 4096

struct session_thread *session_thread_find(struct session *session, pid_t tid)
{
	struct session_thread *thread;

	/* a tid may come again; the newest is meant */
	for (size_t i = session->threads.len; i-- > 0;) {
		thread = &session->threads.data[i];
		if (thread->tid == tid)
			return thread;
	}
	return NULL;
}

static int record_born(struct session *session, const struct source_event *event)
{
	struct recording_event fork = { .kind = RECORDING_FORK,
					.time_ns = event->time_ns,
					.pid = event->pid,
					.tid = event->tid };
	struct recording_event comm = { .kind = RECORDING_COMM,
					.time_ns = event->time_ns,
					.pid = event->pid,
					.tid = event->tid };

	fork.parent.parent_pid = event->parent_pid;
	fork.parent.parent_tid = event->parent_tid;
	memcpy(comm.comm.name, event->comm, sizeof(comm.comm.name));
	if (event->parent_tid && vec_push(&session->events, fork))
		return -ENOMEM;
	return event->comm[0] ? vec_push(&session->events, comm) : 0;
}

static int start_thread(struct session *session, struct session_thread *thread, uint64_t now_ns);

/* Without --multi-thread only the main thread, or the one that -p named, is traced. */
static bool is_wanted(const struct session *session, pid_t pid, pid_t tid)
{
	const struct session_options *options = session->options;

	if (options->multi_thread)
		return true;
	for (size_t i = 0; i < options->n_pids; i++) {
		if (options->pids[i] == tid)
			return true;
	}
	return pid == tid && (!options->n_pids || options->follow_forks);
}

int session_thread_born(struct session *session, const struct source_event *event)
{
	struct session_thread *known = session_thread_find(session, event->tid);
	struct session_thread thread = { .pid = event->pid,
					 .tid = event->tid,
					 .announced = event->parent_tid != 0,
					 .stretch_ns = event->time_ns,
					 .last_activity_ns = event->time_ns };
	int err;

	if (known && !known->exited)
		return 0;
	thread.join = thread.announced || session->command_pid == event->pid ?
			      RECORDING_JOIN_BIRTH :
			      RECORDING_JOIN_ATTACH;
	memcpy(thread.comm, event->comm, sizeof(thread.comm));
	session->births++;
	err = vec_push(&session->threads, thread);
	if (!err)
		err = record_born(session, event);
	if (err || !session->tracing || session->detached ||
	    !is_wanted(session, event->pid, event->tid))
		return err;
	return start_thread(session, &session->threads.data[session->threads.len - 1],
			    event->time_ns);
}

void session_measure(struct session *session, uint64_t now_ns)
{
	struct session_thread *thread;

	vec_for_each(thread, &session->threads) {
		uint64_t oncpu_ns = 0, head;

		if (!thread->has_ring || thread->exited)
			continue;
		head = __atomic_load_n(&thread->ring.header->head, __ATOMIC_ACQUIRE);
		if (session->evaluator)
			evaluator_oncpu(session->evaluator, thread->tid, &oncpu_ns);
		budget_activity(
			session->budget, thread->tid, head - thread->last_head,
			oncpu_ns > thread->last_oncpu_ns ? oncpu_ns - thread->last_oncpu_ns : 0,
			now_ns - thread->last_activity_ns);
		thread->last_head = head;
		thread->last_oncpu_ns = oncpu_ns;
		thread->last_activity_ns = now_ns;
	}
}

static void free_tails(struct session_thread *thread)
{
	struct recording_chunk *chunk;

	vec_for_each(chunk, &thread->tails)
		free(chunk->data);
	vec_free(&thread->tails);
}

static uint64_t tails_size(const struct session_thread *thread)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < thread->tails.len; i++)
		bytes += thread->tails.data[i].size;
	return bytes;
}

/* Keeps the newest @max bytes of the tails. */
static void trim_tails(struct session_thread *thread, uint64_t max)
{
	uint64_t have = tails_size(thread);

	while (thread->tails.len && have > max) {
		struct recording_chunk *oldest = &thread->tails.data[0];
		const uint64_t excess = have - max;

		if (oldest->size <= excess) {
			have -= oldest->size;
			free(oldest->data);
			memmove(oldest, oldest + 1, (thread->tails.len - 1) * sizeof(*oldest));
			thread->tails.len--;
			continue;
		}
		memmove(oldest->data, oldest->data + excess, oldest->size - excess);
		oldest->size -= excess;
		oldest->join = RECORDING_JOIN_WRAPPED;
		have = max;
	}
}

static void retire_ring(struct session_thread *thread)
{
	thread->instructions += thread->ring.header->instructions;
	thread->branches += thread->ring.header->branches;
	thread->stops += thread->ring.header->stops;
	aux_ring_free(&thread->ring);
	thread->gaps.len = 0;
	thread->has_ring = false;
	thread->last_head = 0;
}

/* The stopped ring's @newest bytes go to the end of the tails, which keep at most @max in all. */
static int ring_to_tail(struct session_thread *thread, uint64_t newest, uint64_t max,
			uint64_t now_ns)
{
	struct recording_chunk chunk = { .pid = thread->pid,
					 .tid = thread->tid,
					 .join = thread->join,
					 .gap_ns = thread->gap_ns,
					 .start_ns = thread->stretch_ns,
					 .end_ns = now_ns };
	const uint64_t room = newest < thread->ring.size ? newest : thread->ring.size;
	bool wrapped = false;

	if (!room || !thread->ring.header->head)
		return 0;
	aux_ring_discard(&thread->ring, room);
	chunk.data = malloc(room);
	if (!chunk.data)
		return -ENOMEM;
	chunk.size = aux_ring_read(&thread->ring, room, chunk.data, &wrapped);
	if (wrapped || chunk.size < thread->ring.header->head)
		chunk.join = RECORDING_JOIN_WRAPPED;
	if (session_add_stretches(thread, &chunk, &thread->tails))
		return -ENOMEM;
	trim_tails(thread, max);
	return 0;
}

/* A file without a name, also where O_TMPFILE is not to be had (NFS, some FUSE). */
static int open_spool(const char *dir)
{
	char path[4096];
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd >= 0 ? fd : -errno;
	if ((size_t)snprintf(path, sizeof(path), "%s/.ptbpf.XXXXXX", dir) >= sizeof(path))
		return -ENAMETOOLONG;
	fd = mkostemp(path, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	unlink(path);
	return fd;
}

static int new_ring(struct session *session, struct session_thread *thread, uint64_t size)
{
	struct aux_ring ring;
	int fd;
	int err;

	if (!session->options->full_execution) {
		err = aux_ring_new(size, &ring);
	} else {
		fd = open_spool(session->options->output);
		if (fd < 0)
			return fd;
		err = aux_ring_new_spool(fd, &ring);
	}
	if (err)
		return err;
	err = session->source->ops->ring_give(session->source, thread->tid, &ring);
	if (err) {
		aux_ring_free(&ring);
		return err;
	}
	thread->ring = ring;
	thread->has_ring = true;
	thread->last_head = 0;
	return 0;
}

/* The history is in order of what was done, which may be later than the event that asked for it. */
static void note_change(struct session *session, const struct session_thread *thread, uint64_t from,
			uint64_t to, uint64_t gap_ns)
{
	const struct meta_budget_event event = { .time_ns = clock_now_ns(),
						 .tid = thread->tid,
						 .from = from,
						 .to = to,
						 .tail = tails_size(thread),
						 .gap_ns = gap_ns };

	if (session->budget_events.len == MAX_BUDGET_EVENTS) {
		session->budget_events.len /= 2;
		memmove(session->budget_events.data,
			session->budget_events.data + session->budget_events.len,
			session->budget_events.len * sizeof(event));
	}
	vec_push(&session->budget_events, event);
}

/* Is it that the machine has no such ring to give? Then the next plan tries a smaller one. */
static bool refused(struct session *session, const struct session_thread *thread, uint64_t size,
		    int err)
{
	if (err != -ENOMEM && err != -ENOSPC && err != -EMFILE && err != -ENFILE)
		return false;
	budget_refused(session->budget, thread->tid, size / 2);
	session_warn(session, "thread %d gets no ring of %llu bytes: %s", thread->tid,
		     (unsigned long long)size, strerror(-err));
	return true;
}

/*
 * What an exited thread has written needs no ring any more: mostly it is far less. Where it is more
 * than half the ring stays, as copy and ring together would exceed the budget for a moment.
 */
static void store_history(struct session *session, struct session_thread *thread)
{
	const uint64_t tail = tails_size(thread);
	uint64_t bytes, ring;

	if (!thread->has_ring || session->options->full_execution)
		return;
	bytes = thread->ring.header->head;
	if (bytes > thread->ring.size / 2 ||
	    ring_to_tail(thread, bytes, tail + bytes, thread->exit_ns))
		return;
	ring = thread->ring.size;
	retire_ring(thread);
	budget_stored(session->budget, thread->tid, tails_size(thread));
	note_change(session, thread, ring, 0, 0);
}

void session_thread_exited(struct session *session, const struct source_event *event)
{
	struct session_thread *thread = session_thread_find(session, event->tid);
	struct recording_event exit_event = { .kind = RECORDING_EXIT,
					      .time_ns = event->time_ns,
					      .pid = event->pid,
					      .tid = event->tid };

	if (!thread || thread->exited)
		return;
	thread->exited = true;
	thread->exit_ns = event->time_ns;
	session->exits++;
	if (session->evaluator)
		evaluator_remove_thread(session->evaluator, event->tid);
	budget_exit(session->budget, event->tid, event->time_ns);
	store_history(session, thread);
	vec_push(&session->events, exit_event);
}

static int give(struct session *session, struct session_thread *thread, uint64_t size,
		uint64_t now_ns)
{
	int err = new_ring(session, thread, size);

	if (err == -ESRCH)
		return 0; /* its exit is on the way */
	if (err && refused(session, thread, size, err))
		return 0;
	if (err)
		return log_errno(err, "trace thread %d", thread->tid);
	if (thread->taken_ns) {
		thread->untraced_ns += now_ns - thread->taken_ns;
		thread->gap_ns = now_ns - thread->taken_ns;
		thread->join = RECORDING_JOIN_UNTRACED;
		thread->taken_ns = 0;
	} else if (session->tracing && thread->stretch_ns != now_ns && !thread->announced) {
		thread->join = RECORDING_JOIN_ATTACH;
	}
	thread->stretch_ns = now_ns;
	note_change(session, thread, 0, size, 0);
	return 0;
}

static int resize(struct session *session, struct session_thread *thread, uint64_t size,
		  uint64_t tail)
{
	const uint64_t begin_ns = clock_now_ns(), from = thread->ring.size;
	int err = 0;

	if (!thread->has_ring)
		return 0;
	if (!thread->exited)
		err = session->source->ops->ring_take(session->source, thread->tid, true);
	if (err && err != -ESRCH)
		return log_errno(err, "stop thread %d for another ring", thread->tid);
	if (ring_to_tail(thread, tail, tail, begin_ns))
		session_warn(session, "thread %d loses its history before a resize: no memory",
			     thread->tid);
	retire_ring(thread);
	budget_tail(session->budget, thread->tid, tails_size(thread));
	if (thread->exited || err == -ESRCH)
		return 0;
	err = new_ring(session, thread, size);
	if (err == -ESRCH)
		return 0;
	if (err && refused(session, thread, size, err)) {
		thread->taken_ns = begin_ns;
		session->source->ops->ring_take(session->source, thread->tid, false);
		return 0;
	}
	if (err)
		return log_errno(err, "give thread %d another ring", thread->tid);
	thread->join = RECORDING_JOIN_RESIZE;
	thread->stretch_ns = clock_now_ns();
	thread->gap_ns = thread->stretch_ns - begin_ns;
	note_change(session, thread, from, size, thread->gap_ns);
	return 0;
}

static int take(struct session *session, struct session_thread *thread, uint64_t now_ns)
{
	const uint64_t from = thread->has_ring ? thread->ring.size : 0;
	int err = 0;

	free_tails(thread);
	if (!thread->has_ring)
		return 0;
	if (!thread->exited)
		err = session->source->ops->ring_take(session->source, thread->tid, false);
	if (err && err != -ESRCH)
		return log_errno(err, "stop tracing thread %d", thread->tid);
	retire_ring(thread);
	thread->taken_ns = now_ns;
	note_change(session, thread, from, 0, 0);
	return 0;
}

/* Whom a step means: of several bearers of a tid the newest that keeps anything. */
static struct session_thread *bearer(struct session *session, const struct budget_step *step)
{
	for (size_t i = session->threads.len; step->kind != BUDGET_GIVE && i-- > 0;) {
		struct session_thread *thread = &session->threads.data[i];

		if (thread->tid == step->tid && (thread->has_ring || thread->tails.len))
			return thread;
	}
	return session_thread_find(session, step->tid);
}

static int carry_out(struct session *session, const struct budget_step *step, uint64_t now_ns)
{
	struct session_thread *thread = bearer(session, step);

	if (!thread)
		return 0;
	switch (step->kind) {
	case BUDGET_DROP_TAIL:
		free_tails(thread);
		if (thread->has_ring)
			note_change(session, thread, thread->ring.size, thread->ring.size, 0);
		return 0;
	case BUDGET_TAKE:
		return take(session, thread, now_ns);
	case BUDGET_RESIZE:
		return resize(session, thread, step->ring, step->tail);
	case BUDGET_GIVE:
		return give(session, thread, step->ring, now_ns);
	}
	return 0;
}

bool session_thread_is_forgotten(const struct session_thread *thread)
{
	return thread->exited && !thread->has_ring && !thread->tails.len;
}

/* Dead threads without history leave no trace, so that a long session does not grow. */
static void purge(struct session *session)
{
	size_t kept = 0, kept_events = 0;
	VEC(pid_t) gone = { 0 };

	for (size_t i = 0; i < session->threads.len; i++) {
		struct session_thread *thread = &session->threads.data[i];

		/* a main thread goes with its process */
		if (session_thread_is_forgotten(thread) && thread->tid != thread->pid &&
		    !vec_push(&gone, thread->tid)) {
			budget_forget(session->budget, thread->tid);
			vec_free(&thread->gaps);
			continue;
		}
		session->threads.data[kept++] = *thread;
	}
	session->threads.len = kept;
	for (size_t i = 0; gone.len && i < session->events.len; i++) {
		const struct recording_event *event = &session->events.data[i];
		bool drop = false;

		for (size_t k = 0; k < gone.len && event->kind != RECORDING_MAP; k++)
			drop |= event->tid == gone.data[k] &&
				!session_thread_find(session, event->tid);
		if (!drop)
			session->events.data[kept_events++] = *event;
	}
	if (gone.len)
		session->events.len = kept_events;
	vec_free(&gone);
	session_targets_purge(session);
}

int session_balance(struct session *session, uint64_t now_ns, bool rebalance)
{
	const struct budget_step *steps;
	VEC(struct budget_step) copy = { 0 };
	size_t n;
	int err = budget_plan(session->budget, now_ns, rebalance, &steps, &n);

	/* carrying a step out reports back to the budget, which then owns the list no more */
	for (size_t i = 0; !err && i < n; i++)
		err = vec_push(&copy, steps[i]);
	for (size_t i = 0; !err && i < copy.len; i++) {
		err = carry_out(session, &copy.data[i], now_ns);
		if (budget_used(session->budget) > session->budget_peak)
			session->budget_peak = budget_used(session->budget);
	}
	vec_free(&copy);
	if (rebalance)
		purge(session);
	return err;
}

/* The thread joins the trigger scope and gets its ring, as the budget allows. */
static int start_thread(struct session *session, struct session_thread *thread, uint64_t now_ns)
{
	int err = 0;

	if (session->evaluator)
		err = evaluator_add_thread(session->evaluator, thread->pid, thread->tid);
	if (err == -ESRCH)
		return 0; /* it is dying; its exit is on the way */
	if (err)
		return log_errno(err, "follow thread %d", thread->tid);
	if (session->options->full_execution)
		return give(session, thread, BUDGET_MIN_RING, now_ns);
	err = budget_birth(session->budget, thread->tid, now_ns);
	return err ? err : session_balance(session, now_ns, false);
}

int session_check_spools(struct session *session)
{
	struct session_thread *thread;

	vec_for_each(thread, &session->threads) {
		const uint64_t error = thread->has_ring ? thread->ring.header->write_error : 0;

		if (error)
			return log_errno(-(int)error, "write the trace of thread %d below %s",
					 thread->tid, session->options->output);
	}
	return 0;
}

int session_start_tracing(struct session *session, uint64_t now_ns)
{
	struct session_thread *thread;
	int err = 0;

	session->tracing = true;
	vec_for_each(thread, &session->threads) {
		if (thread->exited || !is_wanted(session, thread->pid, thread->tid))
			continue;
		thread->join = RECORDING_JOIN_ATTACH;
		thread->announced = false;
		err = start_thread(session, thread, now_ns);
		if (err)
			return err;
	}
	return 0;
}

void session_threads_fini(struct session *session)
{
	struct session_thread *thread;

	vec_for_each(thread, &session->threads) {
		if (thread->has_ring)
			aux_ring_free(&thread->ring);
		free_tails(thread);
		vec_free(&thread->gaps);
	}
	vec_free(&session->threads);
}
