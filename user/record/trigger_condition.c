// SPDX-License-Identifier: GPL-2.0-only
#include "record/trigger_condition.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "base/mem.h"

/* A condition cut into its three parts; @value without leading and trailing blanks. */
struct parts {
	char name[16];
	uint32_t op;
	char op_text[3];
	char value[256];
};

static const struct {
	char text[3];
	uint32_t op;
} operators[] = {
	/* the longer ones first */
	{ "==", PTBPF_OP_EQ }, { "!=", PTBPF_OP_NE }, { "<=", PTBPF_OP_LE }, { ">=", PTBPF_OP_GE },
	{ "=", PTBPF_OP_EQ },  { "<", PTBPF_OP_LT },  { ">", PTBPF_OP_GT },
};

enum {
	SEEN_TID = 1,
	SEEN_COMM = 2,
	SEEN_AFTER = 4,
	SEEN_EVERY = 8,
	SEEN_RATE = 16,
	SEEN_SAMPLE = 32
};

#define KNOWN \
	"conditions are argN OP VALUE, tid=N, comm=NAME, after=N, every=N, rate=N/TIME, sample=P"

static const char *skip_blanks(const char *text)
{
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

/* Cuts "NAME OP VALUE"; false when there is no operator after a short enough word. */
static bool cut(const char *text, struct parts *parts)
{
	size_t n = 0;

	text = skip_blanks(text);
	while (isalnum((unsigned char)text[n]) || text[n] == '_')
		n++;
	if (!n || n >= sizeof(parts->name))
		return false;
	memcpy(parts->name, text, n);
	parts->name[n] = '\0';
	text = skip_blanks(text + n);
	for (size_t i = 0; i < ARRAY_SIZE(operators); i++) {
		const size_t len = strlen(operators[i].text);

		if (strncmp(text, operators[i].text, len))
			continue;
		parts->op = operators[i].op;
		memcpy(parts->op_text, operators[i].text, len + 1);
		text = skip_blanks(text + len);
		n = strlen(text);
		while (n && isspace((unsigned char)text[n - 1]))
			n--;
		if (n >= sizeof(parts->value))
			return false;
		memcpy(parts->value, text, n);
		parts->value[n] = '\0';
		return true;
	}
	return false;
}

static bool is_argument(const char *name)
{
	return !strncmp(name, "arg", 3) && isdigit((unsigned char)name[3]);
}

bool condition_is_like(const char *text)
{
	static const char words[][8] = { "tid", "comm", "after", "every", "rate", "sample" };
	struct parts parts;

	if (!cut(text, &parts))
		return false;
	parts.value[strcspn(parts.value, ",")] = '\0';
	if (strpbrk(parts.value, "()<>[]{}:"))
		return false; /* rather a piece of a name: Pair<int, arg0>::f() */
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (!strcmp(parts.name, words[i]))
			return true;
	}
	return is_argument(parts.name);
}

/* Decimal or 0x hexadecimal, the whole text. 0, -EINVAL, -ERANGE. */
static int parse_unsigned(const char *text, __u64 *value)
{
	const bool hex = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	char *end;

	if (!isxdigit((unsigned char)text[hex ? 2 : 0]))
		return -EINVAL;
	errno = 0;
	*value = strtoull(text, &end, hex ? 16 : 10);
	if (*end || end == text)
		return -EINVAL;
	return errno == ERANGE ? -ERANGE : 0;
}

static int parse_argument_value(const char *text, __u64 *value, bool *negative)
{
	int err;

	*negative = *text == '-';
	err = parse_unsigned(*negative ? text + 1 : text, value);
	if (err || !*negative)
		return err;
	if (*value > 1ull << 63)
		return -ERANGE;
	*value = -*value;
	return 0;
}

