// SPDX-License-Identifier: GPL-2.0-only
#include "record/soft/block_mem.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"

#define PAGE 4096
#define WORDS (PAGE / 8)
#define MAX_PAGES 64
#define SLOTS 256
#define MAX_CLOBBER PAGE
#define WHOLE_PAGE UINT16_MAX

/* Bit i of known[w], stable[w], constant[w] is about byte 8 * w + i. */
struct page {
	uint64_t addr;
	uint64_t data[WORDS];
	uint8_t known[WORDS];
	uint8_t stable[WORDS];    /* a store of a known value makes it known */
	uint8_t constant[WORDS];  /* survives stores to unknown places */
	uint8_t untouched[WORDS]; /* no planned store went there */
	uint32_t generation;
};

struct undo {
	uint64_t data;
	uint16_t page;
	uint16_t word; /* WHOLE_PAGE: data is an index into saved */
	uint8_t known, untouched;
};

struct saved_page {
	uint32_t generation;
	uint8_t known[WORDS], untouched[WORDS];
};

struct block_mem {
	VEC(struct block_region) regions; /* sorted, disjoint */
	struct block_region unstable;     /* one more, above them */
	VEC(struct undo) log;
	VEC(struct saved_page) saved;
	VEC(uint64_t) watched;
	const struct block_reader *reader;
	bool exclusive;
	bool is_full;        /* a page had no place: all others are unknown */
	uint32_t generation; /* counts stores to unknown places */
	size_t n_pages;
	uint8_t slots[SLOTS]; /* page index + 1 */
	struct page pages[MAX_PAGES];
};

int block_mem_new(struct block_mem **out)
{
	struct block_mem *mem = malloc(sizeof(*mem));

	if (!mem)
		return -ENOMEM;
	memset(mem, 0, offsetof(struct block_mem, pages));
	*out = mem;
	return 0;
}

void block_mem_free(struct block_mem *mem)
{
	if (!mem)
		return;
	vec_free(&mem->regions);
	vec_free(&mem->log);
	vec_free(&mem->saved);
	vec_free(&mem->watched);
	free(mem);
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t region_end(const struct block_region *region)
{
	return region->len > UINT64_MAX - region->addr ? UINT64_MAX : region->addr + region->len;
}

static const struct block_region *first_region(const struct block_region *regions, size_t n,
					       uint64_t addr)
{
	for (size_t i = 0; i < n; i++) {
		if (addr >= regions[i].addr && addr < region_end(&regions[i]))
			return &regions[i];
	}
	return NULL;
}

int block_mem_set_regions(struct block_mem *mem, const struct block_region *regions, size_t n)
{
	scoped_free uint64_t *bounds = calloc(2 * n + 1, sizeof(*bounds));

	if (!bounds ||
	    vec_reserve(&mem->regions, 2 * n > mem->regions.len ? 2 * n - mem->regions.len : 0))
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		bounds[2 * i] = regions[i].addr;
		bounds[2 * i + 1] = region_end(&regions[i]);
	}
	qsort(bounds, 2 * n, sizeof(*bounds), compare_u64);
	mem->regions.len = 0;
	for (size_t i = 0; i + 1 < 2 * n; i++) {
		const struct block_region *region;

		if (bounds[i] == bounds[i + 1])
			continue;
		region = first_region(regions, n, bounds[i]);
		if (region && region->kind != BLOCK_UNSTABLE)
			mem->regions.data[mem->regions.len++] =
				(struct block_region){ bounds[i], bounds[i + 1] - bounds[i],
						       region->kind };
	}
	return 0;
}

void block_mem_set_unstable(struct block_mem *mem, uint64_t addr, uint64_t len)
{
	mem->unstable = (struct block_region){ .addr = addr, .len = len };
}

void block_mem_begin(struct block_mem *mem, const struct block_reader *reader, bool exclusive)
{
	mem->reader = reader;
	mem->exclusive = exclusive;
	mem->log.len = 0;
	mem->saved.len = 0;
	mem->is_full = false;
	mem->generation = 0;
	mem->n_pages = 0;
	memset(mem->slots, 0, sizeof(mem->slots));
}

void block_mem_attach(struct block_mem *mem, const struct block_reader *reader)
{
	mem->reader = reader;
}

