// SPDX-License-Identifier: GPL-2.0-only
/*
 * Prints what an object's reader makes of a file: object_dump FILE [PATTERN...]; with patterns only
 * the symbols that match.
 * links: image/object image/symbols image/symtab image/plt image/match
 * links: image/debug_file image/demangle
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "image/object.h"

static int print_symbol(void *ctx, const struct symbol *symbol)
{
	(void)ctx;
	printf("%" PRIx64 " %" PRIx64 " %s\t%s\n", symbol->start, symbol->size, symbol->name,
	       symbol->demangled);
	return 0;
}

int main(int argc, char **argv)
{
	const struct symbol *symbols;
	struct object *object;
	int err;
	size_t n;

	if (argc < 2)
		return 2;
	err = object_open(argv[1], &object);
	if (err) {
		printf("%s\n", strerror(-err));
		return 1;
	}
	for (int i = 2; i < argc; i++) {
		if (!strcmp(argv[i], "--quiet"))
			return 0;
		object_match(object, argv[i], print_symbol, NULL);
	}
	n = argc == 2 ? object_symbols(object, &symbols) : 0;
	for (size_t i = 0; i < n; i++)
		print_symbol(NULL, &symbols[i]);
	object_close(object);
	return 0;
}
