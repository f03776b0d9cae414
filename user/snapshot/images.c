// SPDX-License-Identifier: GPL-2.0-only
#include "snapshot/images.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "snapshot/sink.h"

#define CODE_OFFSET 4096u

/*
 * Everything but the code and the names lies in the first page; the code's virtual address is its
 * file offset, so that no reader has to convert one into the other.
 */
struct image_head {
	Elf64_Ehdr ehdr;
	Elf64_Phdr load, note;
	struct {
		Elf64_Nhdr header;
		char owner[4];
		uint8_t id[20];
	} build_id;
	Elf64_Sym symbols[2];
	Elf64_Shdr sections[6];
	char section_names[64];
};
_Static_assert(sizeof(struct image_head) <= CODE_OFFSET, "head fits its page");

enum { SECTION_NONE, SECTION_NOTE, SECTION_TEXT, SECTION_SYMTAB, SECTION_STRTAB, SECTION_NAMES };

/* Identifies content within snapshots: no protection against anyone who wants a collision. */
static void content_id(const uint8_t *bytes, size_t size, uint8_t id[20])
{
	uint64_t lanes[3] = { 0xcbf29ce484222325ull, 0x84222325cbf29ce4ull, size };

	for (size_t i = 0; i < size; i++) {
		lanes[0] = (lanes[0] ^ bytes[i]) * 0x100000001b3ull;
		lanes[1] = (lanes[1] ^ (lanes[1] >> 29) ^ bytes[i]) * 0x9e3779b97f4a7c15ull;
	}
	lanes[2] = (lanes[2] ^ lanes[0]) * 0x9e3779b97f4a7c15ull;
	memcpy(id, lanes, 20);
}

static void fill_sections(struct image_head *head, size_t size, size_t name_size)
{
	static const char names[] = "\0.note.gnu.build-id\0.text\0.symtab\0.strtab\0.shstrtab";
	const struct {
		const char *name;
		Elf64_Word type, flags, link, info, alignment, entry;
		uint64_t offset, size;
	} table[] = {
		[SECTION_NOTE] = { ".note.gnu.build-id", SHT_NOTE, SHF_ALLOC, 0, 0, 4, 0,
				   offsetof(struct image_head, build_id), sizeof(head->build_id) },
		[SECTION_TEXT] = { ".text", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, 0, 0, 1, 0,
				   CODE_OFFSET, size },
		[SECTION_SYMTAB] = { ".symtab", SHT_SYMTAB, 0, SECTION_STRTAB, 1, 8,
				     sizeof(Elf64_Sym), offsetof(struct image_head, symbols),
				     sizeof(head->symbols) },
		[SECTION_STRTAB] = { ".strtab", SHT_STRTAB, 0, 0, 0, 1, 0, CODE_OFFSET + size,
				     name_size + 1 },
		[SECTION_NAMES] = { ".shstrtab", SHT_STRTAB, 0, 0, 0, 1, 0,
				    offsetof(struct image_head, section_names), sizeof(names) },
	};

	memcpy(head->section_names, names, sizeof(names));
	for (size_t i = SECTION_NOTE; i < ARRAY_SIZE(table); i++) {
		const char *name =
			memmem(names, sizeof(names), table[i].name, strlen(table[i].name) + 1);

		head->sections[i] = (Elf64_Shdr){
			.sh_name = (Elf64_Word)(name - names),
			.sh_type = table[i].type,
			.sh_flags = table[i].flags,
			.sh_addr = table[i].flags & SHF_ALLOC ? table[i].offset : 0,
			.sh_offset = table[i].offset,
			.sh_size = table[i].size,
			.sh_link = table[i].link,
			.sh_info = table[i].info,
			.sh_addralign = table[i].alignment,
			.sh_entsize = table[i].entry,
		};
	}
}

