// SPDX-License-Identifier: GPL-2.0-only
#include "record/soft/block_cache.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "image/insn.h"

#define FIRST_SLOTS 4096
#define FIRST_RUN_LIMIT 1024

int block_cache_new(struct block_cache **out)
{
	struct block_cache *cache = calloc(1, sizeof(*cache));

	if (!cache)
		return -ENOMEM;
	cache->slots = calloc(FIRST_SLOTS, sizeof(*cache->slots));
	cache->n_slots = FIRST_SLOTS;
	cache->nodes = calloc(FIRST_SLOTS / 2, sizeof(*cache->nodes));
	cache->cap_nodes = FIRST_SLOTS / 2;
	cache->n_nodes = 1;
	cache->low = UINT64_MAX;
	cache->run_limit = FIRST_RUN_LIMIT;
	if (!cache->slots || !cache->nodes || block_mem_new(&cache->mem)) {
		block_cache_free(cache);
		return -ENOMEM;
	}
	*out = cache;
	return 0;
}

void block_cache_free(struct block_cache *cache)
{
	if (!cache)
		return;
	block_mem_free(cache->mem);
	free(cache->nodes);
	free(cache->slots);
	free(cache->volatiles);
	free(cache->barriers);
	free(cache);
}

static size_t slot_of(const struct block_cache *cache, uint64_t addr)
{
	return (addr * 0x9e3779b97f4a7c15ull >> 20) & (cache->n_slots - 1);
}

/* The slot that holds @addr, or the free one where it belongs. */
static size_t find_slot(const struct block_cache *cache, uint64_t addr)
{
	size_t slot = slot_of(cache, addr);

	while (cache->slots[slot] && cache->nodes[cache->slots[slot]].addr != addr)
		slot = (slot + 1) & (cache->n_slots - 1);
	return slot;
}

static int grow(struct block_cache *cache)
{
	size_t cap = cache->cap_nodes * 2, n_slots = cache->n_slots * 2;
	struct block_node *nodes;
	uint32_t *slots;

	if (cap >= BLOCK_NO_NODE)
		return -ENOMEM;
	nodes = realloc(cache->nodes, cap * sizeof(*nodes));
	if (!nodes)
		return -ENOMEM;
	cache->nodes = nodes;
	slots = calloc(n_slots, sizeof(*slots));
	if (!slots)
		return -ENOMEM;
	free(cache->slots);
	cache->slots = slots;
	cache->n_slots = n_slots;
	cache->cap_nodes = cap;
	for (size_t i = 1; i < cache->n_nodes; i++)
		cache->slots[find_slot(cache, nodes[i].addr)] = (uint32_t)i;
	return 0;
}

static bool is_volatile(const struct block_cache *cache, uint64_t addr, uint64_t len)
{
	for (size_t i = 0; i < cache->n_volatiles; i++) {
		const struct block_region *range = &cache->volatiles[i];

		if (addr + len > range->addr && addr - range->addr < range->len)
			return true;
	}
	return false;
}

static bool is_barrier(const struct block_cache *cache, uint64_t addr)
{
	size_t low = 0, high = cache->n_barriers;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (cache->barriers[middle] == addr)
			return true;
		if (cache->barriers[middle] < addr)
			low = middle + 1;
		else
			high = middle;
	}
	return false;
}

static void decode(struct block_cache *cache, struct block_node *node,
		   const struct block_reader *reader)
{
	struct insn insn = { .class = INSN_INVALID };
	uint8_t bytes[16];
	size_t got = reader->code(reader->ctx, node->addr, bytes, 15);

	memset(&node->ops, 0, sizeof(node->ops));
	node->length = 0;
	node->bias = 0;
	node->is_volatile = is_volatile(cache, node->addr, 15);
	node->is_barrier = is_barrier(cache, node->addr);
	node->is_end = true;
	node->is_valid = false;
	if (insn_decode(bytes, got, node->addr, 64, &insn) ||
	    insn_ops_decode(bytes, got, node->addr, 64, &node->ops)) {
		node->ops.op = INSN_OP_OPAQUE;
		return;
	}
	node->length = insn.length;
	node->is_end = node->is_volatile || insn.touches_tf || insn.class >= INSN_FAR ||
		       node->ops.op == INSN_OP_OPAQUE;
	node->is_valid = !node->is_volatile;
	if (node->ops.op == INSN_OP_JCC)
		node->bias = node->ops.target <= node->addr ? 1 : -1;
}

