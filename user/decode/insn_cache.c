// SPDX-License-Identifier: GPL-2.0-only
#include "decode/insn_cache.h"

#include <errno.h>
#include <stdlib.h>

#include "image/insn.h"

int insn_cache_init(struct insn_cache *cache, struct pt_image_section_cache *sections)
{
	cache->sections = sections;
	cache->entries = calloc(INSN_CACHE_SIZE, sizeof(*cache->entries));
	return cache->entries ? 0 : -ENOMEM;
}

void insn_cache_fini(struct insn_cache *cache)
{
	free(cache->entries);
	cache->entries = NULL;
}

unsigned int mode_bits(enum pt_exec_mode mode)
{
	return mode == ptem_16bit ? 16 : mode == ptem_32bit ? 32 : 64;
}

static struct block_end classify(struct insn_cache *cache, const struct pt_block *block)
{
	struct block_end end = {
		.ip = block->end_ip,
		.isid = block->isid,
		.class = INSN_INVALID,
		.mode = block->mode,
	};
	const uint8_t *bytes = block->raw;
	uint8_t buf[pt_max_insn_size];
	int size = block->size;
	struct insn insn;

	if (!block->truncated) {
		bytes = buf;
		size = pt_iscache_read(cache->sections, buf, sizeof(buf), block->isid,
				       block->end_ip);
	}
	if (size <= 0 ||
	    insn_decode(bytes, (size_t)size, block->end_ip, mode_bits(block->mode), &insn))
		return end;
	end.class = insn.class;
	end.length = insn.length;
	end.target = insn.target;
	return end;
}

struct block_end insn_cache_block_end(struct insn_cache *cache, const struct pt_block *block)
{
	struct block_end *entry =
		&cache->entries[(block->end_ip ^ block->end_ip >> 16) % INSN_CACHE_SIZE];

	if (block->truncated)
		return classify(cache, block);
	/* isid 0 is no section's: an entry never filled does not match. */
	if (entry->ip != block->end_ip || entry->isid != block->isid || entry->mode != block->mode)
		*entry = classify(cache, block);
	return *entry;
}
