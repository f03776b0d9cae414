// SPDX-License-Identifier: GPL-2.0-only
/* What each option does to the struct. */
#include "cmd/options_table.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/size.h"

static int parse_number(const char *option, const char *value, uint64_t min, uint64_t max,
			uint64_t *number)
{
	char *end;

	errno = 0;
	*number = strtoull(value, &end, 10);
	if (*value >= '0' && *value <= '9' && !*end && !errno && *number >= min && *number <= max)
		return 0;
	log_err("%s %s: not a whole number from %llu to %llu", option, value,
		(unsigned long long)min, (unsigned long long)max);
	return -EINVAL;
}

static int parse_duration(const char *option, const char *value, int64_t min, int64_t *ns)
{
	if (!duration_parse(value, ns) && *ns >= min)
		return 0;
	log_err("%s %s: not a%s duration; write one as 500ns, 50us, 10ms, 2s or 5m%s", option,
		value, min < 0 ? "" : " positive", min < 0 ? ", with a minus for before" : "");
	return -EINVAL;
}

/* Index of @value in the NULL-terminated @words, or -EINVAL with a message. */
static int parse_word(const char *option, const char *value, const char *const *words)
{
	char list[128] = "";

	for (int i = 0; words[i]; i++) {
		if (!strcmp(value, words[i]))
			return i;
		strncat(list, i ? (words[i + 1] ? ", " : " or ") : "",
			sizeof(list) - strlen(list) - 1);
		strncat(list, words[i], sizeof(list) - strlen(list) - 1);
	}
	log_err("%s %s: must be %s", option, value, list);
	return -EINVAL;
}

static int set_trigger(struct options *options, const char *option, const char *value)
{
	(void)option;
	return vec_push(&options->triggers, value);
}

static int set_pids(struct options *options, const char *option, const char *value)
{
	const char *at = value;

	do {
		char *end;
		long pid;

		errno = 0;
		pid = strtol(at, &end, 10);
		if (*at < '0' || *at > '9' || errno || pid < 1 || pid > INT_MAX ||
		    (*end && *end != ',')) {
			log_err("%s %s: not a process id, or several with commas between", option,
				value);
			return -EINVAL;
		}
		if (vec_push(&options->pids, (pid_t)pid))
			return -ENOMEM;
		at = end + 1;
	} while (at[-1] == ',');
	return 0;
}

static int set_buffer(struct options *options, const char *option, const char *value)
{
	if (!size_parse(value, &options->buffer))
		return 0;
	log_err("%s %s: not a size; write bytes or a unit of 1024, as 512K, 8M or 1.5G", option,
		value);
	return -EINVAL;
}

static int set_balance(struct options *options, const char *option, const char *value)
{
	static const char *const words[] = { "activity", "equal", NULL };
	const int word = parse_word(option, value, words);

	options->balance_equal = word == 1;
	return word < 0 ? word : 0;
}

static int set_source(struct options *options, const char *option, const char *value)
{
	static const char *const words[] = { "auto", "hw", "soft", NULL };
	const int word = parse_word(option, value, words);

	options->source = (enum option_source)word;
	return word < 0 ? word : 0;
}

static int set_soft_step(struct options *options, const char *option, const char *value)
{
	static const char *const words[] = { "block", "insn", "verify", NULL };
	const int word = parse_word(option, value, words);

	options->soft_step = (enum option_step)word;
	return word < 0 ? word : 0;
}

static int set_max_snapshots(struct options *options, const char *option, const char *value)
{
	return parse_number(option, value, 1, UINT32_MAX, &options->max_snapshots);
}

static int set_thread(struct options *options, const char *option, const char *value)
{
	uint64_t number;
	const int err = parse_number(option, value, 1, INT_MAX, &number);

	options->thread = (pid_t)number;
	return err;
}

static int set_depth(struct options *options, const char *option, const char *value)
{
	uint64_t number;
	const int err = parse_number(option, value, 1, UINT32_MAX, &number);

	options->depth = (uint32_t)number;
	return err;
}

static int set_workers(struct options *options, const char *option, const char *value)
{
	uint64_t number;
	const int err = parse_number(option, value, 1, 1024, &number);

	options->workers = (unsigned int)number;
	return err;
}

static int set_min_duration(struct options *options, const char *option, const char *value)
{
	int64_t ns;
	const int err = parse_duration(option, value, 0, &ns);

	options->min_duration_ns = (uint64_t)ns;
	return err;
}

static int set_from(struct options *options, const char *option, const char *value)
{
	options->has_from = true;
	return parse_duration(option, value, INT64_MIN, &options->from_ns);
}

static int set_to(struct options *options, const char *option, const char *value)
{
	options->has_to = true;
	return parse_duration(option, value, INT64_MIN, &options->to_ns);
}

#define FLAG(member, state)                                                                     \
	static int set_##member(struct options *options, const char *option, const char *value) \
	{                                                                                       \
		(void)option;                                                                   \
		(void)value;                                                                    \
		options->member = state;                                                        \
		return 0;                                                                       \
	}
FLAG(multi_thread, true)
FLAG(follow_forks, true)
FLAG(full_execution, true)
FLAG(insn, true)
FLAG(json, true)
FLAG(step_clock, true)
FLAG(no_aslr, true)

