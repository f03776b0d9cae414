/* SPDX-License-Identifier: GPL-2.0-only */
/* Symbols by what people type. Internal to image/. */
#ifndef PTBPF_IMAGE_MATCH_H
#define PTBPF_IMAGE_MATCH_H

#include "image/object.h"
#include "image/symbols.h"

/* object_match() on a table. */
int symbols_match(const struct symbol_table *table, const char *pattern, object_match_fn fn,
		  void *ctx);

#endif
