// SPDX-License-Identifier: GPL-2.0-only
#include "record/session_setup.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/limits.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/size.h"
#include "record/session_state.h"
#include "snapshot/directory.h"

enum exit_code session_exit_code(int err)
{
	switch (-err) {
	case EPERM:
	case EACCES:
	case EROFS:
		return EXIT_PERMISSION;
	case ENOENT:
	case ESRCH:
		return EXIT_NOT_FOUND;
	case ENOMEM:
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
	case EMFILE:
	case ENFILE:
	case EAGAIN:
		return EXIT_RESOURCE_LIMIT;
	case EOPNOTSUPP:
	case ENOSYS:
		return EXIT_UNSUPPORTED;
	default:
		return EXIT_FAILED;
	}
}

bool session_wants_exit(const struct session *session)
{
	for (size_t i = 0; i < session->options->n_triggers; i++) {
		if (session->options->triggers[i].kind == TRIGGER_EXIT)
			return true;
	}
	return session->options->n_triggers == 0;
}

/* Did anything that was asked for happen? */
static bool asked_in_vain(const struct session *session)
{
	bool asked = false;

	for (size_t i = 0; i < session->options->n_triggers; i++) {
		const enum trigger_kind kind = session->options->triggers[i].kind;

		if ((kind == TRIGGER_EXIT && session->ended && !session->interrupts) ||
		    (kind == TRIGGER_MANUAL && session->interrupts == 1))
			return false;
		asked = true;
	}
	return asked && !session->fires_seen;
}

static uint64_t available_memory(void)
{
	scoped_file FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			return (uint64_t)kib * 1024;
	}
	return UINT64_MAX;
}

static enum exit_code check_budget(const struct session_options *options)
{
	const uint64_t available = available_memory();
	char want[32], have[32];

	if (options->full_execution || options->buffer <= available)
		return EXIT_DONE;
	size_format(options->buffer, want, sizeof(want));
	size_format(available & ~((1ull << 20) - 1), have, sizeof(have));
	log_err("a budget of %s does not fit into the %s of memory that is free here; "
		"choose a smaller --buffer",
		want, have);
	return EXIT_RESOURCE_LIMIT;
}

static enum exit_code check_output(const struct session_options *options)
{
	unsigned int removed = 0, recovered = 0;
	int err = directory_prepare(options->output, options->owner_uid, options->owner_gid);

	if (!err)
		err = directory_recover(options->output, &removed, &recovered);
	if (err) {
		log_errno(err, "write snapshots below %s; choose another place with --output",
			  options->output);
		return session_exit_code(err);
	}
	if (removed || recovered)
		log_info("left by a ptbpf that died below %s: %u unfinished snapshots removed, "
			 "%u recovered",
			 options->output, removed, recovered);
	return EXIT_DONE;
}

