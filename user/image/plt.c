// SPDX-License-Identifier: GPL-2.0-only
/*
 * A PLT slot jumps through a GOT entry; the relocation of that entry names the function. Lazy slots
 * of CET binaries push the relocation's index instead and leave the jump to .plt.sec.
 */
#include "image/elf_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Far above what linkers make; a hostile file may describe the same bytes a thousand times. */
#define MAX_RELOC_SECTIONS 16
#define MAX_SLOT_SECTIONS 16
#define MAX_RESOLVERS 1024

struct plt_reloc {
	uint64_t got;
	const char *name;
};

struct plt {
	struct symbol_builder *builder;
	bool is_64;
	uint64_t got_base; /* what %ebx holds in 32-bit position-independent slots */
	VEC(struct plt_reloc) relocs;
	VEC(struct plt_reloc) lazy; /* of .rela.plt, in its order */
	Elf_Data *symbols;          /* .dynsym and its strings */
	struct file_strings strings;
	unsigned int reloc_sections, slot_sections, resolvers;
};

static bool is_code_reloc(const struct plt *plt, uint32_t type)
{
	if (plt->is_64)
		return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT ||
		       type == R_X86_64_IRELATIVE;
	return type == R_386_JMP_SLOT || type == R_386_GLOB_DAT || type == R_386_IRELATIVE;
}

/* A slot without a symbol (IRELATIVE) is known by the resolver that its addend points to. */
static const char *resolver_name(struct plt *plt, uint64_t addend)
{
	const struct symbol_candidate *candidate, *best = NULL;
	char text[32];
	int len;

	if (plt->resolvers++ >= MAX_RESOLVERS)
		return "";
	vec_for_each(candidate, &plt->builder->candidates) {
		if (candidate->start == addend && (!best || candidate->binding < best->binding))
			best = candidate;
	}
	if (best)
		return best->name;
	len = snprintf(text, sizeof(text), "*ABS*+0x%llx", (unsigned long long)addend);
	return arena_join(&plt->builder->strings, text, len, "");
}

struct reloc_table {
	Elf_Data *relocs;
	bool is_rela, is_plt;
};

/* One relocation; false past the end. */
static bool reloc_at(const struct reloc_table *table, int i, GElf_Rela *rela)
{
	GElf_Rel rel;

	if (table->is_rela)
		return gelf_getrela(table->relocs, i, rela) != NULL;
	if (!gelf_getrel(table->relocs, i, &rel))
		return false;
	*rela = (GElf_Rela){ .r_offset = rel.r_offset, .r_info = rel.r_info };
	return true;
}

static int add_relocs(struct plt *plt, const struct reloc_table *table)
{
	GElf_Rela rela;

	for (int i = 0; reloc_at(table, i, &rela); i++) {
		struct plt_reloc reloc = { .got = rela.r_offset, .name = "" };
		GElf_Sym sym;

		if (is_code_reloc(plt, (uint32_t)GELF_R_TYPE(rela.r_info))) {
			if (!GELF_R_SYM(rela.r_info))
				reloc.name = resolver_name(plt, rela.r_addend);
			else if (plt->symbols &&
				 gelf_getsym(plt->symbols, (int)GELF_R_SYM(rela.r_info), &sym))
				reloc.name = strings_at(&plt->strings, sym.st_name);
			if (!reloc.name || vec_push(&plt->relocs, reloc))
				return -ENOMEM;
		}
		if (table->is_plt && vec_push(&plt->lazy, reloc))
			return -ENOMEM;
	}
	return 0;
}

static int read_dynsym(void *ctx, Elf *elf, const struct file_section *section)
{
	struct plt *plt = ctx;

	if (!strcmp(section->name, ".got.plt"))
		plt->got_base = section->shdr.sh_addr;
	if (section->shdr.sh_type != SHT_DYNSYM || plt->symbols)
		return 0;
	plt->symbols = elf_getdata(section->scn, NULL);
	return strings_load(elf, section->shdr.sh_link, &plt->builder->strings, &plt->strings);
}

static int read_relocs(void *ctx, Elf *elf, const struct file_section *section)
{
	struct reloc_table table = {
		.is_rela = section->shdr.sh_type == SHT_RELA,
		.is_plt = !strcmp(section->name, ".rela.plt") || !strcmp(section->name, ".rel.plt"),
	};
	struct plt *plt = ctx;

	(void)elf;
	if ((!table.is_rela && section->shdr.sh_type != SHT_REL) ||
	    !(section->shdr.sh_flags & SHF_ALLOC) || plt->reloc_sections++ >= MAX_RELOC_SECTIONS)
		return 0;
	table.relocs = elf_getdata(section->scn, NULL);
	return table.relocs && table.relocs->d_buf ? add_relocs(plt, &table) : 0;
}

