// SPDX-License-Identifier: GPL-2.0-only
#include "record/evaluator_keeper.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "base/mem.h"
#include "base/vec.h"

struct keeper {
	pid_t pid;
	int socket;
};

enum keeper_op { KEEPER_ATTACH, KEEPER_DETACH };

struct keeper_request {
	uint32_t op, handle;
	pid_t tid;
	uint64_t offset, cookie;
	char path[PATH_MAX]; /* sent as far as it is used */
};

struct keeper_reply {
	int32_t err;
	uint32_t handle;
};

/* What the keeper's process has; links[handle - 1], NULL when it is detached. */
struct held {
	const struct bpf_program *program;
	VEC(struct bpf_link *) links;
};

static int hold(struct held *held, const struct keeper_request *request, uint32_t *handle)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts, .bpf_cookie = request->cookie);
	struct bpf_link *link;
	int err = vec_reserve(&held->links, 1);

	if (err)
		return err;
	link = bpf_program__attach_uprobe_opts(held->program, request->tid, request->path,
					       request->offset, &opts);
	if (!link)
		return -errno;
	held->links.data[held->links.len++] = link;
	*handle = (uint32_t)held->links.len;
	return 0;
}

static void release(struct held *held, uint32_t handle)
{
	if (!handle || handle > held->links.len)
		return;
	bpf_link__destroy(held->links.data[handle - 1]);
	held->links.data[handle - 1] = NULL;
	while (held->links.len && !held->links.data[held->links.len - 1])
		held->links.len--;
}

/* True while the front process is there and wants more. */
static bool serve_one(struct held *held, int socket, int front)
{
	struct pollfd fds[] = { { .fd = socket, .events = POLLIN },
				{ .fd = front, .events = POLLIN } };
	struct keeper_request request = { 0 };
	struct keeper_reply reply = { 0 };
	ssize_t n;

	if (poll(fds, 2, -1) < 0)
		return errno == EINTR;
	if (!fds[0].revents)
		return false;
	n = recv(socket, &request, sizeof(request), 0);
	if (n < (ssize_t)offsetof(struct keeper_request, path))
		return n < 0 && errno == EINTR;
	request.path[sizeof(request.path) - 1] = '\0';
	if (request.op == KEEPER_ATTACH)
		reply.err = hold(held, &request, &reply.handle);
	else
		release(held, request.handle);
	return send(socket, &reply, sizeof(reply), MSG_NOSIGNAL) == sizeof(reply);
}

/* Descriptors of others would keep their ends open, and the files of the session alive. */
static void close_others(int *keep, size_t n)
{
	unsigned int from = 3;

	for (size_t i = 0; i < n; i++) {
		for (size_t k = i + 1; k < n; k++) {
			if (keep[k] < keep[i]) {
				const int other = keep[i];

				keep[i] = keep[k];
				keep[k] = other;
			}
		}
		if (keep[i] < (int)from)
			continue;
		if ((unsigned int)keep[i] > from)
			syscall(SYS_close_range, from, (unsigned int)keep[i] - 1, 0);
		from = (unsigned int)keep[i] + 1;
	}
	syscall(SYS_close_range, from, ~0u, 0);
}

static void ignore_signals(void)
{
	const int signals[] = { SIGINT,  SIGQUIT, SIGTERM, SIGHUP,  SIGTSTP, SIGTTIN,
				SIGTTOU, SIGPIPE, SIGUSR1, SIGUSR2, SIGALRM };
	sigset_t none;

	for (size_t i = 0; i < ARRAY_SIZE(signals); i++)
		signal(signals[i], SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static _Noreturn void keep(const struct bpf_program *program, int socket, int front)
{
	struct held held = { .program = program };
	int fds[] = { socket, front, bpf_program__fd(program) };

	setsid();
	ignore_signals();
	prctl(PR_SET_NAME, "ptbpf-probes");
	close_others(fds, ARRAY_SIZE(fds));
	while (serve_one(&held, socket, front))
		;
	for (size_t i = held.links.len; i > 0; i--)
		release(&held, (uint32_t)i);
	_exit(0);
}

int keeper_start(const struct bpf_program *program, struct keeper **out)
{
	scoped_free struct keeper *keeper = calloc(1, sizeof(*keeper));
	scoped_fd int ours = -1;
	scoped_fd int theirs = -1;
	scoped_fd int front = (int)syscall(SYS_pidfd_open, getpid(), 0);
	int pair[2];

	if (!keeper)
		return -ENOMEM;
	if (front < 0 || socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		return -errno;
	ours = pair[0];
	theirs = pair[1];
	keeper->pid = fork();
	if (keeper->pid < 0)
		return -errno;
	if (!keeper->pid)
		keep(program, theirs, front);
	keeper->socket = TAKE_FD(ours);
	*out = TAKE_PTR(keeper);
	return 0;
}

void keeper_stop(struct keeper *keeper)
{
	if (!keeper)
		return;
	shutdown(keeper->socket, SHUT_RDWR);
	while (waitpid(keeper->pid, NULL, 0) < 0 && errno == EINTR)
		;
	close(keeper->socket);
	free(keeper);
}

static int ask(struct keeper *keeper, const struct keeper_request *request, uint32_t *handle)
{
	const size_t size =
		offsetof(struct keeper_request, path) + strnlen(request->path, PATH_MAX - 1) + 1;
	struct keeper_reply reply;
	ssize_t n;

	if (send(keeper->socket, request, size, MSG_NOSIGNAL) < 0)
		return -errno;
	do {
		n = recv(keeper->socket, &reply, sizeof(reply), 0);
	} while (n < 0 && errno == EINTR);
	if (n < 0)
		return -errno;
	if (n != sizeof(reply))
		return -EPIPE;
	*handle = reply.handle;
	return reply.err;
}

int keeper_attach(struct keeper *keeper, pid_t tid, const char *path, uint64_t offset,
		  uint64_t cookie, uint32_t *handle)
{
	struct keeper_request request = {
		.op = KEEPER_ATTACH, .tid = tid, .offset = offset, .cookie = cookie
	};

	if (strlen(path) >= sizeof(request.path))
		return -ENAMETOOLONG;
	strcpy(request.path, path);
	return ask(keeper, &request, handle);
}

void keeper_detach(struct keeper *keeper, uint32_t handle)
{
	const struct keeper_request request = { .op = KEEPER_DETACH, .handle = handle };

	ask(keeper, &request, &handle);
}