static int parse_arg(const struct parts *parts, struct ptbpf_trigger *config, char *why, size_t n)
{
	struct ptbpf_condition *const condition = &config->conditions[config->n_conditions];
	__u64 index;
	bool negative;
	int err;

	if (parse_unsigned(parts->name + 3, &index) || index > 5) {
		snprintf(why, n, "%s: the arguments are arg0 to arg5 (rdi rsi rdx rcx r8 r9)",
			 parts->name);
		return -EINVAL;
	}
	if (config->n_conditions == PTBPF_MAX_CONDITIONS) {
		snprintf(why, n, "at most %d argument conditions fit in one trigger",
			 PTBPF_MAX_CONDITIONS);
		return -EINVAL;
	}
	err = parse_argument_value(parts->value, &condition->value, &negative);
	if (err) {
		snprintf(why, n, "%s%s%s: %s", parts->name, parts->op_text, parts->value,
			 err == -ERANGE ? "the value does not fit in 64 bits" :
					  "compare with a number: decimal, 0x hexadecimal, or "
					  "negative");
		return -EINVAL;
	}
	/* Unsigned, these two would be never and always. */
	if (!condition->value && (parts->op == PTBPF_OP_LT || parts->op == PTBPF_OP_GE))
		negative = true;
	condition->arg = (uint32_t)index;
	condition->op = parts->op | (negative ? PTBPF_OP_SIGNED : 0);
	config->n_conditions++;
	return 0;
}

static int parse_tid(const char *value, struct ptbpf_trigger *config, char *why, size_t n)
{
	__u64 tid;

	if (parse_unsigned(value, &tid) || !tid || tid > INT_MAX) {
		snprintf(why, n, "tid=%s: not a thread id", value);
		return -EINVAL;
	}
	config->tid = (uint32_t)tid;
	config->flags |= PTBPF_TRIGGER_HAS_TID;
	return 0;
}

static int parse_comm(const char *value, struct ptbpf_trigger *config, char *why, size_t n)
{
	const size_t len = strlen(value);

	if (!len) {
		snprintf(why, n, "comm= needs a thread's name");
		return -EINVAL;
	}
	if (len >= PTBPF_COMM_LEN) {
		snprintf(why, n,
			 "comm=%s: the kernel keeps %d bytes of a thread's name; write comm=%.*s",
			 value, PTBPF_COMM_LEN - 1, PTBPF_COMM_LEN - 1, value);
		return -EINVAL;
	}
	memcpy(config->comm, value, len);
	config->flags |= PTBPF_TRIGGER_HAS_COMM;
	return 0;
}

static int parse_count(const struct parts *parts, __u64 min, __u64 *count, char *why, size_t n)
{
	if (!parse_unsigned(parts->value, count) && *count >= min)
		return 0;
	snprintf(why, n, "%s=%s: needs a whole number from %llu on", parts->name, parts->value,
		 min);
	return -EINVAL;
}

static int parse_rate(const char *value, struct ptbpf_trigger *config, char *why, size_t n)
{
	const char *const slash = strchr(value, '/');
	int64_t window = 0;
	char count[32];

	if (slash && (size_t)(slash - value) < sizeof(count)) {
		memcpy(count, value, (size_t)(slash - value));
		count[slash - value] = '\0';
		/* "10/s" is read as "10/1s" */
		if (isalpha((unsigned char)slash[1])) {
			char one[16];

			snprintf(one, sizeof(one), "1%s", slash + 1);
			if (duration_parse(one, &window))
				window = 0;
		} else if (duration_parse(slash + 1, &window)) {
			window = 0;
		}
	}
	if (window <= 0 || parse_unsigned(count, &config->rate_count)) {
		snprintf(why, n,
			 "rate=%s: write it as rate=N/TIME, as in rate=10/1s or rate=1/500ms",
			 value);
		return -EINVAL;
	}
	if (!config->rate_count || config->rate_count > PTBPF_MAX_RATE) {
		snprintf(why, n, "rate=%s: from 1 to %d fires in the time", value, PTBPF_MAX_RATE);
		return -EINVAL;
	}
	config->rate_ns = (uint64_t)window;
	return 0;
}

