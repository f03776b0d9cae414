// SPDX-License-Identifier: GPL-2.0-only
#include "image/symbols.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "image/demangle.h"

#define ARENA_BLOCK 65536

void arena_fini(struct string_arena *arena)
{
	char **block;

	vec_for_each(block, &arena->blocks)
		free(*block);
	vec_free(&arena->blocks);
	arena->used = arena->cap = 0;
}

char *arena_alloc(struct string_arena *arena, size_t size)
{
	size_t cap = size > ARENA_BLOCK / 4 ? size : ARENA_BLOCK;
	char *block;

	if (size <= arena->cap - arena->used) {
		block = arena->blocks.data[arena->blocks.len - 1] + arena->used;
		arena->used += size;
		return block;
	}
	block = malloc(cap);
	if (!block)
		return NULL;
	if (vec_push(&arena->blocks, block)) {
		free(block);
		return NULL;
	}
	arena->cap = cap;
	arena->used = size;
	return block;
}

const char *arena_join(struct string_arena *arena, const char *prefix, size_t prefix_len,
		       const char *suffix)
{
	size_t suffix_len = strlen(suffix);
	char *joined = arena_alloc(arena, prefix_len + suffix_len + 1);

	if (!joined)
		return NULL;
	memcpy(joined, prefix, prefix_len);
	memcpy(joined + prefix_len, suffix, suffix_len + 1);
	return joined;
}

void symbols_builder_fini(struct symbol_builder *builder)
{
	vec_free(&builder->candidates);
	vec_free(&builder->regions);
	arena_fini(&builder->strings);
}

/* End of the code region that holds @start; 0: none does. */
static uint64_t region_end(const struct symbol_builder *builder, uint64_t start)
{
	for (size_t i = builder->regions.len; i-- > 0;) {
		const struct code_region *region = &builder->regions.data[i];

		if (start >= region->start && start < region->end)
			return region->end;
	}
	return 0;
}

int symbols_add(struct symbol_builder *builder, uint64_t start, uint64_t size, const char *name,
		enum symbol_binding binding, bool is_ifunc)
{
	uint64_t end = region_end(builder, start);
	struct symbol_candidate candidate = {
		.start = start,
		.size = size,
		.name = name,
		.order = (uint32_t)builder->candidates.len,
		.binding = binding,
		.is_ifunc = is_ifunc,
	};

	if (!end || !*name || builder->candidates.len >= UINT32_MAX)
		return 0;
	if (size > end - start)
		candidate.size = end - start;
	return vec_push(&builder->candidates, candidate);
}

static size_t underscores(const char *name)
{
	return strspn(name, "_");
}

