/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The planner's view of the thread's memory: what is known of each byte, with the planned stores
 * applied and an undo log to take them back. Nothing is written to the thread.
 */
#ifndef PTBPF_RECORD_SOFT_BLOCK_MEM_H
#define PTBPF_RECORD_SOFT_BLOCK_MEM_H

#include "record/soft/block.h"

/* A value of up to 8 bytes: bit n is certain when known has it; other bits of value are 0. */
struct block_value {
	uint64_t value, known;
};

struct block_mem;

int block_mem_new(struct block_mem **out);
void block_mem_free(struct block_mem *mem);
int block_mem_set_regions(struct block_mem *mem, const struct block_region *regions, size_t n);
void block_mem_set_unstable(struct block_mem *mem, uint64_t addr, uint64_t len);

/* Forgets all values and stores: what is read from here on is as the thread has it now. */
void block_mem_begin(struct block_mem *mem, const struct block_reader *reader, bool exclusive);

/* Keeps them, only reads through @reader from here on. */
void block_mem_attach(struct block_mem *mem, const struct block_reader *reader);

struct block_value block_mem_load(struct block_mem *mem, uint64_t addr, unsigned int size);
/* A return address: certain as well when no planned store may have changed it. */
struct block_value block_mem_load_return(struct block_mem *mem, uint64_t addr);
/* @n <= 64; bit i of the result: data[i] is certain. */
uint64_t block_mem_load_bytes(struct block_mem *mem, uint64_t addr, uint8_t *data, size_t n);

/* @is_return: a return address that a call pushes, certain even where other memory is not. */
void block_mem_store(struct block_mem *mem, uint64_t addr, unsigned int size,
		     struct block_value value, bool is_return);
void block_mem_store_bytes(struct block_mem *mem, uint64_t addr, const uint8_t *data,
			   uint64_t known, size_t n);
/* Makes bytes unknown. */
void block_mem_clobber(struct block_mem *mem, uint64_t addr, uint64_t len);
void block_mem_clobber_all(struct block_mem *mem);

/* Stores after a mark are taken back by undoing to it. Marks begin at 0. */
size_t block_mem_mark(const struct block_mem *mem);
void block_mem_undo(struct block_mem *mem, size_t mark);

/* Remembers which bytes the stores since block_mem_begin() went to. 0, -ENOMEM. */
int block_mem_watch(struct block_mem *mem);
/* Whether all that is certain among the watched bytes is so in the thread's memory now. */
bool block_mem_matches(struct block_mem *mem, const struct block_reader *reader);
/* Whether no planned store went to the 8 bytes. */
bool block_mem_is_untouched(struct block_mem *mem, uint64_t addr);

#endif
