// SPDX-License-Identifier: GPL-2.0-only
#include "cmd/options.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cmd/options_table.h"
#include "cmd/suggest.h"

static const struct {
	const char *name;
	enum command command;
} commands[] = {
	{ "record", COMMAND_RECORD }, { "decode", COMMAND_DECODE }, { "plan", COMMAND_PLAN },
	{ "doctor", COMMAND_DOCTOR }, { "help", COMMAND_HELP },     { "version", COMMAND_VERSION },
	{ "run", COMMAND_RECORD },    { "attach", COMMAND_RECORD },
};

/* Where the parser is. */
struct parser {
	int argc, at;
	char *const *argv;
	struct options *options;
	bool named;           /* the command was named, or can no longer be */
	bool run;             /* magic-trace: run COMMAND -- ARGS */
	bool attach;          /* magic-trace: attach -pid */
	unsigned int allowed; /* commands that all options so far belong to */
};

const char *command_name(enum command command)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (commands[i].command == command)
			return commands[i].name;
	}
	return "";
}

static bool command_find(const char *word, enum command *command)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(commands[i].name, word)) {
			*command = commands[i].command;
			return true;
		}
	}
	return false;
}

static const struct option_spec *find_exact(const char *name, size_t len)
{
	for (const struct option_spec *spec = option_table; spec->name; spec++) {
		if (strlen(spec->name) == len && !strncmp(spec->name, name, len))
			return spec;
	}
	return NULL;
}

/* The only option of @command that begins like this. */
static const struct option_spec *find_prefix(const char *name, size_t len, enum command command)
{
	const struct option_spec *found = NULL;

	for (const struct option_spec *spec = option_table; len >= 3 && spec->name; spec++) {
		if (!(spec->commands & command) || strncmp(spec->name, name, len))
			continue;
		if (found)
			return NULL;
		found = spec;
	}
	return found;
}

static const struct option_spec *find_letter(char letter, enum command command)
{
	for (const struct option_spec *spec = option_table; spec->name; spec++) {
		if (spec->letter == letter && (spec->commands & command))
			return spec;
	}
	return NULL;
}

static const char *nearest_option(const char *name, size_t len, enum command command)
{
	struct suggest suggest = { 0 };
	char word[64];

	if (len >= sizeof(word))
		return NULL;
	memcpy(word, name, len);
	word[len] = '\0';
	for (const struct option_spec *spec = option_table; spec->name; spec++) {
		if ((spec->commands & command) && spec->help)
			suggest_consider(&suggest, word, spec->name);
	}
	return suggest.best;
}

static int unknown_option(const char *arg, size_t len, const char *nearest, enum command command)
{
	if (nearest)
		log_err("unknown option %.*s; did you mean --%s?", (int)len, arg, nearest);
	else
		log_err("unknown option %.*s; 'ptbpf help %s' lists them", (int)len, arg,
			command_name(command));
	return -EINVAL;
}

/* Calls the setter; @attached: the value that is part of the argument itself, or NULL. */
static int apply(struct parser *parser, const struct option_spec *spec, const char *shown,
		 const char *attached)
{
	const enum command command = parser->options->command;
	const char *value = attached;

	if (!(spec->commands & command)) {
		log_err("%s is not an option of 'ptbpf %s'; 'ptbpf help %s' lists them", shown,
			command_name(command), command_name(command));
		return -EINVAL;
	}
	if (!spec->arg && attached) {
		log_err("%s takes no value", shown);
		return -EINVAL;
	}
	if (spec->arg && !value) {
		if (parser->at + 1 >= parser->argc) {
			log_err("%s needs a value: %s %s", shown, shown, spec->arg);
			return -EINVAL;
		}
		value = parser->argv[++parser->at];
	}
	parser->allowed &= spec->commands;
	return spec->set(parser->options, shown, value);
}

