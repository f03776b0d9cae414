// SPDX-License-Identifier: GPL-2.0-only
#include "record/trigger.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/trigger_condition.h"

static const struct {
	const char *name;
	enum trigger_kind kind;
	const char *means; /* of one that is not evaluated yet; NULL: it is */
} kinds[] = {
	{ "sym", TRIGGER_SYM, NULL },
	{ "addr", TRIGGER_ADDR, NULL },
	{ "manual", TRIGGER_MANUAL, NULL },
	{ "exit", TRIGGER_EXIT, NULL },
	{ "ret", TRIGGER_RET, "a function returns" },
	{ "lat", TRIGGER_LAT, "a call takes too long" },
	{ "usdt", TRIGGER_USDT, "a static probe is hit" },
	{ "exc", TRIGGER_EXC, "an exception or panic is raised" },
	{ "signal", TRIGGER_SIGNAL, "a signal is delivered" },
	{ "crash", TRIGGER_CRASH, "a fatal signal is delivered" },
	{ "tp", TRIGGER_TP, "a kernel tracepoint is hit" },
	{ "offcpu", TRIGGER_OFFCPU, "a thread is off-CPU too long" },
};

#define EXAMPLES "sym:FUNC, sym:OBJECT!FUNC+0x10, addr:OBJECT+0x1234, manual, exit"

/* Parsing of one text; messages name it. */
struct parser {
	const char *text;
	char *why;
	size_t why_size;
};

__attribute__((format(printf, 2, 3))) static int refuse(const struct parser *parser,
							const char *fmt, ...)
{
	char detail[1024];
	va_list args;

	va_start(args, fmt);
	vsnprintf(detail, sizeof(detail), fmt, args);
	va_end(args);
	snprintf(parser->why, parser->why_size, "trigger '%s': %s", parser->text, detail);
	return -EINVAL;
}

const char *trigger_kind_name(enum trigger_kind kind)
{
	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		if (kinds[i].kind == kind)
			return kinds[i].name;
	}
	return "unknown";
}

static bool is_word(char c)
{
	return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/*
 * Length of a C++ operator's name at @text ("operator,", "operator<<"), whose signs are no brackets
 * or separators; 0 elsewhere. @start begins the whole name.
 */
static size_t operator_length(const char *start, const char *text)
{
	static const char signs[][4] = { "<=>", "<<=", ">>=", "->*", "()", "[]", "->",
					 "<<",  ">>",  "<=",  ">=",  "!=", ",",  "<",
					 ">",   "!",   "++",  "+=",  "+" };
	const size_t word = strlen("operator");
	size_t blanks;

	if (strncmp(text, "operator", word) || (text > start && is_word(text[-1])))
		return 0;
	blanks = strspn(text + word, " ");
	for (size_t i = 0; i < ARRAY_SIZE(signs); i++) {
		if (!strncmp(text + word + blanks, signs[i], strlen(signs[i])))
			return word + blanks + strlen(signs[i]);
	}
	return 0;
}

/*
 * The first (or, with @last, the last) @wanted outside of brackets and operator names; NULL
 * without. *depth is what stays open at the end.
 */
static const char *find_outside(const char *text, char wanted, bool last)
{
	const char *found = NULL;
	int open = 0;

	for (const char *at = text; *at; at++) {
		const size_t skip = operator_length(text, at);

		if (skip) {
			at += skip - 1;
			continue;
		}
		if (at[0] == '-' && at[1] == '>') {
			at++; /* Rust's fn() -> T */
			continue;
		}
		if (*at == wanted && !open) {
			found = at;
			if (!last)
				break;
		}
		if (strchr("(<[{", *at))
			open++;
		else if (strchr(")>]}", *at) && open)
			open--;
	}
	return found;
}

/*
 * Where the conditions begin (at the comma), or the end of the text. Commas in brackets belong to
 * the name, unless a whole condition follows: in a glob brackets need not match, or match the
 * comparison of a condition.
 */
static const char *find_conditions(const char *text)
{
	const char *const outside = find_outside(text, ',', false);

	for (const char *comma = strchr(text, ','); comma; comma = strchr(comma + 1, ',')) {
		if (comma == outside || condition_is_like(comma + 1))
			return comma;
	}
	return text + strlen(text);
}

static int parse_conditions(const struct parser *parser, const char *text, struct trigger *trigger)
{
	unsigned int seen = 0;

	while (*text == ',') {
		const size_t len = strcspn(text + 1, ",");
		scoped_free char *one = strndup(text + 1, len);
		char detail[512];

		if (!one)
			return -ENOMEM;
		if (condition_parse(one, &trigger->config, &seen, detail, sizeof(detail)))
			return refuse(parser, "%s", detail);
		text += 1 + len;
	}
	return 0;
}

/* A whole number, decimal or 0x hexadecimal. */
static bool parse_number(const char *text, uint64_t *value)
{
	const bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	char *end;

	if (!isxdigit((unsigned char)text[hex ? 2 : 0]))
		return false;
	errno = 0;
	*value = strtoull(text, &end, hex ? 16 : 10);
	return !*end && end != text && errno != ERANGE;
}

static char *trimmed(const char *text, size_t len)
{
	while (len && isspace((unsigned char)*text)) {
		text++;
		len--;
	}
	while (len && isspace((unsigned char)text[len - 1]))
		len--;
	return strndup(text, len);
}

/* [OBJECT!]FUNC[+OFF] */
static int parse_sym(const struct parser *parser, const char *spec, struct trigger *trigger)
{
	const char *bang = find_outside(spec, '!', false);
	const char *plus;

	if (bang) {
		trigger->object = trimmed(spec, (size_t)(bang - spec));
		if (!trigger->object)
			return -ENOMEM;
		if (!*trigger->object)
			return refuse(parser,
				      "no object before '!'; write sym:OBJECT!FUNC or sym:FUNC");
		spec = bang + 1;
	}
	plus = find_outside(spec, '+', true);
	if (plus && plus[1] && !isdigit((unsigned char)plus[1]))
		plus = NULL; /* a part of the name */
	if (plus && !parse_number(plus + 1, &trigger->offset))
		return refuse(parser, "'%s' is no offset; write FUNC+16 or FUNC+0x10", plus);
	trigger->function = trimmed(spec, plus ? (size_t)(plus - spec) : strlen(spec));
	if (!trigger->function)
		return -ENOMEM;
	if (!*trigger->function)
		return refuse(parser, "names no function; write for example sym:main");
	return 0;
}

/* OBJECT+0xOFF */
static int parse_addr(const struct parser *parser, const char *spec, struct trigger *trigger)
{
	const char *const plus = strrchr(spec, '+');

	if (!plus || plus == spec || !parse_number(plus + 1, &trigger->offset))
		return refuse(parser,
			      "write addr:OBJECT+0xOFF, OFF being an address as objdump and nm "
			      "show it, as in addr:libc.so.6+0x29d90");
	trigger->object = trimmed(spec, (size_t)(plus - spec));
	return trigger->object ? 0 : -ENOMEM;
}

/*
 * The kind that @text begins with, and in *spec what follows its colon; a bare name is a sym:.
 * Kinds that need no colon (exit) leave *spec empty or at what should not be there.
 */
static int parse_kind(const struct parser *parser, const char *text, size_t *kind,
		      const char **spec)
{
	const size_t word = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
	const char after = text[word];
	const bool named = after == ':' && text[word + 1] != ':';

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		const bool alone = kinds[i].kind == TRIGGER_MANUAL ||
				   kinds[i].kind == TRIGGER_EXIT || kinds[i].kind == TRIGGER_CRASH;
		const bool compared = kinds[i].kind == TRIGGER_OFFCPU;

		if (strncmp(text, kinds[i].name, word) || strlen(kinds[i].name) != word)
			continue;
		if (!named && !(alone && (!after || after == ',')) && !(compared && after == '>'))
			continue;
		*kind = i;
		*spec = text + word + named;
		return 0;
	}
	if (named)
		return refuse(parser,
			      "'%.*s' is not a kind of trigger; known are " EXAMPLES
			      " (a bare name means sym:NAME)",
			      (int)word, text);
	*kind = 0; /* sym */
	*spec = text;
	return 0;
}

