// SPDX-License-Identifier: GPL-2.0-only
#include "cmd/live.h"

#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/size.h"
#include "cmd/owner.h"

#define DEFAULT_BUFFER (4ull << 20)
#define DEFAULT_BUFFER_UNPRIVILEGED (256ull << 10)

static enum exit_code parse_trigger(const char *option, const char *text, struct trigger *trigger)
{
	char why[512] = "";
	/* magic-trace's name for its own stop indicator */
	const char *spec = strcmp(text, ".") ? text : "sym:magic_trace_stop_indicator";
	const int err = trigger_parse(spec, trigger, why, sizeof(why));

	if (!err)
		return EXIT_DONE;
	if (*why)
		log_err("%s: %s", option, why);
	else
		log_errno(err, "%s '%s'", option, text);
	return err == -EOPNOTSUPP ? EXIT_UNSUPPORTED :
	       err == -ENOMEM     ? EXIT_RESOURCE_LIMIT :
				    EXIT_USAGE;
}

static enum exit_code parse_triggers(const struct options *options, struct live *live)
{
	if (options->triggers.len > PTBPF_MAX_TRIGGERS) {
		log_err("%zu triggers are more than the %d of one session", options->triggers.len,
			PTBPF_MAX_TRIGGERS);
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < options->triggers.len; i++) {
		struct trigger trigger = { 0 };
		enum exit_code code;

		code = parse_trigger("--trigger", options->triggers.data[i], &trigger);
		if (code != EXIT_DONE)
			return code;
		if (vec_push(&live->triggers, trigger)) {
			trigger_fini(&trigger);
			log_err("out of memory");
			return EXIT_RESOURCE_LIMIT;
		}
	}
	live->session.triggers = live->triggers.data;
	live->session.n_triggers = live->triggers.len;
	return EXIT_DONE;
}

static enum exit_code parse_start(const struct options *options, struct live *live)
{
	enum exit_code code;
	int64_t ns;

	if (!options->start_at)
		return EXIT_DONE;
	if (!duration_parse(options->start_at, &ns)) {
		if (ns < 0) {
			log_err("--start-at %s: is in the past", options->start_at);
			return EXIT_USAGE;
		}
		live->session.start_after_ns = (uint64_t)ns;
		return EXIT_DONE;
	}
	if (strchr("-+0123456789", options->start_at[0])) {
		log_err("--start-at %s: a time needs a unit, as in 500ms or 2s", options->start_at);
		return EXIT_USAGE;
	}
	code = parse_trigger("--start-at", options->start_at, &live->start_at);
	if (code == EXIT_DONE && live->start_at.kind != TRIGGER_SYM &&
	    live->start_at.kind != TRIGGER_ADDR) {
		log_err("--start-at %s: takes sym:FUNC, addr:OBJECT+0xOFF or a time such as 2s",
			options->start_at);
		return EXIT_USAGE;
	}
	live->session.start_at = code == EXIT_DONE ? &live->start_at : NULL;
	return code;
}

static void set_buffer(const struct options *options, struct session_options *session)
{
	char asked[32], given[32];

	session->buffer_requested = options->buffer ? options->buffer :
				    geteuid()       ? DEFAULT_BUFFER_UNPRIVILEGED :
						      DEFAULT_BUFFER;
	size_format(session->buffer_requested, asked, sizeof(asked));
	switch (budget_round(session->buffer_requested, &session->buffer)) {
	case BUDGET_EXACT:
		break;
	case BUDGET_ROUNDED_UP:
		log_warn("--buffer %s is no power of two; using %s", asked,
			 size_format(session->buffer, given, sizeof(given)));
		break;
	case BUDGET_RAISED_TO_RING:
		log_warn("--buffer %s is less than one ring; using %s", asked,
			 size_format(session->buffer, given, sizeof(given)));
		break;
	case BUDGET_CAPPED:
		log_warn("--buffer %s is more than can be addressed; using %s", asked,
			 size_format(session->buffer, given, sizeof(given)));
		break;
	}
}

static enum exit_code check_user(const char *name)
{
	if (!name)
		return EXIT_DONE;
	errno = 0;
	if (!getpwnam(name)) {
		log_err("--user %s: no such user", name);
		return EXIT_NOT_FOUND;
	}
	if (geteuid()) {
		log_err("--user %s: only root can run a command as another user", name);
		return EXIT_PERMISSION;
	}
	return EXIT_DONE;
}

/* Of the snapshots: the program's base name, or the process's. */
static char *make_name(const struct options *options)
{
	char path[64], comm[32] = "";
	const char *base;
	char *name, *at;

	if (options->argv) {
		base = strrchr(options->argv[0], '/');
		base = base ? base + 1 : options->argv[0];
	} else {
		scoped_file FILE *file = NULL;

		snprintf(path, sizeof(path), "/proc/%d/comm", (int)options->pids.data[0]);
		file = fopen(path, "re");
		if (file && fgets(comm, sizeof(comm), file))
			comm[strcspn(comm, "\n")] = '\0';
		base = comm;
	}
	name = strdup(*base && *base != '.' ? base : "ptbpf");
	for (at = name; at && *at; at++) {
		if (*at == '/' || (unsigned char)*at < ' ')
			*at = '_';
	}
	return name;
}

static enum exit_code check_target(const struct options *options)
{
	if (options->argv)
		return target_check_command(options->argv[0]);
	for (size_t i = 0; i < options->pids.len; i++) {
		const enum exit_code code = target_check_process(options->pids.data[i]);

		if (code != EXIT_DONE)
			return code;
	}
	return EXIT_DONE;
}

static void copy_options(const struct options *options, struct session_options *session)
{
	static const enum source_choice sources[] = { SOURCE_AUTO, SOURCE_HW, SOURCE_SOFT };
	static const enum soft_step steps[] = { SOFT_STEP_BLOCK, SOFT_STEP_INSN, SOFT_STEP_VERIFY };

	session->argv = options->argv;
	session->pids = options->pids.data;
	session->n_pids = options->pids.len;
	session->max_snapshots = options->max_snapshots;
	session->multi_thread = options->multi_thread;
	session->follow_forks = options->follow_forks;
	session->full_execution = options->full_execution;
	session->balance = options->balance_equal ? BALANCE_EQUAL : BALANCE_ACTIVITY;
	session->source = sources[options->source];
	session->soft_step = steps[options->soft_step];
	session->step_clock = options->step_clock;
	session->no_aslr = options->no_aslr;
	session->insn_log = options->insn_log;
	session->output = options->output ? options->output : ".";
	session->user = options->user;
}

enum exit_code live_prepare(const struct options *options, struct live *live)
{
	enum exit_code code;

	*live = (struct live){ 0 };
	copy_options(options, &live->session);
	code = parse_triggers(options, live);
	if (code == EXIT_DONE)
		code = parse_start(options, live);
	if (code == EXIT_DONE)
		code = check_user(options->user);
	if (code == EXIT_DONE)
		code = check_target(options);
	if (code != EXIT_DONE)
		return code;
	set_buffer(options, &live->session);
	owner_find(&live->session.owner_uid, &live->session.owner_gid);
	live->name = make_name(options);
	live->session.name = live->name;
	if (live->name)
		return EXIT_DONE;
	log_err("out of memory");
	return EXIT_RESOURCE_LIMIT;
}

void live_fini(struct live *live)
{
	struct trigger *trigger;

	vec_for_each(trigger, &live->triggers)
		trigger_fini(trigger);
	vec_free(&live->triggers);
	trigger_fini(&live->start_at);
	free(live->name);
	*live = (struct live){ 0 };
}