/* Index of the first region that ends above @addr. */
static size_t region_above(const struct block_mem *mem, uint64_t addr)
{
	size_t low = 0, high = mem->regions.len;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (region_end(&mem->regions.data[middle]) <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void set_bits(uint8_t *bits, size_t from, size_t to)
{
	if (from == 0 && to == PAGE) {
		memset(bits, 0xff, WORDS);
		return;
	}
	for (size_t i = from; i < to; i++)
		bits[i / 8] |= (uint8_t)(1u << i % 8);
}

static void clear_bits(uint8_t *bits, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		bits[i / 8] &= (uint8_t) ~(1u << i % 8);
}

static void mark_unstable(struct page *page, const struct block_region *region)
{
	uint64_t end = region_end(region);
	size_t from, to;

	if (region->addr >= page->addr + PAGE || end <= page->addr)
		return;
	from = region->addr > page->addr ? region->addr - page->addr : 0;
	to = end - page->addr < PAGE ? end - page->addr : PAGE;
	clear_bits(page->known, from, to);
	clear_bits(page->stable, from, to);
}

static void fill_page(struct block_mem *mem, struct page *page)
{
	size_t got, wanted = 0;

	memset(page->known, 0, sizeof(page->known));
	memset(page->stable, 0, sizeof(page->stable));
	memset(page->constant, 0, sizeof(page->constant));
	memset(page->untouched, 0xff, sizeof(page->untouched));
	page->generation = 0;
	for (size_t i = region_above(mem, page->addr); i < mem->regions.len; i++) {
		const struct block_region *region = &mem->regions.data[i];
		uint64_t end = region_end(region) - page->addr;
		size_t from = region->addr > page->addr ? region->addr - page->addr : 0;
		size_t to = end < PAGE ? end : PAGE;

		if (region->addr > page->addr && region->addr - page->addr >= PAGE)
			break;
		if (region->kind == BLOCK_CONSTANT)
			set_bits(page->constant, from, to);
		else
			set_bits(page->stable, from, to);
		if (region->kind == BLOCK_CONSTANT || mem->exclusive) {
			set_bits(page->known, from, to);
			wanted = to;
		}
	}
	mark_unstable(page, &mem->unstable);
	if (!wanted)
		return;
	got = mem->reader->memory(mem->reader->ctx, page->addr, page->data, PAGE);
	clear_bits(page->known, got, PAGE);
}

/* Stores to unknown places since the page was last looked at: only what is constant is known. */
static void age_page(struct block_mem *mem, struct page *page)
{
	struct undo undo = {
		.data = mem->saved.len,
		.page = (uint16_t)(page - mem->pages),
		.word = WHOLE_PAGE,
	};

	if (page->generation == mem->generation)
		return;
	if (vec_reserve(&mem->log, 1) || vec_reserve(&mem->saved, 1)) {
		mem->is_full = true;
	} else {
		struct saved_page *saved = &mem->saved.data[mem->saved.len++];

		saved->generation = page->generation;
		memcpy(saved->known, page->known, sizeof(saved->known));
		memcpy(saved->untouched, page->untouched, sizeof(saved->untouched));
		mem->log.data[mem->log.len++] = undo;
	}
	for (size_t i = 0; i < WORDS; i++)
		page->known[i] &= page->constant[i];
	memset(page->untouched, 0, sizeof(page->untouched));
	page->generation = mem->generation;
}

/* NULL: there is no room, nothing is known there. */
static struct page *find_page(struct block_mem *mem, uint64_t addr)
{
	uint64_t number = addr / PAGE;
	size_t slot = (number * 0x9e3779b97f4a7c15ull) >> 56;
	struct page *page;

	for (; mem->slots[slot]; slot = (slot + 1) % SLOTS) {
		page = &mem->pages[mem->slots[slot] - 1];
		if (page->addr == addr - addr % PAGE) {
			age_page(mem, page);
			return page;
		}
	}
	if (mem->n_pages == MAX_PAGES || mem->is_full) {
		mem->is_full = true;
		return NULL;
	}
	page = &mem->pages[mem->n_pages++];
	mem->slots[slot] = (uint8_t)mem->n_pages;
	page->addr = addr - addr % PAGE;
	fill_page(mem, page);
	age_page(mem, page);
	return page;
}

/* Bits of a byte mask: 0b101 -> 0xff00ff. */
static uint64_t spread(uint8_t bytes)
{
	uint64_t bits = (bytes * 0x0101010101010101ull) & 0x8040201008040201ull;

	bits = ((bits + 0x7f7f7f7f7f7f7f7full) | bits) & 0x8080808080808080ull;
	return (bits >> 7) * 0xff;
}

struct block_value block_mem_load(struct block_mem *mem, uint64_t addr, unsigned int size)
{
	unsigned int offset = addr % PAGE, word = offset / 8, skip = offset % 8;
	uint64_t mask = size >= 8 ? UINT64_MAX : (1ull << 8 * size) - 1;
	struct block_value value;
	struct page *page;
	unsigned int known;

	if (offset + size > PAGE) {
		unsigned int first = PAGE - offset;
		struct block_value low = block_mem_load(mem, addr, first);
		struct block_value high = block_mem_load(mem, addr + first, size - first);

		value.value = low.value | high.value << 8 * first;
		value.known = low.known | high.known << 8 * first;
		return value;
	}
	page = find_page(mem, addr);
	if (!page)
		return (struct block_value){ 0, 0 };
	value.value = page->data[word] >> 8 * skip;
	known = page->known[word] >> skip;
	if (skip + size > 8) {
		value.value |= page->data[word + 1] << (64 - 8 * skip);
		known |= (unsigned int)page->known[word + 1] << (8 - skip);
	}
	value.known = spread((uint8_t)known) & mask;
	value.value &= value.known;
	return value;
}

struct block_value block_mem_load_return(struct block_mem *mem, uint64_t addr)
{
	struct block_value value = block_mem_load(mem, addr, 8);
	uint64_t now;

	if (value.known == UINT64_MAX || !block_mem_is_untouched(mem, addr))
		return value;
	if (mem->reader->memory(mem->reader->ctx, addr, &now, 8) != 8)
		return value;
	return (struct block_value){ now, UINT64_MAX };
}

uint64_t block_mem_load_bytes(struct block_mem *mem, uint64_t addr, uint8_t *data, size_t n)
{
	uint64_t result = 0;

	for (size_t i = 0; i < n; i += 8) {
		unsigned int size = n - i < 8 ? (unsigned int)(n - i) : 8;
		struct block_value value = block_mem_load(mem, addr + i, size);

		memcpy(data + i, &value.value, size);
		for (unsigned int b = 0; b < size; b++)
			result |= (uint64_t)(value.known >> 8 * b & 1) << (i + b);
	}
	return result;
}

/* Sets the bytes of @mask in one word: known ones to @data, the others to unknown. */
static void store_word(struct block_mem *mem, struct page *page, unsigned int word, uint64_t data,
		       uint8_t mask, uint8_t known)
{
	struct undo undo = {
		.data = page->data[word],
		.page = (uint16_t)(page - mem->pages),
		.word = (uint16_t)word,
		.known = page->known[word],
		.untouched = page->untouched[word],
	};
	uint64_t bits = spread(mask);

	if (vec_push(&mem->log, undo)) {
		/* What cannot be taken back must not be relied on. */
		mem->is_full = true;
		known = 0;
	}
	page->data[word] = (page->data[word] & ~bits) | (data & bits);
	page->known[word] = (uint8_t)((page->known[word] & ~mask) | known);
	page->untouched[word] &= (uint8_t)~mask;
}

/* The bytes of a value that are known whole. */
static uint8_t whole_bytes(uint64_t known)
{
	uint64_t ones = known & known >> 4;

	ones &= ones >> 2;
	ones &= ones >> 1;
	ones &= 0x0101010101010101ull;
	return (uint8_t)((ones * 0x0102040810204080ull) >> 56);
}

void block_mem_store(struct block_mem *mem, uint64_t addr, unsigned int size,
		     struct block_value value, bool is_return)
{
	unsigned int offset = addr % PAGE, word = offset / 8, skip = offset % 8;
	uint8_t mask = (uint8_t)((1u << size) - 1), known = whole_bytes(value.known) & mask;
	struct page *page;

	if (offset + size > PAGE) {
		unsigned int first = PAGE - offset;
		struct block_value high = { value.value >> 8 * first, value.known >> 8 * first };

		block_mem_store(mem, addr, first, value, is_return);
		block_mem_store(mem, addr + first, size - first, high, is_return);
		return;
	}
	page = find_page(mem, addr);
	if (!page)
		return;
	for (unsigned int done = 0; done < size; word++) {
		uint8_t part = (uint8_t)(mask >> done << skip);
		uint8_t part_known = (uint8_t)(known >> done << skip);

		if (!is_return)
			part_known &= mem->exclusive ? page->stable[word] : 0;
		store_word(mem, page, word, value.value >> 8 * done << 8 * skip, part, part_known);
		done += 8 - skip;
		skip = 0;
	}
}

void block_mem_store_bytes(struct block_mem *mem, uint64_t addr, const uint8_t *data,
			   uint64_t known, size_t n)
{
	for (size_t i = 0; i < n; i += 8) {
		unsigned int size = n - i < 8 ? (unsigned int)(n - i) : 8;
		struct block_value value = { 0, spread((uint8_t)(known >> i)) };

		memcpy(&value.value, data + i, size);
		block_mem_store(mem, addr + i, size, value, false);
	}
}

void block_mem_clobber(struct block_mem *mem, uint64_t addr, uint64_t len)
{
	struct block_value unknown = { 0, 0 };

	if (len > MAX_CLOBBER) {
		block_mem_clobber_all(mem);
		return;
	}
	for (uint64_t i = 0; i < len; i += 8)
		block_mem_store(mem, addr + i, len - i < 8 ? (unsigned int)(len - i) : 8, unknown,
				false);
}

void block_mem_clobber_all(struct block_mem *mem)
{
	struct undo undo = { .page = UINT16_MAX, .data = mem->generation };

	if (vec_push(&mem->log, undo))
		mem->is_full = true;
	mem->generation++;
}

size_t block_mem_mark(const struct block_mem *mem)
{
	return mem->log.len;
}

void block_mem_undo(struct block_mem *mem, size_t mark)
{
	while (mem->log.len > mark) {
		const struct undo *undo = &mem->log.data[--mem->log.len];
		struct page *page = &mem->pages[undo->page % MAX_PAGES];

		if (undo->page == UINT16_MAX) {
			mem->generation = (uint32_t)undo->data;
		} else if (undo->word == WHOLE_PAGE) {
			page->generation = mem->saved.data[undo->data].generation;
			memcpy(page->known, mem->saved.data[undo->data].known, sizeof(page->known));
		} else {
			page->data[undo->word] = undo->data;
			page->known[undo->word] = undo->known;
			page->untouched[undo->word] = undo->untouched;
		}
	}
}

int block_mem_watch(struct block_mem *mem)
{
	size_t n = 0;

	mem->watched.len = 0;
	for (size_t i = 0; i < mem->log.len; i++) {
		const struct undo *undo = &mem->log.data[i];

		if (undo->page == UINT16_MAX || undo->word == WHOLE_PAGE)
			continue;
		if (vec_push(&mem->watched, mem->pages[undo->page].addr + 8ull * undo->word))
			return -ENOMEM;
	}
	if (!mem->watched.len)
		return 0;
	qsort(mem->watched.data, mem->watched.len, sizeof(uint64_t), compare_u64);
	for (size_t i = 1; i < mem->watched.len; i++) {
		if (mem->watched.data[i] != mem->watched.data[n])
			mem->watched.data[++n] = mem->watched.data[i];
	}
	mem->watched.len = n + 1;
	return 0;
}

bool block_mem_matches(struct block_mem *mem, const struct block_reader *reader)
{
	for (size_t i = 0; i < mem->watched.len; i++) {
		struct block_value value = block_mem_load(mem, mem->watched.data[i], 8);
		uint64_t now;

		if (!value.known)
			continue;
		if (reader->memory(reader->ctx, mem->watched.data[i], &now, 8) != 8 ||
		    ((now ^ value.value) & value.known))
			return false;
	}
	return true;
}

bool block_mem_is_untouched(struct block_mem *mem, uint64_t addr)
{
	struct page *page = addr % 8 ? NULL : find_page(mem, addr);

	return page && page->untouched[addr % PAGE / 8] == 0xff;
}
