/* SPDX-License-Identifier: GPL-2.0-only */
/* Byte sizes as people write them, and powers of two. */
#ifndef PTBPF_BASE_SIZE_H
#define PTBPF_BASE_SIZE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * "4096", "8K", "512K", "1.5G", "300T" (also "8KB", "8KiB", any case) to bytes; powers of 1024.
 * 0; -EINVAL for anything else, zero and negative sizes included. Above 2^63: UINT64_MAX.
 */
int size_parse(const char *text, uint64_t *bytes);

/* The shortest exact form: 16384 -> "16K", 9000 -> "9000B", 1536 -> "1.5K". @buf of 32 is enough.
 */
const char *size_format(uint64_t bytes, char *buf, size_t buf_size);

static inline bool size_is_pow2(uint64_t v)
{
	return v && !(v & (v - 1));
}

/* Largest power of two <= v; 0 for 0. */
static inline uint64_t size_floor_pow2(uint64_t v)
{
	return v ? 1ull << (63 - __builtin_clzll(v)) : 0;
}

/* Smallest power of two >= v; 1 for 0; v must be <= 2^63. */
static inline uint64_t size_ceil_pow2(uint64_t v)
{
	return v <= 1 ? 1 : 1ull << (64 - __builtin_clzll(v - 1));
}

#endif
