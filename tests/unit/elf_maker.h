/* SPDX-License-Identifier: GPL-2.0-only */
/* Small ELF files for tests: one executable segment at VADDR, and the symbols asked for. */
#ifndef PTBPF_TESTS_ELF_MAKER_H
#define PTBPF_TESTS_ELF_MAKER_H

#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MADE_TEXT_OFFSET 0x1000
#define MADE_VADDR 0x401000

struct made_symbol {
	const char *name;
	uint64_t start, size;
	uint8_t binding, type;
};

struct made_file {
	uint8_t bytes[65536];
	size_t size;
};

static inline size_t made_append(struct made_file *file, const void *data, size_t size)
{
	size_t at = (file->size + 7) & ~7ul;

	if (at + size > sizeof(file->bytes))
		abort();
	memcpy(file->bytes + at, data, size);
	file->size = at + size;
	return at;
}

static inline void made_symbols(struct made_file *file, Elf64_Shdr *symtab, Elf64_Shdr *strtab,
				const struct made_symbol *symbols, size_t n)
{
	static char strings[32768];
	static Elf64_Sym table[512];
	size_t used = 1;

	memset(table, 0, sizeof(table));
	for (size_t i = 0; i < n; i++) {
		size_t len = strlen(symbols[i].name) + 1;

		if (used + len > sizeof(strings) || i + 1 >= 512)
			abort();
		memcpy(strings + used, symbols[i].name, len);
		table[i + 1] = (Elf64_Sym){
			.st_name = used,
			.st_info = ELF64_ST_INFO(symbols[i].binding, symbols[i].type),
			.st_shndx = 1,
			.st_value = symbols[i].start,
			.st_size = symbols[i].size,
		};
		used += len;
	}
	*symtab = (Elf64_Shdr){ .sh_type = SHT_SYMTAB,
				.sh_size = (n + 1) * sizeof(Elf64_Sym),
				.sh_link = 3,
				.sh_entsize = sizeof(Elf64_Sym) };
	symtab->sh_offset = made_append(file, table, symtab->sh_size);
	*strtab = (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_size = used };
	strtab->sh_offset = made_append(file, strings, used);
}

/* @text_size bytes of @text at MADE_VADDR; with a build-id of 20 times @id unless that is 0. */
static inline void made_elf(struct made_file *file, const void *text, size_t text_size, uint8_t id,
			    const struct made_symbol *symbols, size_t n)
{
	static const char names[] = "\0.text\0.symtab\0.strtab\0.shstrtab\0.note.gnu.build-id";
	struct {
		Elf64_Nhdr head;
		char name[4];
		uint8_t id[20];
	} note = { { 4, 20, NT_GNU_BUILD_ID }, "GNU", { 0 } };
	Elf64_Shdr sections[6] = { 0 };
	Elf64_Phdr phdrs[2] = { 0 };
	Elf64_Ehdr ehdr = {
		.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, 1 },
		.e_type = ET_DYN,
		.e_machine = EM_X86_64,
		.e_version = 1,
		.e_ehsize = sizeof(Elf64_Ehdr),
		.e_phoff = sizeof(Elf64_Ehdr),
		.e_phentsize = sizeof(Elf64_Phdr),
		.e_phnum = id ? 2 : 1,
		.e_shentsize = sizeof(Elf64_Shdr),
		.e_shnum = id ? 6 : 5,
		.e_shstrndx = 4,
	};

	memset(file, 0, sizeof(*file));
	memset(note.id, id, sizeof(note.id));
	memcpy(file->bytes + MADE_TEXT_OFFSET, text, text_size);
	file->size = MADE_TEXT_OFFSET + text_size;
	phdrs[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
				 .p_flags = PF_R | PF_X,
				 .p_offset = MADE_TEXT_OFFSET,
				 .p_vaddr = MADE_VADDR,
				 .p_filesz = text_size,
				 .p_memsz = text_size,
				 .p_align = 4096 };
	sections[1] = (Elf64_Shdr){ .sh_name = 1,
				    .sh_type = SHT_PROGBITS,
				    .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
				    .sh_addr = MADE_VADDR,
				    .sh_offset = MADE_TEXT_OFFSET,
				    .sh_size = text_size };
	made_symbols(file, &sections[2], &sections[3], symbols, n);
	sections[2].sh_name = 7;
	sections[3].sh_name = 15;
	sections[4] =
		(Elf64_Shdr){ .sh_name = 23, .sh_type = SHT_STRTAB, .sh_size = sizeof(names) };
	sections[4].sh_offset = made_append(file, names, sizeof(names));
	sections[5] = (Elf64_Shdr){ .sh_name = 33,
				    .sh_type = SHT_NOTE,
				    .sh_flags = SHF_ALLOC,
				    .sh_size = sizeof(note),
				    .sh_addralign = 4 };
	sections[5].sh_offset = made_append(file, &note, sizeof(note));
	phdrs[1] = (Elf64_Phdr){ .p_type = PT_NOTE,
				 .p_offset = sections[5].sh_offset,
				 .p_filesz = sizeof(note),
				 .p_memsz = sizeof(note),
				 .p_align = 4 };
	ehdr.e_shoff = made_append(file, sections, sizeof(sections));
	memcpy(file->bytes, &ehdr, sizeof(ehdr));
	memcpy(file->bytes + sizeof(ehdr), phdrs, sizeof(phdrs));
}

static inline void made_write(const char *path, const void *bytes, size_t size)
{
	int fd = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size || close(fd))
		abort();
}

#endif
