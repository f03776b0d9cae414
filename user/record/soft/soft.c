// SPDX-License-Identifier: GPL-2.0-only
/* The session's side of the software tracer. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../../../bpf/ptbpf_abi.h"
#include "base/mem.h"
#include "record/soft/stepper.h"
#include "record/soft/wire.h"

struct soft {
	struct source source; /* first: the session sees only this */
	struct source_config config;
	struct ptbpf_trigger *triggers;
	char *user, *insn_log;
	pid_t stepper;
	int command_fd, event_fd; /* the session's ends */
	int their_command_fd, their_event_fd;
};

static struct soft *soft_of(const struct source *source)
{
	return (struct soft *)source;
}

static int receive_reply(const struct soft *soft, struct wire_reply *reply)
{
	for (;;) {
		const ssize_t n = recv(soft->command_fd, reply, sizeof(*reply), 0);

		if (n == (ssize_t)sizeof(*reply))
			return reply->err;
		if (n < 0 && errno == EINTR)
			continue;
		return n < 0 ? -errno : -EPIPE;
	}
}

static int ask(const struct source *source, const struct wire_request *request,
	       const struct iovec *payload, const int *fds, size_t n_fds, struct wire_reply *reply)
{
	const struct soft *soft = soft_of(source);
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct iovec parts[2] = { { (void *)request, sizeof(*request) } };
	struct msghdr message = { .msg_iov = parts, .msg_iovlen = 1 };

	if (soft->stepper <= 0)
		return -EPIPE;
	if (payload)
		parts[message.msg_iovlen++] = *payload;
	if (n_fds) {
		message.msg_control = &control;
		message.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		control.align.cmsg_level = SOL_SOCKET;
		control.align.cmsg_type = SCM_RIGHTS;
		control.align.cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(&control.align), fds, n_fds * sizeof(int));
	}
	while (sendmsg(soft->command_fd, &message, MSG_NOSIGNAL) < 0) {
		if (errno != EINTR)
			return -errno;
	}
	return receive_reply(soft, reply);
}

static int ask_plain(const struct source *source, enum wire_op op, pid_t tid, bool hold)
{
	const struct wire_request request = { .op = op, .tid = tid, .hold = hold };
	struct wire_reply reply;

	return ask(source, &request, NULL, NULL, 0, &reply);
}

static int soft_start(struct source *source, const struct source_target *target, char *why,
		      size_t why_size)
{
	struct soft *soft = soft_of(source);
	struct wire_reply reply = { 0 };
	const pid_t front = getpid();
	int err;

	soft->stepper = fork();
	if (soft->stepper < 0) {
		err = -errno;
		snprintf(why, why_size, "cannot start the stepper: %s", strerror(-err));
		return err;
	}
	if (soft->stepper == 0)
		_exit(stepper_main(&soft->config, target, front, soft->their_command_fd,
				   soft->their_event_fd));
	close(TAKE_FD(soft->their_command_fd));
	close(TAKE_FD(soft->their_event_fd));
	err = receive_reply(soft, &reply);
	reply.why[sizeof(reply.why) - 1] = 0;
	if (err)
		snprintf(why, why_size, "%s", *reply.why ? reply.why : strerror(-err));
	return err;
}

static int soft_fd(const struct source *source)
{
	return soft_of(source)->event_fd;
}

static int soft_next(struct source *source, struct source_event *event)
{
	const ssize_t n = recv(soft_of(source)->event_fd, event, sizeof(*event), MSG_DONTWAIT);

	if (n == (ssize_t)sizeof(*event))
		return 1;
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	return -EPIPE;
}

static int soft_release(struct source *source, pid_t tid)
{
	return ask_plain(source, WIRE_RELEASE, tid, false);
}

static int soft_ring_give(struct source *source, pid_t tid, struct aux_ring *ring)
{
	const struct wire_request request = { .op = WIRE_GIVE, .tid = tid };
	const int fds[2] = { ring->fd, ring->spool_fd };
	struct wire_reply reply;

	return ask(source, &request, NULL, fds, ring->spool_fd < 0 ? 1 : 2, &reply);
}

static int soft_ring_take(struct source *source, pid_t tid, bool hold)
{
	return ask_plain(source, WIRE_TAKE, tid, hold);
}

static int soft_set_probes(struct source *source, pid_t pid, const struct source_probe *probes,
			   size_t n)
{
	const struct wire_request request = { .op = WIRE_PROBES, .tid = pid, .n = (uint32_t)n };
	const struct iovec payload = { (void *)probes, n * sizeof(*probes) };
	struct wire_reply reply;

	if (n > WIRE_MAX_PROBES)
		return -E2BIG;
	return ask(source, &request, &payload, NULL, 0, &reply);
}