static int parse(const struct parser *parser, struct trigger *trigger)
{
	scoped_free char *head = NULL;
	const char *spec = NULL, *conditions;
	size_t kind = 0;
	int err;

	if (!parser->text[strspn(parser->text, " \t")])
		return refuse(parser, "empty; write one as " EXAMPLES);
	err = parse_kind(parser, parser->text, &kind, &spec);
	if (err)
		return err;
	trigger->kind = kinds[kind].kind;
	trigger->spec = strdup(parser->text);
	if (!trigger->spec)
		return -ENOMEM;
	if (kinds[kind].means) {
		refuse(parser,
		       "%s: triggers (%s) are not evaluated by this version; what is: " EXAMPLES,
		       kinds[kind].name, kinds[kind].means);
		return -EOPNOTSUPP;
	}
	conditions = find_conditions(spec);
	if (trigger->kind == TRIGGER_MANUAL || trigger->kind == TRIGGER_EXIT) {
		if (*spec)
			return refuse(parser,
				      "'%s' takes nothing after it; a function of that name is "
				      "sym:%s",
				      kinds[kind].name, kinds[kind].name);
		return 0;
	}
	head = strndup(spec, (size_t)(conditions - spec));
	if (!head)
		return -ENOMEM;
	err = trigger->kind == TRIGGER_SYM ? parse_sym(parser, head, trigger) :
					     parse_addr(parser, head, trigger);
	return err ? err : parse_conditions(parser, conditions, trigger);
}

int trigger_parse(const char *text, struct trigger *trigger, char *why, size_t why_size)
{
	const struct parser parser = { .text = text, .why = why, .why_size = why_size };
	int err;

	*trigger = (struct trigger){};
	if (why_size)
		why[0] = '\0';
	err = parse(&parser, trigger);
	if (err)
		trigger_fini(trigger);
	return err;
}

void trigger_fini(struct trigger *trigger)
{
	free(trigger->spec);
	free(trigger->object);
	free(trigger->function);
	*trigger = (struct trigger){};
}
