/* SPDX-License-Identifier: GPL-2.0-only */
/* What ends a block: the classified last instruction, remembered by address and section. */
#ifndef PTBPF_DECODE_INSN_CACHE_H
#define PTBPF_DECODE_INSN_CACHE_H

#include <stdint.h>

#include <intel-pt.h>

#define INSN_CACHE_SIZE (1u << 16)

struct block_end {
	uint64_t ip, target; /* target: of direct branches */
	int isid;
	uint8_t class; /* enum insn_class */
	uint8_t length;
	uint8_t mode;
};

struct insn_cache {
	struct pt_image_section_cache *sections;
	struct block_end *entries;
};

/* 64, 32 or 16, as insn_decode() wants it. */
unsigned int mode_bits(enum pt_exec_mode mode);

int insn_cache_init(struct insn_cache *cache, struct pt_image_section_cache *sections);
void insn_cache_fini(struct insn_cache *cache);

/* The last instruction of a block that is not empty; class INSN_INVALID when its bytes are not to
 * be had. */
struct block_end insn_cache_block_end(struct insn_cache *cache, const struct pt_block *block);

#endif
