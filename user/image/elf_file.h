/* SPDX-License-Identifier: GPL-2.0-only */
/* What libelf reads for an object: sections as bounded arrays, symbols, PLT. Internal to image/. */
#ifndef PTBPF_IMAGE_ELF_FILE_H
#define PTBPF_IMAGE_ELF_FILE_H

#include <stddef.h>
#include <stdint.h>

#include <gelf.h>

#include "image/symbols.h"

struct file_section {
	Elf_Scn *scn;
	GElf_Shdr shdr;
	const char *name; /* "" without */
};

/* Calls fn for each section until it returns nonzero, and returns that. */
typedef int (*section_fn)(void *ctx, Elf *elf, const struct file_section *section);
int sections_each(Elf *elf, section_fn fn, void *ctx);

/* A string table copied into the arena: every offset below size is a terminated string. */
struct file_strings {
	const char *data;
	size_t size;
};
/* Leaves *strings empty when section @index is none. 0, -ENOMEM. */
int strings_load(Elf *elf, size_t index, struct string_arena *arena, struct file_strings *strings);
const char *strings_at(const struct file_strings *strings, size_t offset);

/* Adds the functions of .symtab and .dynsym. 0, -ENOMEM. */
int symtab_read(Elf *elf, struct symbol_builder *builder);

/* Adds "foo@plt" for each PLT slot. 0, -ENOMEM. */
int plt_read(Elf *elf, struct symbol_builder *builder);

/*
 * Separate debug information of @elf, found at @path: opens by build-id, then by .gnu_debuglink
 * (build-id or checksum must fit). The descriptor, or -ENOENT. Never the network.
 */
int debug_file_open(Elf *elf, const char *path);
/* The ELF file inside .gnu_debugdata; a descriptor of memory, or -ENOENT. */
int debug_data_open(Elf *elf);

#endif