/* -v, -qv, -p1,2, -o DIR */
static int parse_letters(struct parser *parser, const char *arg)
{
	const enum command command = parser->options->command;

	for (const char *letter = arg + 1; *letter; letter++) {
		const struct option_spec *spec = find_letter(*letter, command);
		const char shown[3] = { '-', *letter, '\0' };
		int err;

		if (!spec)
			return unknown_option(arg, strlen(arg), NULL, command);
		err = apply(parser, spec, shown, spec->arg && letter[1] ? letter + 1 : NULL);
		if (err || spec->arg)
			return err;
	}
	return 0;
}

static int parse_option(struct parser *parser, const char *arg)
{
	const bool one_dash = arg[1] != '-';
	const char *const name = arg + (one_dash ? 1 : 2);
	const size_t len = strcspn(name, "=");
	const char *const attached = name[len] ? name + len + 1 : NULL;
	const enum command command = parser->options->command;
	const struct option_spec *spec = find_exact(name, len);
	const char *nearest;
	char shown[64];

	if (!spec)
		spec = find_prefix(name, len, command);
	if (spec) {
		snprintf(shown, sizeof(shown), "%s%s", one_dash ? "-" : "--", spec->name);
		return apply(parser, spec, shown, attached);
	}
	nearest = nearest_option(name, len, command);
	/* -triger is no -t with "riger" */
	if (!one_dash || (len >= 4 && nearest) || !find_letter(name[0], command))
		return unknown_option(arg, (size_t)(name - arg) + len, nearest, command);
	return parse_letters(parser, arg);
}

static bool in_path(const char *program)
{
	const char *path = getenv("PATH");
	char file[4096];

	for (const char *dir = path; dir && *dir; dir += strcspn(dir, ":"), dir += *dir == ':') {
		if (snprintf(file, sizeof(file), "%.*s/%s", (int)strcspn(dir, ":"), dir, program) <
			    (int)sizeof(file) &&
		    !access(file, X_OK))
			return true;
	}
	return false;
}

/* A word that is neither a command of ours nor a program was probably meant as the former. */
static int check_program(const struct parser *parser, const char *word)
{
	struct suggest suggest = { 0 };

	if (parser->named || strchr(word, '/') || in_path(word))
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		suggest_consider(&suggest, word, commands[i].name);
	if (!suggest.best)
		return 0;
	log_err("'%s' is neither a command of ptbpf nor a program; did you mean 'ptbpf %s'?", word,
		suggest.best);
	return -EINVAL;
}

/* run COMMAND -- ARGS: the dashes go. */
static int take_program(struct parser *parser, bool after_dashes)
{
	struct options *options = parser->options;
	char *const *argv = parser->argv + parser->at;
	const int argc = parser->argc - parser->at;

	parser->at = parser->argc;
	if (!argc) {
		log_err("no command after --");
		return -EINVAL;
	}
	options->argv = argv;
	if (!parser->run || after_dashes || argc < 2 || strcmp(argv[1], "--"))
		return 0;
	options->own_argv = calloc((size_t)argc, sizeof(*options->own_argv));
	if (!options->own_argv)
		return -ENOMEM;
	options->own_argv[0] = argv[0];
	memcpy(options->own_argv + 1, argv + 2, (size_t)(argc - 2) * sizeof(*argv));
	options->argv = options->own_argv;
	return 0;
}

static int take_word(struct parser *parser, const char *word, bool after_dashes)
{
	struct options *options = parser->options;
	int err;

	switch (options->command) {
	case COMMAND_RECORD:
	case COMMAND_PLAN:
		err = after_dashes ? 0 : check_program(parser, word);
		return err ? err : take_program(parser, after_dashes);
	case COMMAND_DECODE:
		if (options->input) {
			log_err("decode takes one snapshot or perf.data, and '%s' is a second one",
				word);
			return -EINVAL;
		}
		options->input = word;
		return 0;
	case COMMAND_HELP:
		parser->named = true;
		if (command_find(word, &options->help_for))
			return 0;
		log_err("no help on '%s': there is record, decode, plan and doctor", word);
		return -EINVAL;
	default:
		log_err("'ptbpf %s' takes no '%s'", command_name(options->command), word);
		return -EINVAL;
	}
}