static int soft_set_start(struct source *source, pid_t pid, const uint64_t *addrs, size_t n)
{
	const struct wire_request request = { .op = WIRE_STARTS, .tid = pid, .n = (uint32_t)n };
	const struct iovec payload = { (void *)addrs, n * sizeof(*addrs) };
	struct wire_reply reply;

	return ask(source, &request, &payload, NULL, 0, &reply);
}

static int soft_freeze(struct source *source)
{
	return ask_plain(source, WIRE_FREEZE, 0, false);
}

static int soft_resume(struct source *source)
{
	return ask_plain(source, WIRE_RESUME, 0, false);
}

static int soft_detach(struct source *source)
{
	return ask_plain(source, WIRE_DETACH, 0, false);
}

static int soft_cut(struct source *source, pid_t tid, struct source_cut *cut)
{
	const struct wire_request request = { .op = WIRE_CUT, .tid = tid };
	struct wire_reply reply;
	const int err = ask(source, &request, NULL, NULL, 0, &reply);

	if (!err)
		*cut = reply.cut;
	return err;
}

static int soft_stats(struct source *source, struct source_stats *stats)
{
	const struct wire_request request = { .op = WIRE_STATS };
	struct wire_reply reply;
	const int err = ask(source, &request, NULL, NULL, 0, &reply);

	if (!err)
		*stats = reply.stats;
	return err;
}

static void soft_close(struct source *source)
{
	struct soft *soft;

	if (!source)
		return;
	soft = soft_of(source);
	/* The stepper sees the end of its socket, lets every target go and exits. */
	mem_close_fd(&soft->command_fd);
	mem_close_fd(&soft->event_fd);
	mem_close_fd(&soft->their_command_fd);
	mem_close_fd(&soft->their_event_fd);
	while (soft->stepper > 0 && waitpid(soft->stepper, NULL, 0) < 0 && errno == EINTR)
		;
	free(soft->triggers);
	free(soft->user);
	free(soft->insn_log);
	free(soft);
}

static const struct source_ops soft_ops = {
	.name = "soft",
	.start = soft_start,
	.fd = soft_fd,
	.next = soft_next,
	.release = soft_release,
	.ring_give = soft_ring_give,
	.ring_take = soft_ring_take,
	.set_probes = soft_set_probes,
	.set_start = soft_set_start,
	.freeze = soft_freeze,
	.resume = soft_resume,
	.detach = soft_detach,
	.cut = soft_cut,
	.stats = soft_stats,
	.close = soft_close,
};

static int copy_text(const char *text, char **out, const char **config)
{
	if (!text)
		return 0;
	*out = strdup(text);
	*config = *out;
	return *out ? 0 : -ENOMEM;
}

static int copy_config(struct soft *soft, const struct source_config *config)
{
	int err;

	soft->config = *config;
	err = copy_text(config->user, &soft->user, &soft->config.user);
	if (!err)
		err = copy_text(config->insn_log, &soft->insn_log, &soft->config.insn_log);
	if (err || !config->n_triggers)
		return err;
	soft->triggers = calloc(config->n_triggers, sizeof(*soft->triggers));
	if (!soft->triggers)
		return -ENOMEM;
	memcpy(soft->triggers, config->triggers, config->n_triggers * sizeof(*soft->triggers));
	soft->config.triggers = soft->triggers;
	return 0;
}

static int make_pair(int *mine, int *theirs)
{
	const int size = 1 << 20;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	*mine = fds[0];
	*theirs = fds[1];
	setsockopt(*mine, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	setsockopt(*theirs, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	return 0;
}

static void soft_close_ptr(struct source **source)
{
	soft_close(*source);
}

int soft_source_open(const struct source_config *config, struct source **out)
{
	scoped(soft_close_ptr) struct source *source = NULL;
	struct soft *soft = calloc(1, sizeof(*soft));
	int err;

	if (!soft)
		return -ENOMEM;
	source = &soft->source;
	source->ops = &soft_ops;
	soft->command_fd = soft->event_fd = soft->their_command_fd = soft->their_event_fd = -1;
	err = copy_config(soft, config);
	if (!err)
		err = make_pair(&soft->command_fd, &soft->their_command_fd);
	if (!err)
		err = make_pair(&soft->event_fd, &soft->their_event_fd);
	if (err)
		return err;
	*out = TAKE_PTR(source);
	return 0;
}
