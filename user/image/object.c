// SPDX-License-Identifier: GPL-2.0-only
#include "image/object.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "image/elf_file.h"
#include "image/match.h"
#include "image/symbols.h"

#define MAX_SEGMENTS 4096
#define MAX_REGIONS 256
#define MAX_BUILD_ID 64

struct object {
	char *path;
	int fd;
	VEC(struct object_segment) segments;
	uint8_t build_id[MAX_BUILD_ID];
	size_t build_id_size;
	struct symbol_table table;
};

static void free_object(struct object **object)
{
	object_close(*object);
}

static void end_elf(Elf **elf)
{
	elf_end(*elf);
}

void object_close(struct object *object)
{
	if (!object)
		return;
	symbols_table_fini(&object->table);
	vec_free(&object->segments);
	if (object->fd >= 0)
		close(object->fd);
	free(object->path);
	free(object);
}

/* Opens the file without its content. O_NONBLOCK: a fifo must not hold us up. */
static int new_object(const char *path, struct object **out)
{
	scoped(free_object) struct object *object = calloc(1, sizeof(*object));
	struct stat st;

	if (!object)
		return -ENOMEM;
	object->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (object->fd < 0)
		return -errno;
	object->path = strdup(path);
	if (!object->path)
		return -ENOMEM;
	if (fstat(object->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ENOEXEC;
	*out = TAKE_PTR(object);
	return 0;
}

int object_open_flat(const char *path, struct object **out)
{
	scoped(free_object) struct object *object = NULL;
	struct object_segment segment = { .flags = PF_R | PF_X };
	struct stat st;
	int err;

	err = new_object(path, &object);
	if (err)
		return err;
	if (fstat(object->fd, &st))
		return -errno;
	segment.file_size = st.st_size;
	if (vec_push(&object->segments, segment))
		return -ENOMEM;
	*out = TAKE_PTR(object);
	return 0;
}

static int read_segments(struct object *object, Elf *elf)
{
	GElf_Phdr phdr;
	size_t n;

	if (elf_getphdrnum(elf, &n))
		return 0;
	for (size_t i = 0; i < n && i < MAX_SEGMENTS; i++) {
		struct object_segment segment;

		if (!gelf_getphdr(elf, (int)i, &phdr))
			break;
		/* One that wraps around could cover any address. */
		if (phdr.p_type != PT_LOAD || !phdr.p_filesz ||
		    phdr.p_vaddr + phdr.p_filesz < phdr.p_vaddr ||
		    phdr.p_offset + phdr.p_filesz < phdr.p_offset)
			continue;
		segment = (struct object_segment){ phdr.p_offset, phdr.p_filesz, phdr.p_vaddr,
						   phdr.p_flags };
		if (vec_push(&object->segments, segment))
			return -ENOMEM;
	}
	return 0;
}

static int add_section_region(void *ctx, Elf *elf, const struct file_section *section)
{
	const uint64_t code = SHF_ALLOC | SHF_EXECINSTR;
	const GElf_Shdr *shdr = &section->shdr;
	struct symbol_builder *builder = ctx;
	struct code_region region = { shdr->sh_addr, shdr->sh_addr + shdr->sh_size };

	(void)elf;
	if ((shdr->sh_flags & code) != code || region.end <= region.start ||
	    builder->regions.len >= MAX_REGIONS)
		return 0;
	return vec_push(&builder->regions, region);
}

/* Where code may be: segments, refined by sections. */
static int add_regions(const struct object *object, Elf *elf, struct symbol_builder *builder)
{
	const struct object_segment *segment;

	vec_for_each(segment, &object->segments) {
		struct code_region region = { segment->vaddr, segment->vaddr + segment->file_size };

		if ((segment->flags & PF_X) && builder->regions.len < MAX_REGIONS / 2 &&
		    vec_push(&builder->regions, region))
			return -ENOMEM;
	}
	return sections_each(elf, add_section_region, builder);
}

/* Symbols of another file for the same code; a file that cannot be read has none. */
static int read_other(int fd, struct symbol_builder *builder)
{
	scoped(end_elf) Elf *elf = NULL;
	scoped_fd int owned = fd;

	if (owned < 0)
		return 0;
	elf = elf_begin(owned, ELF_C_READ, NULL);
	if (!elf || elf_kind(elf) != ELF_K_ELF)
		return 0;
	return symtab_read(elf, builder);
}

static int read_symbols(struct object *object, Elf *elf)
{
	scoped(symbols_builder_fini) struct symbol_builder builder = { 0 };
	int err;

	err = add_regions(object, elf, &builder);
	if (!err)
		err = symtab_read(elf, &builder);
	if (!err)
		err = read_other(debug_file_open(elf, object->path), &builder);
	if (!err)
		err = read_other(debug_data_open(elf), &builder);
	if (!err)
		err = plt_read(elf, &builder);
	return err ? err : symbols_finish(&builder, &object->table);
}

static bool is_x86(Elf *elf)
{
	GElf_Ehdr ehdr;

	return elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &ehdr) &&
	       ehdr.e_ident[EI_DATA] == ELFDATA2LSB &&
	       (ehdr.e_machine == EM_X86_64 || ehdr.e_machine == EM_386) &&
	       (ehdr.e_type == ET_EXEC || ehdr.e_type == ET_DYN);
}

int object_open(const char *path, struct object **out)
{
	scoped(free_object) struct object *object = NULL;
	scoped(end_elf) Elf *elf = NULL;
	const void *id;
	ssize_t id_size;
	int err;

	err = new_object(path, &object);
	if (err)
		return err;
	elf_version(EV_CURRENT);
	elf = elf_begin(object->fd, ELF_C_READ, NULL);
	if (!elf || !is_x86(elf))
		return -ENOEXEC;
	err = read_segments(object, elf);
	if (err)
		return err;
	id_size = dwelf_elf_gnu_build_id(elf, &id);
	if (id_size > 0 && id_size <= MAX_BUILD_ID) {
		memcpy(object->build_id, id, id_size);
		object->build_id_size = id_size;
	}
	err = read_symbols(object, elf);
	if (err)
		return err;
	*out = TAKE_PTR(object);
	return 0;
}

const char *object_path(const struct object *object)
{
	return object->path;
}

size_t object_segments(const struct object *object, const struct object_segment **segments)
{
	*segments = object->segments.data;
	return object->segments.len;
}

size_t object_build_id(const struct object *object, const uint8_t **id)
{
	*id = object->build_id;
	return object->build_id_size;
}

const struct symbol *object_symbol_at(const struct object *object, uint64_t vaddr)
{
	ptrdiff_t found = symbols_find(&object->table, vaddr);

	return found < 0 ? NULL : symbols_demangle(&object->table.symbols[found]);
}

size_t object_symbols(const struct object *object, const struct symbol **symbols)
{
	for (size_t i = 0; i < object->table.n; i++)
		symbols_demangle(&object->table.symbols[i]);
	*symbols = object->table.symbols;
	return object->table.n;
}

int object_match(const struct object *object, const char *pattern, object_match_fn fn, void *ctx)
{
	return symbols_match(&object->table, pattern, fn, ctx);
}

int object_offset_to_vaddr(const struct object *object, uint64_t offset, uint64_t *vaddr)
{
	const struct object_segment *segment;

	vec_for_each(segment, &object->segments) {
		if (offset - segment->file_offset < segment->file_size) {
			*vaddr = segment->vaddr + (offset - segment->file_offset);
			return 0;
		}
	}
	return -ENOENT;
}

int object_vaddr_to_offset(const struct object *object, uint64_t vaddr, uint64_t *offset)
{
	const struct object_segment *segment;

	vec_for_each(segment, &object->segments) {
		if (vaddr - segment->vaddr < segment->file_size) {
			*offset = segment->file_offset + (vaddr - segment->vaddr);
			return 0;
		}
	}
	return -ENOENT;
}

size_t object_read(const struct object *object, uint64_t offset, void *buf, size_t size)
{
	size_t done = 0;

	while (done < size && offset + done <= INT64_MAX) {
		ssize_t n =
			pread(object->fd, (char *)buf + done, size - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += n;
	}
	return done;
}

struct import {
	const char *name;
	bool found;
};

static int find_import(void *ctx, Elf *elf, const struct file_section *section)
{
	struct import *import = ctx;
	Elf_Data *data;
	GElf_Sym sym;

	if (section->shdr.sh_type != SHT_DYNSYM)
		return 0;
	data = elf_getdata(section->scn, NULL);
	for (int i = 1; data && gelf_getsym(data, i, &sym); i++) {
		const char *name = elf_strptr(elf, section->shdr.sh_link, sym.st_name);

		if (sym.st_shndx == SHN_UNDEF && name && !strcmp(name, import->name)) {
			import->found = true;
			return 1;
		}
	}
	return 1; /* a file has one .dynsym */
}

bool object_imports(const struct object *object, const char *name)
{
	struct import import = { .name = name };
	scoped(end_elf) Elf *elf = elf_begin(object->fd, ELF_C_READ, NULL);

	if (elf)
		sections_each(elf, find_import, &import);
	return import.found;
}