static bool take_command(struct parser *parser, const char *word)
{
	enum command command;

	if (parser->named || !command_find(word, &command))
		return false;
	if (parser->options->command == COMMAND_HELP || !(parser->allowed & command))
		return false; /* ptbpf --help decode; ptbpf -t f decode: a program of that name */
	parser->options->command = command;
	parser->named = true;
	parser->run = !strcmp(word, "run");
	parser->attach = !strcmp(word, "attach");
	return true;
}

static int check_live(const struct parser *parser)
{
	const struct options *options = parser->options;
	const char *const name = command_name(options->command);

	if (options->argv && options->pids.len) {
		log_err("both a command and -p were given; ptbpf runs the one or attaches to the "
			"other");
		return -EINVAL;
	}
	if (parser->attach && !options->pids.len) {
		log_err("attach to which process? ptbpf attach -p PID");
		return -EINVAL;
	}
	if (!options->argv && !options->pids.len) {
		log_err("nothing to %s: give a command, 'ptbpf %s%s[OPTIONS] -- CMD [ARG...]', or "
			"processes, '-p PID'; see 'ptbpf --help'",
			name, parser->named ? name : "", parser->named ? " " : "");
		return -EINVAL;
	}
	if (options->argv && !*options->argv[0]) {
		log_err("the command's name is empty");
		return -EINVAL;
	}
	if (options->user && options->pids.len) {
		log_err("--user is for a command that ptbpf starts, not for -p");
		return -EINVAL;
	}
	return 0;
}

static int check(const struct parser *parser)
{
	const struct options *options = parser->options;

	if (options->has_from && options->has_to && options->from_ns > options->to_ns) {
		log_err("--from is later than --to");
		return -EINVAL;
	}
	if (options->command & (COMMAND_RECORD | COMMAND_PLAN))
		return check_live(parser);
	if (options->command == COMMAND_DECODE && !options->input) {
		log_err("decode what? ptbpf decode SNAPSHOT-DIRECTORY, or a perf.data");
		return -EINVAL;
	}
	if (options->insn && options->format) {
		log_err("--insn is a list of its own; leave --format out");
		return -EINVAL;
	}
	return 0;
}

static int parse(struct parser *parser)
{
	for (parser->at = 1; parser->at < parser->argc; parser->at++) {
		const char *arg = parser->argv[parser->at];
		int err;

		if (!strcmp(arg, "--")) {
			parser->at++;
			if (parser->options->command & (COMMAND_RECORD | COMMAND_PLAN))
				return take_program(parser, true);
			for (; parser->at < parser->argc; parser->at++) {
				err = take_word(parser, parser->argv[parser->at], true);
				if (err)
					return err;
			}
			return 0;
		}
		if (arg[0] == '-' && arg[1])
			err = parse_option(parser, arg);
		else if (take_command(parser, arg))
			err = 0;
		else
			err = take_word(parser, arg, false);
		if (err)
			return err;
	}
	return 0;
}

int options_parse(int argc, char *const *argv, struct options *options)
{
	struct parser parser = {
		.argc = argc, .argv = argv, .options = options, .allowed = UINT_MAX
	};
	int err;

	*options = (struct options){ .command = COMMAND_RECORD, .max_snapshots = 1 };
	err = parse(&parser);
	if (!err)
		err = check(&parser);
	if (!err && !parser.named)
		options->help_for = 0; /* ptbpf --help */
	if (err == -ENOMEM)
		log_err("out of memory");
	return err;
}

void options_fini(struct options *options)
{
	vec_free(&options->triggers);
	vec_free(&options->pids);
	free(options->own_argv);
	options->own_argv = NULL;
}
