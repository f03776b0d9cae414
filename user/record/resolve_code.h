/* SPDX-License-Identifier: GPL-2.0-only */
/* What the bytes of a function say about where to probe it. Pure. Internal to resolve. */
#ifndef PTBPF_RECORD_RESOLVE_CODE_H
#define PTBPF_RECORD_RESOLVE_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "image/object.h"

#define CODE_MAX_TARGETS 64

/* Does the file have bytes for @vaddr in an executable segment? */
bool code_is_executable(const struct object *object, uint64_t vaddr);

/*
 * Is @vaddr in @symbol the start of an instruction, walking from the symbol's start? If not, the
 * starts around it are in *before and *after. True as well where the walk ends in data.
 */
bool code_is_boundary(const struct object *object, const struct symbol *symbol, uint64_t vaddr,
		      uint64_t *before, uint64_t *after);

/*
 * Where to probe the entry of @symbol: behind a leading endbr64 when a push that the kernel
 * emulates follows and nothing in the function jumps there; else the entry itself.
 */
uint64_t code_probe_address(const struct object *object, const struct symbol *symbol);

/*
 * Addresses of code that the resolver function @symbol loads, which are what it can return. The
 * count, at most CODE_MAX_TARGETS, distinct, as they come.
 */
size_t code_ifunc_targets(const struct object *object, const struct symbol *symbol,
			  uint64_t targets[CODE_MAX_TARGETS]);

#endif