static int set_multi_snapshot(struct options *options, const char *option, const char *value)
{
	(void)option;
	(void)value;
	options->max_snapshots = 0;
	return 0;
}

static int set_verbose(struct options *options, const char *option, const char *value)
{
	(void)option;
	(void)value;
	options->verbosity = 1;
	return 0;
}

static int set_quiet(struct options *options, const char *option, const char *value)
{
	(void)option;
	(void)value;
	options->verbosity = -1;
	return 0;
}

static int set_help(struct options *options, const char *option, const char *value)
{
	(void)option;
	(void)value;
	if (options->command != COMMAND_HELP)
		options->help_for = options->command;
	options->command = COMMAND_HELP;
	return 0;
}

static int set_version(struct options *options, const char *option, const char *value)
{
	(void)option;
	(void)value;
	options->command = COMMAND_VERSION;
	return 0;
}

#define TEXT(member)                                                                            \
	static int set_##member(struct options *options, const char *option, const char *value) \
	{                                                                                       \
		if (!*value) {                                                                  \
			log_err("%s: the value is empty", option);                              \
			return -EINVAL;                                                         \
		}                                                                               \
		options->member = value;                                                        \
		return 0;                                                                       \
	}
TEXT(start_at)
TEXT(user)
TEXT(output)
TEXT(format)
TEXT(symfs)
TEXT(insn_log)

#define LIVE (COMMAND_RECORD | COMMAND_PLAN)
#define SHOW (COMMAND_RECORD | COMMAND_DECODE)
#define ALL (COMMAND_RECORD | COMMAND_DECODE | COMMAND_PLAN | COMMAND_DOCTOR | COMMAND_HELP)

const struct option_spec option_table[] = {
	{ "trigger", 't', LIVE, "SPEC", set_trigger,
	  "snapshot when SPEC is reached; several may be given (none: at the end)" },
	{ "pid", 'p', LIVE, "PID[,PID]", set_pids, "attach to these instead of running a command" },
	{ "multi-thread", 0, LIVE, NULL, set_multi_thread,
	  "every thread, now and later, not only the main one" },
	{ "buffer", 0, LIVE, "SIZE", set_buffer,
	  "memory for all trace rings together (4M as root, else 256K)" },
	{ "snapshot-size", 0, LIVE, "SIZE", set_buffer, NULL },
	{ "balance", 0, LIVE, "HOW", set_balance,
	  "share the buffer by 'activity' (default) or 'equal'" },
	{ "max-snapshots", 0, LIVE, "N", set_max_snapshots, "stop after N fires (1)" },
	{ "multi-snapshot", 0, LIVE, NULL, set_multi_snapshot,
	  "a snapshot at each fire, no limit" },
	{ "full-execution", 0, LIVE, NULL, set_full_execution,
	  "keep the whole run on disk instead of the newest part" },
	{ "follow-forks", 0, LIVE, NULL, set_follow_forks, "child processes are recorded too" },
	{ "start-at", 0, LIVE, "WHERE", set_start_at,
	  "full speed, untraced, until sym:FUNC is reached or 2s have passed" },
	{ "source", 0, LIVE, "SOURCE", set_source, "'auto' (default), 'hw' or 'soft'" },
	{ "soft-step", 0, LIVE, "MODE", set_soft_step,
	  "software tracer: 'block' (default), 'insn', or both: 'verify'" },
	{ "user", 0, LIVE, "NAME", set_user, "run the command as this user (root only)" },
	{ "format", 0, SHOW, "LIST", set_format,
	  "perfetto (default), text, json, fxt, none; with commas between" },
	{ "output", 'o', SHOW, "DIR", set_output,
	  "where to write, created if need be (decode: '-' is stdout)" },
	{ "thread", 0, SHOW, "TID", set_thread, "show this thread only" },
	{ "depth", 0, SHOW, "N", set_depth, "show calls down to this depth only" },
	{ "min-duration", 0, SHOW, "TIME", set_min_duration, "leave out shorter calls" },
	{ "from", 0, SHOW, "TIME", set_from, "from this time on, relative to the trigger: -50us" },
	{ "to", 0, SHOW, "TIME", set_to, "up to this time, relative to the trigger" },
	{ "insn", 0, COMMAND_DECODE, NULL, set_insn, "list every instruction instead of calls" },
	{ "symfs", 0, COMMAND_DECODE, "DIR", set_symfs, "look for binaries below DIR" },
	{ "jobs", 'j', SHOW, "N", set_workers, "decode with N threads (default: all CPUs)" },
	{ "json", 0, COMMAND_DOCTOR, NULL, set_json, "one JSON object instead of a table" },
	{ "verbose", 'v', ALL, NULL, set_verbose, "say more" },
	{ "quiet", 'q', ALL, NULL, set_quiet, "say errors only" },
	{ "help", 'h', ALL, NULL, set_help, "this text, or a command's" },
	{ "version", 'V', ALL, NULL, set_version, "the version" },
	{ "step-clock", 0, LIVE, NULL, set_step_clock, NULL },
	{ "no-aslr", 0, LIVE, NULL, set_no_aslr, NULL },
	{ "insn-log", 0, LIVE, "DIR", set_insn_log, NULL },
	{ NULL, 0, 0, NULL, NULL, NULL },
};
