// SPDX-License-Identifier: GPL-2.0-only
#include "image/match.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "image/demangle.h"

struct match {
	const char *pattern;
	bool glob;
	bool plt;      /* the pattern asks for PLT slots */
	char hint[64]; /* must stand in a mangled name that matches; empty: unknown */
};

static bool equals(const struct match *match, const char *name)
{
	return match->glob ? !fnmatch(match->pattern, name, FNM_NOESCAPE) :
			     !strcmp(match->pattern, name);
}

/* Class names that the Itanium ABI abbreviates: they do not stand in the mangled name. */
static bool is_abbreviated(const char *word, size_t len)
{
	static const char *const words[] = { "allocator",     "basic_string",   "string",
					     "basic_istream", "istream",        "basic_ostream",
					     "ostream",       "basic_iostream", "iostream" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		if (strlen(words[i]) == len && !memcmp(words[i], word, len))
			return true;
	}
	return false;
}

/*
 * Demangling every symbol of a large program takes a second. When the last part of the pattern is a
 * plain identifier, only the names that contain it need be looked at.
 */
static void find_hint(struct match *match)
{
	const char *word = match->pattern;
	size_t len;

	for (;;) {
		len = 0;
		while (isalnum((unsigned char)word[len]) || word[len] == '_')
			len++;
		if (!len || strncmp(word + len, "::", 2))
			break;
		word += len + 2;
	}
	if (!len || (word[len] && word[len] != '(') || len >= sizeof(match->hint) ||
	    isdigit((unsigned char)*word) || is_abbreviated(word, len) ||
	    !strncmp(word, "operator", strlen("operator")))
		return;
	memcpy(match->hint, word, len);
	match->hint[len] = 0;
}

/* Compilers clone functions (foo.constprop.0) and split them (foo.cold); a split is not foo. */
static bool is_split(const char *name)
{
	return strstr(name, ".cold") || strstr(name, ".part.");
}

static bool equals_clone(const struct match *match, const char *name)
{
	const char *dot = strchr(name, '.');
	char base[256];

	if (!dot || match->glob || dot == name || (size_t)(dot - name) >= sizeof(base))
		return false;
	memcpy(base, name, dot - name);
	base[dot - name] = 0;
	return equals(match, base);
}

static bool matches(const struct match *match, struct symbol *symbol)
{
	scoped_free char *bare = NULL;
	const char *at = strchr(symbol->name, '@');

	if (!match->plt && at && !strcmp(at, "@plt"))
		return false;
	if (equals(match, symbol->name))
		return true;
	if (!is_split(symbol->name) && equals_clone(match, symbol->name))
		return true;
	if (!demangle_maybe(symbol->name) || (*match->hint && !strstr(symbol->name, match->hint)))
		return false;
	if (symbols_demangle(symbol)->demangled == symbol->name)
		return false;
	if (equals(match, symbol->demangled))
		return true;
	bare = is_split(symbol->name) ? NULL : demangle_name(symbol->name, false);
	return bare && equals(match, bare);
}

static int match_all(const struct match *match, const struct symbol_table *table,
		     object_match_fn fn, void *ctx, bool *any)
{
	bool reported = false;
	int err;

	for (size_t i = 0; i < table->n; i++) {
		if (i && table->symbols[i].start != table->symbols[i - 1].start)
			reported = false;
		if (reported || !matches(match, &table->symbols[i]))
			continue;
		reported = *any = true;
		err = fn(ctx, symbols_demangle(&table->symbols[i]));
		if (err)
			return err;
	}
	return 0;
}

int symbols_match(const struct symbol_table *table, const char *pattern, object_match_fn fn,
		  void *ctx)
{
	struct match match = { .pattern = pattern, .plt = strstr(pattern, "@plt") };
	bool any = false;
	int err;

	find_hint(&match);
	err = match_all(&match, table, fn, ctx, &any);
	/* "operator*" and "x [clone .cold]" are names before they are globs. */
	if (err || any || !strpbrk(pattern, "*?["))
		return err;
	match.glob = true;
	match.hint[0] = 0;
	return match_all(&match, table, fn, ctx, &any);
}