uint32_t block_cache_node(struct block_cache *cache, const struct block_reader *reader,
			  uint64_t addr)
{
	size_t slot = find_slot(cache, addr);
	uint32_t index = cache->slots[slot];
	struct block_node *node;

	if (!index) {
		if (cache->n_nodes == cache->cap_nodes && grow(cache))
			return BLOCK_NO_NODE;
		index = (uint32_t)cache->n_nodes++;
		cache->slots[find_slot(cache, addr)] = index;
		cache->nodes[index] = (struct block_node){ .addr = addr };
		if (addr < cache->low)
			cache->low = addr;
		if (addr >= cache->high)
			cache->high = addr + 1;
	}
	node = &cache->nodes[index];
	if (!node->is_valid)
		decode(cache, node, reader);
	return index;
}

static void forget_volatiles(struct block_cache *cache, uint64_t from, uint64_t to)
{
	for (size_t i = 0; i < cache->n_volatiles;) {
		const struct block_region *range = &cache->volatiles[i];

		if (range->addr >= from && range->len <= to - range->addr && range->addr < to)
			cache->volatiles[i] = cache->volatiles[--cache->n_volatiles];
		else
			i++;
	}
}

/* Instructions may begin up to 15 bytes before what changed. */
void block_cache_invalidate(struct block_cache *cache, uint64_t addr, uint64_t len)
{
	uint64_t from = addr < 15 ? 0 : addr - 15;
	uint64_t to = len > UINT64_MAX - addr ? UINT64_MAX : addr + len;

	if (addr || len != UINT64_MAX)
		forget_volatiles(cache, addr, to);
	if (from >= cache->high || to <= cache->low)
		return;
	if (from < cache->low)
		from = cache->low;
	if (to > cache->high)
		to = cache->high;
	if (to - from < cache->n_nodes) {
		for (; from < to; from++)
			cache->nodes[cache->slots[find_slot(cache, from)]].is_valid = false;
		return;
	}
	for (size_t i = 1; i < cache->n_nodes; i++) {
		if (cache->nodes[i].addr >= from && cache->nodes[i].addr < to)
			cache->nodes[i].is_valid = false;
	}
}

int block_cache_mark_volatile(struct block_cache *cache, uint64_t addr, uint64_t len)
{
	block_cache_invalidate(cache, addr, len);
	for (size_t i = 0; i < cache->n_volatiles; i++) {
		if (cache->volatiles[i].addr == addr && cache->volatiles[i].len == len)
			return 0;
	}
	if (cache->n_volatiles == cache->cap_volatiles) {
		size_t cap = cache->cap_volatiles ? 2 * cache->cap_volatiles : 16;
		struct block_region *grown =
			realloc(cache->volatiles, cap * sizeof(*cache->volatiles));

		if (!grown)
			return -ENOMEM;
		cache->volatiles = grown;
		cache->cap_volatiles = cap;
	}
	cache->volatiles[cache->n_volatiles++] = (struct block_region){ .addr = addr, .len = len };
	return 0;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

int block_cache_set_barriers(struct block_cache *cache, const uint64_t *addrs, size_t n)
{
	uint64_t *copy = NULL;

	if (n) {
		copy = malloc(n * sizeof(*copy));
		if (!copy)
			return -ENOMEM;
		memcpy(copy, addrs, n * sizeof(*copy));
		qsort(copy, n, sizeof(*copy), compare_u64);
	}
	for (size_t i = 0; i < cache->n_barriers; i++)
		cache->nodes[cache->slots[find_slot(cache, cache->barriers[i])]].is_valid = false;
	for (size_t i = 0; i < n; i++)
		cache->nodes[cache->slots[find_slot(cache, copy[i])]].is_valid = false;
	free(cache->barriers);
	cache->barriers = copy;
	cache->n_barriers = n;
	return 0;
}

int block_cache_set_regions(struct block_cache *cache, const struct block_region *regions, size_t n)
{
	return block_mem_set_regions(cache->mem, regions, n);
}

void block_cache_set_unstable(struct block_cache *cache, uint64_t addr, uint64_t len)
{
	block_mem_set_unstable(cache->mem, addr, len);
}

void block_cache_set_exclusive(struct block_cache *cache, bool exclusive)
{
	cache->exclusive = exclusive;
}
