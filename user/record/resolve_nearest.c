// SPDX-License-Identifier: GPL-2.0-only
/* The nearest names for one that was not found. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "record/resolve.h"

#define MAX_NAME 256
#define FAR UINT_MAX
#define CONTAINS 3 /* distance of a name that contains the wanted one, before its length counts */

/* Cuts @name before its parameter list; "(anonymous namespace)" and "operator()" stay. */
static size_t bare_length(const char *name)
{
	const char *at = name;

	while ((at = strchr(at, '('))) {
		if (at > name && strncmp(at, "(anonymous", 10) &&
		    !(at - name >= 8 && !strncmp(at - 8, "operator", 8)))
			return (size_t)(at - name);
		at++;
	}
	return strlen(name);
}

/* What is behind the last "::" outside of template arguments. */
static const char *last_part(const char *name, size_t len)
{
	const char *part = name;
	int open = 0;

	for (size_t i = 0; i + 1 < len; i++) {
		open += name[i] == '<' ? 1 : name[i] == '>' ? -1 : 0;
		if (open <= 0 && name[i] == ':' && name[i + 1] == ':')
			part = name + i + 2;
	}
	return part;
}

static int lower(char c)
{
	return tolower((unsigned char)c);
}

/* Edits (insert, drop, change, swap of neighbours) from one to the other; above @limit: limit + 1.
 */
static unsigned int edit_distance(const char *a, size_t n, const char *b, size_t m,
				  unsigned int limit)
{
	unsigned int rows[3][MAX_NAME + 1], *before = rows[0], *last = rows[1], *row = rows[2];

	if (n > MAX_NAME || m > MAX_NAME || (n > m ? n - m : m - n) > limit)
		return limit + 1;
	for (size_t j = 0; j <= m; j++)
		last[j] = (unsigned int)j;
	for (size_t i = 1; i <= n; i++) {
		unsigned int best = row[0] = (unsigned int)i, *swap;

		for (size_t j = 1; j <= m; j++) {
			unsigned int cost = last[j - 1] + (lower(a[i - 1]) != lower(b[j - 1]));

			if (last[j] + 1 < cost)
				cost = last[j] + 1;
			if (row[j - 1] + 1 < cost)
				cost = row[j - 1] + 1;
			if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
			    lower(a[i - 2]) == lower(b[j - 1]) && before[j - 2] + 1 < cost)
				cost = before[j - 2] + 1;
			row[j] = cost;
			if (cost < best)
				best = cost;
		}
		if (best > limit)
			return limit + 1;
		swap = before;
		before = last;
		last = row;
		row = swap;
	}
	return last[m] > limit ? limit + 1 : last[m];
}

static bool contains(const char *name, size_t len, const char *part, size_t part_len)
{
	for (size_t i = 0; part_len && i + part_len <= len; i++) {
		if (!strncasecmp(name + i, part, part_len))
			return true;
	}
	return false;
}

/* How far a name is from the wanted one; FAR: of no interest. */
static unsigned int distance_to(const char *wanted, const char *name, size_t len)
{
	const size_t wanted_len = strlen(wanted);
	const unsigned int limit = wanted_len < 6 ? 2 : (unsigned int)wanted_len / 3;
	const unsigned int edits = edit_distance(wanted, wanted_len, name, len, limit);
	unsigned int inside = FAR;

	if (wanted_len >= 3 && len >= wanted_len && contains(name, len, wanted, wanted_len))
		inside = CONTAINS + (unsigned int)(len - wanted_len) / 4;
	if (edits <= limit && edits < inside)
		return edits;
	return inside;
}

/* Keeps @name (a copy) if it is among the best. */
static int keep(struct resolve_nearest *nearest, const char *name, size_t len,
		unsigned int distance)
{
	size_t at = nearest->n;
	char *copy;

	for (size_t i = 0; i < nearest->n; i++) {
		if (strlen(nearest->names[i]) == len && !strncmp(nearest->names[i], name, len))
			return 0;
	}
	while (at && nearest->distance[at - 1] > distance)
		at--;
	if (at == RESOLVE_NEAREST)
		return 0;
	copy = strndup(name, len);
	if (!copy)
		return -ENOMEM;
	if (nearest->n == RESOLVE_NEAREST)
		free(nearest->names[--nearest->n]);
	memmove(nearest->names + at + 1, nearest->names + at,
		(nearest->n - at) * sizeof(*nearest->names));
	memmove(nearest->distance + at + 1, nearest->distance + at,
		(nearest->n - at) * sizeof(*nearest->distance));
	nearest->names[at] = copy;
	nearest->distance[at] = distance;
	nearest->n++;
	return 0;
}

static int consider(struct resolve_nearest *nearest, const char *wanted,
		    const struct symbol *symbol)
{
	const char *const name = symbol->demangled;
	const size_t len = bare_length(name);
	const char *const part = last_part(name, len);
	unsigned int whole, tail;

	if (strchr(symbol->name, '@') || !len)
		return 0; /* PLT slots */
	whole = distance_to(wanted, name, len);
	tail = part == name ? whole : distance_to(wanted, part, len - (size_t)(part - name));
	if (tail < whole)
		whole = tail;
	return whole == FAR ? 0 : keep(nearest, name, len, whole);
}

/* The wanted name without wildcards and parameters. */
static void plain_name(const char *pattern, char *plain)
{
	const size_t len = bare_length(pattern);
	size_t n = 0;

	for (size_t i = 0; i < len && n < MAX_NAME; i++) {
		if (!strchr("*?[]", pattern[i]))
			plain[n++] = pattern[i];
	}
	plain[n] = '\0';
}

int resolve_nearest_add(struct resolve_nearest *nearest, const struct trigger *trigger,
			const struct object *object)
{
	char wanted[MAX_NAME + 1];
	const struct symbol *symbols;
	size_t n;

	if (trigger->kind != TRIGGER_SYM || !trigger->function)
		return 0;
	plain_name(trigger->function, wanted);
	n = object_symbols(object, &symbols);
	for (size_t i = 0; i < n; i++) {
		const int err = consider(nearest, wanted, &symbols[i]);

		if (err)
			return err;
	}
	return 0;
}

const char *resolve_nearest_text(const struct resolve_nearest *nearest, char *buf, size_t buf_size)
{
	size_t used = 0;

	if (buf_size)
		buf[0] = '\0';
	for (size_t i = 0; i < nearest->n && used < buf_size; i++)
		used += (size_t)snprintf(buf + used, buf_size - used, "%s%s",
					 i ? ", " : "nearest names: ", nearest->names[i]);
	return buf;
}

void resolve_nearest_fini(struct resolve_nearest *nearest)
{
	for (size_t i = 0; i < nearest->n; i++)
		free(nearest->names[i]);
	*nearest = (struct resolve_nearest){};
}