static int own_fire_page(struct session *session)
{
	struct ptbpf_fire_page *page = mmap(NULL, sizeof(*page), PROT_READ | PROT_WRITE,
					    MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (page == MAP_FAILED)
		return -errno;
	page->single = session->options->max_snapshots == 1;
	session->fires = page;
	session->own_fires = true;
	return 0;
}

static int open_evaluator(struct session *session, const struct ptbpf_trigger *configs)
{
	const struct session_options *options = session->options;
	const struct evaluator_config config = { .triggers = configs,
						 .n_triggers = options->n_triggers,
						 .single = options->max_snapshots == 1,
						 .follow_forks = options->follow_forks,
						 .multi_thread = options->multi_thread };
	int err = evaluator_open(&config, &session->evaluator);

	if (!err) {
		session->fires = evaluator_fire_page(session->evaluator);
		return 0;
	}
	session->evaluator = NULL;
	if (err != -EPERM && err != -EACCES && err != -EOPNOTSUPP)
		return err;
	log_info("%s: the software tracer evaluates triggers itself; only threads that it steps "
		 "can fire, and on-CPU times are not known (%s)",
		 err == -EOPNOTSUPP ? "this kernel refuses our BPF programs" :
				      "loading BPF is not allowed here",
		 err == -EOPNOTSUPP ?
			 "`ptbpf doctor` tells what is missing, -v what it said" :
			 "run as root, or with CAP_BPF and CAP_PERFMON, for all of it");
	return own_fire_page(session);
}

static int open_source(struct session *session, const struct ptbpf_trigger *configs)
{
	const struct session_options *options = session->options;
	const struct source_config config = { .soft_step = options->soft_step,
					      .multi_thread = options->multi_thread,
					      .follow_forks = options->follow_forks,
					      .step_clock = options->step_clock,
					      .no_aslr = options->no_aslr,
					      .evaluates = session->evaluator == NULL,
					      .insn_log = options->insn_log,
					      .user = options->user,
					      .signal_mask = session->former_mask,
					      .fires = session->fires,
					      .triggers = configs,
					      .n_triggers = options->n_triggers };

	if (options->source == SOURCE_AUTO)
		log_info(
			"no Intel PT here (%s): using the software tracer, which is exact but slow",
			"this version has no hardware source");
	return soft_source_open(&config, &session->source);
}

enum exit_code session_open(struct session *session)
{
	const struct session_options *options = session->options;
	scoped_free struct ptbpf_trigger *configs = NULL;
	enum exit_code code;
	int err;

	if (options->source == SOURCE_HW) {
		log_err("--source hw: this version has no hardware source; use --source soft");
		return EXIT_UNSUPPORTED;
	}
	code = check_budget(options);
	if (code == EXIT_DONE)
		code = check_output(options);
	if (code != EXIT_DONE)
		return code;
	configs = calloc(options->n_triggers + 1, sizeof(*configs));
	if (!configs)
		return EXIT_RESOURCE_LIMIT;
	for (size_t i = 0; i < options->n_triggers; i++)
		configs[i] = options->triggers[i].config;
	for (size_t i = 0; i < options->n_triggers; i++) {
		if (vec_push(&session->attachments, 0))
			return EXIT_RESOURCE_LIMIT;
	}
	session->start_ns = clock_now_ns();
	session->tracing = !options->start_at && !options->start_after_ns;
	vec_push(&session->clock_pairs, clock_read_pair());
	err = budget_new(options->buffer, options->balance, &session->budget);
	if (!err)
		err = open_evaluator(session, configs);
	if (err)
		return session_exit_code(err);
	err = open_source(session, configs);
	if (err) {
		log_errno(err, "start the software tracer");
		return session_exit_code(err);
	}
	err = finisher_new(options, &session->finisher);
	if (err)
		log_errno(err, "start the writer of snapshots");
	return err ? session_exit_code(err) : EXIT_DONE;
}

enum exit_code session_start(struct session *session)
{
	const struct session_options *options = session->options;
	const struct source_target target = { .argv = options->argv,
					      .pids = options->pids,
					      .n_pids = options->n_pids };
	char why[512] = "";
	int err = session->source->ops->start(session->source, &target, why, sizeof(why));

	limits_raise_files();
	if (!err) {
		if (options->n_pids)
			log_info(
				"attached; whatever ends ptbpf, the target runs on unharmed, unless "
				"the process that steps it is killed by SIGKILL");
		return EXIT_DONE;
	}
	log_err("%s", why[0] ? why : strerror(-err));
	return session_exit_code(err);
}

/* Waits for the worker; a second Ctrl-C gives up the snapshots that are not written yet. */
static uint64_t drain(struct session *session, enum exit_code *failure)
{
	struct pollfd fds[2] = { { .fd = finisher_fd(session->finisher), .events = POLLIN },
				 { .fd = session->signal_fd, .events = POLLIN } };
	struct signalfd_siginfo info;

	while (!finisher_is_idle(session->finisher)) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			break;
		if ((fds[1].revents & POLLIN) &&
		    read(session->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info) &&
		    ++session->interrupts > 1) {
			finisher_abort(session->finisher);
			break;
		}
	}
	return finisher_drain(session->finisher, failure);
}

enum exit_code session_finish(struct session *session)
{
	enum exit_code written = EXIT_DONE;

	if (!session->detached)
		session->source->ops->detach(session->source);
	session->detached = true;
	drain(session, &written);
	if (session->ended)
		finisher_set_status(session->finisher, session->command_status);
	if (session->failure != EXIT_DONE)
		return session->failure;
	if (written != EXIT_DONE)
		return written;
	if (asked_in_vain(session)) {
		session_targets_report_missing(session);
		return EXIT_NO_FIRE;
	}
	return session->interrupts > 1 ? EXIT_FAILED : EXIT_DONE;
}

void session_close(struct session *session)
{
	char **warning;

	if (session->source)
		session->source->ops->close(session->source);
	if (session->finisher)
		finisher_free(session->finisher);
	shot_free(session->shot);
	session_threads_fini(session);
	session_targets_fini(session);
	evaluator_close(session->evaluator);
	if (session->own_fires)
		munmap(session->fires, sizeof(*session->fires));
	budget_free(session->budget);
	for (size_t i = 0; i < session->events.len; i++) {
		if (session->events.data[i].kind == RECORDING_MAP)
			free(session->events.data[i].map.path);
	}
	vec_free(&session->events);
	vec_free(&session->budget_events);
	vec_for_each(warning, &session->warnings)
		free(*warning);
	vec_free(&session->warnings);
	vec_free(&session->clock_pairs);
	vec_free(&session->attachments);
	mem_close_fd(&session->epoll_fd);
	mem_close_fd(&session->signal_fd);
	mem_close_fd(&session->timer_fd);
}