static int parse_sample(const char *value, struct ptbpf_trigger *config, char *why, size_t n)
{
	double share;
	char *end;

	share = isdigit((unsigned char)*value) || *value == '.' ? strtod(value, &end) : -1;
	if (share >= 0 && !strcmp(end, "%"))
		share /= 100;
	else if (share >= 0 && *end)
		share = -1;
	if (!(share >= 0 && share <= 1)) {
		snprintf(why, n, "sample=%s: a probability from 0 to 1, or as in sample=5%%",
			 value);
		return -EINVAL;
	}
	config->sample_ppm = (uint32_t)lround(share * 1e6);
	if (!config->sample_ppm) {
		snprintf(why, n,
			 "sample=%s: would never fire; at least one in a million: "
			 "sample=0.000001",
			 value);
		return -EINVAL;
	}
	config->flags |= PTBPF_TRIGGER_HAS_SAMPLE;
	return 0;
}

/* The bit of a keyword, 0 for another word. */
static unsigned int keyword(const char *name)
{
	static const struct {
		char name[8];
		unsigned int bit;
	} keywords[] = {
		{ "tid", SEEN_TID },     { "comm", SEEN_COMM }, { "after", SEEN_AFTER },
		{ "every", SEEN_EVERY }, { "rate", SEEN_RATE }, { "sample", SEEN_SAMPLE },
	};

	for (size_t i = 0; i < ARRAY_SIZE(keywords); i++) {
		if (!strcmp(name, keywords[i].name))
			return keywords[i].bit;
	}
	return 0;
}

int condition_parse(const char *text, struct ptbpf_trigger *config, unsigned int *seen, char *why,
		    size_t why_size)
{
	struct parts parts = {};
	unsigned int bit;

	if (!cut(text, &parts)) {
		snprintf(why, why_size, "'%s' is not a condition; " KNOWN, skip_blanks(text));
		return -EINVAL;
	}
	if (is_argument(parts.name))
		return parse_arg(&parts, config, why, why_size);
	bit = keyword(parts.name);
	if (!bit) {
		snprintf(why, why_size, "'%s' is not a condition; " KNOWN, parts.name);
		return -EINVAL;
	}
	if (parts.op != PTBPF_OP_EQ) {
		snprintf(why, why_size, "%s%s%s: only %s=... is possible", parts.name,
			 parts.op_text, parts.value, parts.name);
		return -EINVAL;
	}
	if (*seen & bit) {
		snprintf(why, why_size, "%s= is given twice; use a trigger for each", parts.name);
		return -EINVAL;
	}
	*seen |= bit;
	switch (bit) {
	case SEEN_TID:
		return parse_tid(parts.value, config, why, why_size);
	case SEEN_COMM:
		return parse_comm(parts.value, config, why, why_size);
	case SEEN_AFTER:
		return parse_count(&parts, 0, &config->after, why, why_size);
	case SEEN_EVERY:
		return parse_count(&parts, 1, &config->every, why, why_size);
	case SEEN_RATE:
		return parse_rate(parts.value, config, why, why_size);
	default:
		return parse_sample(parts.value, config, why, why_size);
	}
}

bool condition_holds(const struct ptbpf_condition *condition, uint64_t value)
{
	const bool is_signed = condition->op & PTBPF_OP_SIGNED;
	const uint64_t want = condition->value;
	int order; /* of value to want */

	if (is_signed && value >> 31 == 1)
		value |= 0xffffffff00000000ull;
	if (value == want)
		order = 0;
	else if (is_signed)
		order = (int64_t)value < (int64_t)want ? -1 : 1;
	else
		order = value < want ? -1 : 1;
	switch (condition->op & ~PTBPF_OP_SIGNED) {
	case PTBPF_OP_EQ:
		return order == 0;
	case PTBPF_OP_NE:
		return order != 0;
	case PTBPF_OP_LT:
		return order < 0;
	case PTBPF_OP_LE:
		return order <= 0;
	case PTBPF_OP_GT:
		return order > 0;
	case PTBPF_OP_GE:
		return order >= 0;
	default:
		return false;
	}
}