static int compare_relocs(const void *a_, const void *b_)
{
	const struct plt_reloc *a = a_, *b = b_;

	return a->got < b->got ? -1 : a->got > b->got;
}

static const char *name_of_got(const struct plt *plt, uint64_t got)
{
	const struct plt_reloc key = { .got = got }, *found;

	if (!plt->relocs.len)
		return NULL;
	found = bsearch(&key, plt->relocs.data, plt->relocs.len, sizeof(key), compare_relocs);
	return found && *found->name ? found->name : NULL;
}

/* The function that the slot at @address leads to; NULL: none that we know. */
static const char *slot_name(const struct plt *plt, const uint8_t *code, size_t size,
			     uint64_t address)
{
	const uint8_t endbr[3] = { 0xf3, 0x0f, 0x1e };
	uint32_t operand;
	size_t at = 0;

	if (size >= 4 && !memcmp(code, endbr, 3))
		at = 4;
	if (at < size && code[at] == 0xf2) /* bnd */
		at++;
	if (size < at + 6)
		return NULL;
	if (code[at] == 0x68) { /* push INDEX; jmp .plt */
		memcpy(&operand, code + at + 1, 4);
		if (!plt->is_64)
			operand /= sizeof(Elf32_Rel);
		return operand < plt->lazy.len && *plt->lazy.data[operand].name ?
			       plt->lazy.data[operand].name :
			       NULL;
	}
	memcpy(&operand, code + at + 2, 4);
	if (code[at] != 0xff)
		return NULL;
	if (code[at + 1] == 0x25) /* jmp *x(%rip); 32 bits: jmp *x */
		return name_of_got(plt, plt->is_64 ? address + at + 6 + (uint64_t)(int32_t)operand :
						     operand);
	if (code[at + 1] == 0xa3) /* jmp *x(%ebx) */
		return name_of_got(plt, (uint32_t)(plt->got_base + operand));
	return NULL;
}

/* Slots of static programs are a jump and two bytes of padding, and the section says no size. */
static bool is_dense(const Elf_Data *data)
{
	const uint8_t jump[2] = { 0xff, 0x25 }, *code = data->d_buf;

	return data->d_size >= 16 && !memcmp(code, jump, 2) && !memcmp(code + 8, jump, 2);
}

static int read_slots(void *ctx, Elf *elf, const struct file_section *section)
{
	uint64_t step = section->shdr.sh_entsize, address = section->shdr.sh_addr;
	struct plt *plt = ctx;
	Elf_Data *data;

	(void)elf;
	if (section->shdr.sh_type != SHT_PROGBITS || strncmp(section->name, ".plt", 4) ||
	    plt->slot_sections++ >= MAX_SLOT_SECTIONS)
		return 0;
	data = elf_rawdata(section->scn, NULL);
	if (!data || !data->d_buf)
		return 0;
	if (step != 8 && step != 16)
		step = is_dense(data) ? 8 : 16;
	for (size_t at = 0; at + step <= data->d_size; at += step) {
		const char *name = slot_name(plt, (uint8_t *)data->d_buf + at, step, address + at);

		/* The head of .plt, which calls the dynamic linker, pushes a GOT entry. */
		if (!name && !at && step == 16 && ((uint8_t *)data->d_buf)[0] == 0xff)
			name = "plt0";
		if (!name)
			continue;
		name = arena_join(&plt->builder->strings, name, strcspn(name, "@"), "@plt");
		if (!name ||
		    symbols_add(plt->builder, address + at, step, name, SYMBOL_LOCAL, false))
			return -ENOMEM;
	}
	return 0;
}

static void plt_fini(struct plt *plt)
{
	vec_free(&plt->relocs);
	vec_free(&plt->lazy);
}

int plt_read(Elf *elf, struct symbol_builder *builder)
{
	scoped(plt_fini) struct plt plt = {
		.builder = builder,
		.is_64 = gelf_getclass(elf) == ELFCLASS64,
	};
	int err = sections_each(elf, read_dynsym, &plt);

	if (!err)
		err = sections_each(elf, read_relocs, &plt);
	if (err)
		return err;
	if (plt.relocs.len)
		qsort(plt.relocs.data, plt.relocs.len, sizeof(*plt.relocs.data), compare_relocs);
	return sections_each(elf, read_slots, &plt);
}
