/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The function symbols of one object: gathered as candidates, then finished into a sorted table
 * with one flat range per stretch of code. Pure; knows nothing of ELF. Internal to image/.
 */
#ifndef PTBPF_IMAGE_SYMBOLS_H
#define PTBPF_IMAGE_SYMBOLS_H

#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "image/object.h"

/* Strings that live as long as the table. */
struct string_arena {
	VEC(char *) blocks;
	size_t used, cap; /* of the last block */
};

void arena_fini(struct string_arena *arena);
/* Uninitialised room; NULL: no memory. */
char *arena_alloc(struct string_arena *arena, size_t size);
/* PREFIX SUFFIX as one string; NULL: no memory. */
const char *arena_join(struct string_arena *arena, const char *prefix, size_t prefix_len,
		       const char *suffix);

enum symbol_binding { SYMBOL_GLOBAL, SYMBOL_WEAK, SYMBOL_LOCAL };

struct symbol_candidate {
	uint64_t start, size;
	const char *name;
	uint32_t order; /* of addition, so that equals stay as they came */
	uint8_t binding;
	bool is_ifunc;
};

/* Where code lies: symbols outside are dropped, sizes are cut and stretched to the end. */
struct code_region {
	uint64_t start, end;
};

struct symbol_range {
	uint64_t start, end;
	uint32_t symbol;
};

struct symbol_table {
	struct symbol *symbols; /* by start; of one start, the preferred name first */
	size_t n;
	struct symbol_range *ranges; /* disjoint, by start; the innermost symbol wins */
	size_t n_ranges;
	struct string_arena strings; /* owns all names */
};

struct symbol_builder {
	VEC(struct symbol_candidate) candidates;
	VEC(struct code_region) regions; /* segments first, then sections: the last match counts */
	struct string_arena strings;
};

void symbols_builder_fini(struct symbol_builder *builder);
/* @name must live in builder->strings. 0, -ENOMEM. */
int symbols_add(struct symbol_builder *builder, uint64_t start, uint64_t size, const char *name,
		enum symbol_binding binding, bool is_ifunc);
/* Sorts, prefers, stretches, flattens. The strings move to the table. 0, -ENOMEM. */
int symbols_finish(struct symbol_builder *builder, struct symbol_table *table);
void symbols_table_fini(struct symbol_table *table);

/* Index of the symbol that covers @address, -1 without. */
ptrdiff_t symbols_find(const struct symbol_table *table, uint64_t address);

/*
 * Fills symbol->demangled if that was not done yet; safe from several threads. @symbol itself.
 * Names that do not demangle, and any failure, leave the plain name.
 */
const struct symbol *symbols_demangle(struct symbol *symbol);

#endif