static int compare_candidates(const void *a_, const void *b_)
{
	const struct symbol_candidate *a = a_, *b = b_;
	size_t under_a, under_b, len_a, len_b;

	if (a->start != b->start)
		return a->start < b->start ? -1 : 1;
	if (!a->size != !b->size)
		return a->size ? -1 : 1;
	if (a->binding != b->binding)
		return a->binding < b->binding ? -1 : 1;
	under_a = underscores(a->name);
	under_b = underscores(b->name);
	if (under_a != under_b)
		return under_a < under_b ? -1 : 1;
	/* nextafter, not nextafterf32x: what people call it, and type after a trigger's sym: */
	len_a = strlen(a->name);
	len_b = strlen(b->name);
	if (len_a != len_b)
		return len_a < len_b ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

/* Of one start, a name once: .dynsym and .symtab mostly say the same. */
static void drop_duplicates(struct symbol_builder *builder)
{
	struct symbol_candidate *data = builder->candidates.data;
	size_t kept = 0, group = 0;

	for (size_t i = 0; i < builder->candidates.len; i++) {
		bool known = false;

		if (kept && data[i].start != data[group].start)
			group = kept;
		/* A hostile table may give one address a million names: compare with a few. */
		for (size_t j = kept; j > group && kept - j < 64 && !known; j--)
			known = !strcmp(data[j - 1].name, data[i].name);
		if (!known)
			data[kept++] = data[i];
	}
	builder->candidates.len = kept;
}

/* Gives symbols without a size the room up to the next one. */
static void stretch(struct symbol_builder *builder, struct symbol *symbols)
{
	size_t n = builder->candidates.len;
	uint64_t next = UINT64_MAX, start = UINT64_MAX;

	for (size_t i = n; i-- > 0;) {
		uint64_t end;

		if (symbols[i].start != start) {
			next = start;
			start = symbols[i].start;
		}
		if (symbols[i].size)
			continue;
		end = region_end(builder, start);
		symbols[i].size = (next < end ? next : end) - start;
	}
}

struct flatten {
	struct symbol_range *ranges, *stack;
	size_t n, depth;
	uint64_t pos;
};

/* Closes what ends at or before @limit, and gives the innermost open one the room up to it. */
static void flatten_to(struct flatten *flat, uint64_t limit)
{
	while (flat->depth && flat->pos < limit) {
		const struct symbol_range *top = &flat->stack[flat->depth - 1];
		uint64_t end = top->end < limit ? top->end : limit;

		if (flat->pos < end) {
			flat->ranges[flat->n++] =
				(struct symbol_range){ flat->pos, end, top->symbol };
			flat->pos = end;
		}
		if (top->end <= limit)
			flat->depth--;
	}
	flat->pos = limit;
}

static int flatten_symbols(const struct symbol_builder *builder, struct symbol_table *table)
{
	scoped_free struct symbol_range *stack = NULL;
	struct flatten flat = { 0 };

	/* Each symbol ends at most one range that is not its own and opens one. */
	table->ranges = calloc(2 * table->n + 1, sizeof(*table->ranges));
	stack = calloc(table->n + 1, sizeof(*stack));
	if (!table->ranges || !stack)
		return -ENOMEM;
	flat.ranges = table->ranges;
	flat.stack = stack;
	for (size_t i = 0; i < table->n; i++) {
		const struct symbol *symbol = &table->symbols[i];

		if (i && table->symbols[i - 1].start == symbol->start)
			continue;
		flatten_to(&flat, symbol->start);
		while (flat.depth && flat.stack[flat.depth - 1].end <= symbol->start)
			flat.depth--;
		/* A label inside a function does not cut it in two. */
		if (flat.depth && !builder->candidates.data[i].size)
			continue;
		flat.stack[flat.depth++] =
			(struct symbol_range){ symbol->start, symbol->start + symbol->size,
					       (uint32_t)i };
	}
	flatten_to(&flat, UINT64_MAX);
	table->n_ranges = flat.n;
	return 0;
}

int symbols_finish(struct symbol_builder *builder, struct symbol_table *table)
{
	size_t n;

	memset(table, 0, sizeof(*table));
	if (builder->candidates.len)
		qsort(builder->candidates.data, builder->candidates.len,
		      sizeof(*builder->candidates.data), compare_candidates);
	drop_duplicates(builder);
	n = builder->candidates.len;
	table->symbols = calloc(n + 1, sizeof(*table->symbols));
	if (!table->symbols)
		return -ENOMEM;
	table->n = n;
	for (size_t i = 0; i < n; i++) {
		const struct symbol_candidate *from = &builder->candidates.data[i];

		table->symbols[i] = (struct symbol){ from->start, from->size, from->name, NULL,
						     from->is_ifunc };
	}
	stretch(builder, table->symbols);
	if (flatten_symbols(builder, table)) {
		symbols_table_fini(table);
		return -ENOMEM;
	}
	table->strings = builder->strings;
	builder->strings = (struct string_arena){ 0 };
	return 0;
}

void symbols_table_fini(struct symbol_table *table)
{
	for (size_t i = 0; i < table->n; i++) {
		if (table->symbols[i].demangled != table->symbols[i].name)
			free((char *)table->symbols[i].demangled);
	}
	free(table->symbols);
	free(table->ranges);
	arena_fini(&table->strings);
	memset(table, 0, sizeof(*table));
}

ptrdiff_t symbols_find(const struct symbol_table *table, uint64_t address)
{
	size_t low = 0, high = table->n_ranges;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (table->ranges[mid].start <= address)
			low = mid + 1;
		else
			high = mid;
	}
	if (!low || address >= table->ranges[low - 1].end)
		return -1;
	return table->ranges[low - 1].symbol;
}

const struct symbol *symbols_demangle(struct symbol *symbol)
{
	const char *name, *expected = NULL;

	if (__atomic_load_n(&symbol->demangled, __ATOMIC_ACQUIRE))
		return symbol;
	name = demangle_name(symbol->name, true);
	if (!name)
		name = symbol->name;
	if (!__atomic_compare_exchange_n(&symbol->demangled, &expected, name, false,
					 __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE) &&
	    name != symbol->name)
		free((char *)name);
	return symbol;
}
