// SPDX-License-Identifier: GPL-2.0-only
/* The session's requests, carried out between two steps. */
#include "record/soft/stepper.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/mem.h"

/* One request with its payload and the descriptors that came along. */
struct incoming {
	struct wire_request head;
	const union wire_payload *payload;
	size_t payload_size;
	int fds[2];
};

static int give(struct stepper *stepper, struct soft_thread *thread, struct incoming *in)
{
	struct aux_ring ring = { 0 };
	int err;

	if (thread->exiting || !thread->process || !thread->process->code.slots)
		return -ESRCH;
	if (thread_is_traced(thread))
		return -EEXIST;
	err = aux_ring_map(in->fds[0], &ring);
	if (err)
		return err;
	TAKE_FD(in->fds[0]);
	ring.spool_fd = TAKE_FD(in->fds[1]);
	err = record_give(stepper, thread, &ring);
	if (err) {
		aux_ring_free(&ring);
		return err;
	}
	thread->hold_take = false;
	thread_kick(thread);
	return 0;
}

static int take(struct stepper *stepper, struct soft_thread *thread, bool hold)
{
	record_take(stepper, thread);
	thread->hold_take = hold;
	thread_go_if_free(stepper, thread);
	return 0;
}

static int by_ip(const void *a, const void *b)
{
	const struct source_probe *left = a, *right = b;

	return left->ip < right->ip ? -1 : left->ip > right->ip;
}

static int set_probes(struct stepper *stepper, const struct incoming *in)
{
	struct soft_process *process = process_find(stepper, in->head.tid);
	const size_t n = in->head.n;

	if (!process)
		return -ESRCH;
	if (n > WIRE_MAX_PROBES || in->payload_size != n * sizeof(struct source_probe))
		return -EINVAL;
	process->probes.len = 0;
	if (vec_reserve(&process->probes, n + 1))
		return -ENOMEM;
	memcpy(process->probes.data, in->payload->probes, n * sizeof(struct source_probe));
	process->probes.len = n;
	qsort(process->probes.data, n, sizeof(struct source_probe), by_ip);
	blocks_set_barriers(process);
	return 0;
}

static void kick_for_starts(struct stepper *stepper, struct soft_thread *thread)
{
	(void)stepper;
	if (thread->process && thread->process->starts_changed && !thread_is_traced(thread))
		thread_kick(thread);
}

static int set_starts(struct stepper *stepper, const struct incoming *in)
{
	struct soft_process *process = process_find(stepper, in->head.tid);
	const size_t n = in->head.n;

	if (!process)
		return -ESRCH;
	if (n > STEPPER_STARTS)
		return -E2BIG;
	if (in->payload_size != n * sizeof(uint64_t))
		return -EINVAL;
	memcpy(process->starts, in->payload->starts, n * sizeof(uint64_t));
	process->n_starts = n;
	blocks_set_barriers(process);
	process->starts_changed = true;
	thread_for_each(stepper, kick_for_starts);
	process->starts_changed = false;
	return 0;
}

static int for_thread(struct stepper *stepper, struct incoming *in, struct wire_reply *reply)
{
	struct soft_thread *thread = thread_find(stepper, in->head.tid);

	if (!thread || !thread->known)
		return -ESRCH;
	switch (in->head.op) {
	case WIRE_RELEASE:
		thread->hold_event = false;
		thread_go_if_free(stepper, thread);
		return 0;
	case WIRE_GIVE:
		return give(stepper, thread, in);
	case WIRE_TAKE:
		return take(stepper, thread, in->head.hold);
	default:
		reply->cut = thread->cut;
		return 0;
	}
}

static int carry_out(struct stepper *stepper, struct incoming *in, struct wire_reply *reply)
{
	switch (in->head.op) {
	case WIRE_PROBES:
		return set_probes(stepper, in);
	case WIRE_STARTS:
		return set_starts(stepper, in);
	case WIRE_FREEZE:
		fires_freeze(stepper);
		return 0;
	case WIRE_RESUME:
		fires_resume(stepper);
		thread_for_each(stepper, thread_go_if_free);
		return 0;
	case WIRE_DETACH:
		detach_all(stepper);
		stepper_drain(stepper);
		return 0;
	case WIRE_STATS:
		stepper_fill_stats(stepper, &reply->stats);
		return 0;
	default:
		return for_thread(stepper, in, reply);
	}
}

static void take_fds(const struct msghdr *message, struct incoming *in)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR((void *)message, c)) {
		if (c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS)
			memcpy(in->fds, CMSG_DATA(c), c->cmsg_len - CMSG_LEN(0));
	}
}

/* 1: one request was answered; 0: none is there; -errno: the session is gone. */
static int serve_one(struct stepper *stepper)
{
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct incoming in = { .payload = stepper->payload, .fds = { -1, -1 } };
	struct wire_reply reply = { 0 };
	struct iovec parts[2] = { { &in.head, sizeof(in.head) },
				  { stepper->payload, sizeof(*stepper->payload) } };
	struct msghdr message = { .msg_iov = parts,
				  .msg_iovlen = 2,
				  .msg_control = &control,
				  .msg_controllen = sizeof(control) };
	ssize_t n = recvmsg(stepper->command_fd, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (n < (ssize_t)sizeof(in.head))
		return -EPIPE;
	in.payload_size = (size_t)n - sizeof(in.head);
	take_fds(&message, &in);
	reply.err = carry_out(stepper, &in, &reply);
	for (int i = 0; i < 2; i++)
		mem_close_fd(&in.fds[i]);
	if (send(stepper->command_fd, &reply, sizeof(reply), MSG_NOSIGNAL) < 0)
		return -errno;
	return 1;
}

void requests_serve(struct stepper *stepper)
{
	int more;

	do
		more = serve_one(stepper);
	while (more > 0);
	if (more < 0)
		stepper->front_gone = true;
}
