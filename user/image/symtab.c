// SPDX-License-Identifier: GPL-2.0-only
#include "image/elf_file.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

int sections_each(Elf *elf, section_fn fn, void *ctx)
{
	struct file_section section = { 0 };
	size_t names;
	int err;

	if (elf_getshdrstrndx(elf, &names))
		return 0;
	while ((section.scn = elf_nextscn(elf, section.scn))) {
		if (!gelf_getshdr(section.scn, &section.shdr))
			continue;
		section.name = elf_strptr(elf, names, section.shdr.sh_name);
		if (!section.name)
			section.name = "";
		err = fn(ctx, elf, &section);
		if (err)
			return err;
	}
	return 0;
}

int strings_load(Elf *elf, size_t index, struct string_arena *arena, struct file_strings *strings)
{
	Elf_Scn *scn = elf_getscn(elf, index);
	Elf_Data *data;
	GElf_Shdr shdr;
	char *copy;

	*strings = (struct file_strings){ 0 };
	if (!index || !scn || !gelf_getshdr(scn, &shdr) || shdr.sh_type != SHT_STRTAB)
		return 0;
	data = elf_rawdata(scn, NULL);
	if (!data || !data->d_buf || !data->d_size)
		return 0;
	copy = arena_alloc(arena, data->d_size + 1);
	if (!copy)
		return -ENOMEM;
	memcpy(copy, data->d_buf, data->d_size);
	copy[data->d_size] = 0;
	*strings = (struct file_strings){ copy, data->d_size };
	return 0;
}

const char *strings_at(const struct file_strings *strings, size_t offset)
{
	return offset < strings->size ? strings->data + offset : "";
}

static bool is_in_code_section(Elf *elf, const GElf_Sym *sym)
{
	Elf_Scn *scn = sym->st_shndx < SHN_LORESERVE ? elf_getscn(elf, sym->st_shndx) : NULL;
	GElf_Shdr shdr;

	return scn && gelf_getshdr(scn, &shdr) && (shdr.sh_flags & SHF_EXECINSTR);
}

static bool is_function(Elf *elf, const GElf_Sym *sym)
{
	switch (GELF_ST_TYPE(sym->st_info)) {
	case STT_FUNC:
	case STT_GNU_IFUNC:
		return true;
	case STT_NOTYPE: /* labels of assembly: the dynamic linker's _start is one */
		return is_in_code_section(elf, sym);
	default:
		return false;
	}
}

static enum symbol_binding binding_of(const GElf_Sym *sym)
{
	switch (GELF_ST_BIND(sym->st_info)) {
	case STB_LOCAL:
		return SYMBOL_LOCAL;
	case STB_WEAK:
		return SYMBOL_WEAK;
	default:
		return SYMBOL_GLOBAL;
	}
}

/* .symtab of a library names versions: "memcpy@@GLIBC_2.14". */
static const char *plain_name(const char *name, struct string_arena *arena)
{
	const char *at = strchr(name, '@');

	return at && at != name ? arena_join(arena, name, at - name, "") : name;
}

struct symtab {
	struct symbol_builder *builder;
	bool seen_symtab, seen_dynsym; /* a file has one of each; a hostile one claims thousands */
};

static int read_table(void *ctx, Elf *elf, const struct file_section *section)
{
	struct symtab *symtab = ctx;
	bool *seen =
		section->shdr.sh_type == SHT_DYNSYM ? &symtab->seen_dynsym : &symtab->seen_symtab;
	struct symbol_builder *builder = symtab->builder;
	struct file_strings strings;
	Elf_Data *data;
	GElf_Sym sym;
	int err;

	if (section->shdr.sh_type != SHT_SYMTAB && section->shdr.sh_type != SHT_DYNSYM)
		return 0;
	if (*seen)
		return 0;
	*seen = true;
	data = elf_getdata(section->scn, NULL);
	if (!data || !data->d_buf)
		return 0;
	err = strings_load(elf, section->shdr.sh_link, &builder->strings, &strings);
	if (err)
		return err;
	for (int i = 1; gelf_getsym(data, i, &sym); i++) {
		const char *name;

		if (!is_function(elf, &sym) || sym.st_shndx == SHN_UNDEF || sym.st_shndx == SHN_ABS)
			continue;
		name = plain_name(strings_at(&strings, sym.st_name), &builder->strings);
		if (!name)
			return -ENOMEM;
		err = symbols_add(builder, sym.st_value, sym.st_size, name, binding_of(&sym),
				  GELF_ST_TYPE(sym.st_info) == STT_GNU_IFUNC);
		if (err)
			return err;
	}
	return 0;
}

int symtab_read(Elf *elf, struct symbol_builder *builder)
{
	struct symtab symtab = { .builder = builder };

	return sections_each(elf, read_table, &symtab);
}