static void fill_head(struct image_head *head, const void *bytes, size_t size, size_t name_size)
{
	*head = (struct image_head){
		.ehdr = {
			.e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
				     EV_CURRENT },
			.e_type = ET_DYN,
			.e_machine = EM_X86_64,
			.e_version = EV_CURRENT,
			.e_phoff = offsetof(struct image_head, load),
			.e_shoff = offsetof(struct image_head, sections),
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = 2,
			.e_shentsize = sizeof(Elf64_Shdr),
			.e_shnum = ARRAY_SIZE(head->sections),
			.e_shstrndx = SECTION_NAMES,
		},
		.load = { PT_LOAD, PF_R | PF_X, CODE_OFFSET, CODE_OFFSET, CODE_OFFSET, size, size,
			  CODE_OFFSET },
		.note = { PT_NOTE, PF_R, offsetof(struct image_head, build_id),
			  offsetof(struct image_head, build_id),
			  offsetof(struct image_head, build_id), sizeof(head->build_id),
			  sizeof(head->build_id), 4 },
		.build_id = { { 4, 20, NT_GNU_BUILD_ID }, "GNU", { 0 } },
		.symbols = { { 0 }, { 1, ELF64_ST_INFO(STB_GLOBAL, STT_FUNC), STV_DEFAULT,
				      SECTION_TEXT, CODE_OFFSET, size } },
	};
	content_id(bytes, size, head->build_id.id);
	fill_sections(head, size, name_size);
}

static void put_elf(struct sink *sink, const char *name, const void *bytes, size_t size,
		    struct image_file *image)
{
	struct image_head head;

	fill_head(&head, bytes, size, strlen(name) + 1);
	sink_write(sink, &head, sizeof(head));
	sink_align(sink, CODE_OFFSET);
	sink_write(sink, bytes, size);
	sink_write(sink, "", 1);
	sink_write(sink, name, strlen(name) + 1);
	image->pgoff = CODE_OFFSET;
	image->build_id_size = sizeof(head.build_id.id);
	memcpy(image->build_id, head.build_id.id, sizeof(head.build_id.id));
}

int image_file_write(int images_fd, const char *name, const void *bytes, size_t size,
		     struct image_file *image)
{
	scoped_free struct sink *sink = malloc(sizeof(*sink));
	scoped_fd int fd = -1;
	int err;

	*image = (struct image_file){ 0 };
	if (!sink)
		return -ENOMEM;
	fd = openat(images_fd, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	sink_init(sink, fd);
	if (size >= SELFMAG && !memcmp(bytes, ELFMAG, SELFMAG)) {
		sink_write(sink, bytes, size);
		image->build_id_size = image_build_id(bytes, size, image->build_id);
	} else {
		put_elf(sink, name, bytes, size, image);
	}
	err = sink_flush(sink);
	if (err)
		unlinkat(images_fd, name, 0);
	return err;
}

static bool copy_at(const void *elf, size_t size, uint64_t offset, void *out, size_t want)
{
	if (offset > size || want > size - offset)
		return false;
	memcpy(out, (const char *)elf + offset, want);
	return true;
}

static uint8_t find_note(const void *elf, size_t size, const Elf64_Phdr *segment,
			 uint8_t build_id[20])
{
	uint64_t at = segment->p_offset;
	Elf64_Nhdr note;
	char owner[4];

	if (at > size || segment->p_filesz > size - at)
		return 0;
	while (at - segment->p_offset < segment->p_filesz &&
	       copy_at(elf, size, at, &note, sizeof(note))) {
		const uint64_t owner_at = at + sizeof(note);
		const uint64_t value_at = owner_at + (((uint64_t)note.n_namesz + 3) & ~3ull);

		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && note.n_descsz > 0 &&
		    note.n_descsz <= 20 && copy_at(elf, size, owner_at, owner, 4) &&
		    !memcmp(owner, "GNU", 4))
			return copy_at(elf, size, value_at, build_id, note.n_descsz) ?
				       (uint8_t)note.n_descsz :
				       0;
		at = value_at + (((uint64_t)note.n_descsz + 3) & ~3ull);
	}
	return 0;
}

uint8_t image_build_id(const void *elf, size_t size, uint8_t build_id[20])
{
	Elf64_Ehdr ehdr;
	uint8_t found = 0;

	memset(build_id, 0, 20);
	if (!copy_at(elf, size, 0, &ehdr, sizeof(ehdr)) ||
	    memcmp(ehdr.e_ident, ELFMAG, SELFMAG) != 0 || ehdr.e_ident[EI_CLASS] != ELFCLASS64 ||
	    ehdr.e_phentsize != sizeof(Elf64_Phdr))
		return 0;
	for (unsigned int i = 0; !found && i < ehdr.e_phnum; i++) {
		Elf64_Phdr segment;

		if (ehdr.e_phoff > size || !copy_at(elf, size, ehdr.e_phoff + i * sizeof(segment),
						    &segment, sizeof(segment)))
			return 0;
		if (segment.p_type == PT_NOTE)
			found = find_note(elf, size, &segment, build_id);
	}
	return found;
}
