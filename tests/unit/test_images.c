// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: snapshot/images snapshot/sink
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <libelf.h>
#include <sys/auxv.h>

#include "snapshot/images.h"

static char dir_path[] = "/tmp/ptbpf-images.XXXXXX";

static int temporary_directory(void)
{
	CHECK(mkdtemp(dir_path));
	return open(dir_path, O_RDONLY | O_DIRECTORY);
}

static void remove_directory(int dir, const char *name)
{
	CHECK_EQ(unlinkat(dir, name, 0), 0);
	close(dir);
	CHECK_EQ(rmdir(dir_path), 0);
}

static const GElf_Sym *find_symbol(Elf *elf, const char *name, GElf_Sym *symbol)
{
	Elf_Scn *section = NULL;

	while ((section = elf_nextscn(elf, section))) {
		GElf_Shdr header;

		CHECK(gelf_getshdr(section, &header));
		for (int i = 0; header.sh_type == SHT_SYMTAB && i < 2; i++) {
			CHECK(gelf_getsym(elf_getdata(section, NULL), i, symbol));
			if (!strcmp(elf_strptr(elf, header.sh_link, symbol->st_name), name))
				return symbol;
		}
	}
	return NULL;
}

TEST(anonymous_code_becomes_an_elf_file_with_its_bytes_name_and_identity)
{
	const int dir = temporary_directory();
	uint8_t code[10000], back[sizeof(code)];
	struct image_file image, other;
	GElf_Phdr load;
	GElf_Sym symbol;
	Elf *elf;
	int fd;

	for (size_t i = 0; i < sizeof(code); i++)
		code[i] = (uint8_t)(i * 7);
	CHECK_EQ(image_file_write(dir, "anon-1", code, sizeof(code), &image), 0);
	CHECK_EQ(image.build_id_size, 20);
	fd = openat(dir, "anon-1", O_RDONLY);
	CHECK_EQ(pread(fd, back, sizeof(back), (off_t)image.pgoff), sizeof(back));
	CHECK(!memcmp(back, code, sizeof(back)));
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	CHECK(gelf_getphdr(elf, 0, &load));
	CHECK_EQ(load.p_type, PT_LOAD);
	CHECK_EQ(load.p_offset, image.pgoff);
	CHECK_EQ(load.p_vaddr, image.pgoff);
	CHECK_EQ(load.p_filesz, sizeof(code));
	CHECK(find_symbol(elf, "anon-1", &symbol));
	CHECK_EQ(symbol.st_value, image.pgoff);
	CHECK_EQ(symbol.st_size, sizeof(code));
	elf_end(elf);
	code[5000] ^= 1;
	CHECK_EQ(image_file_write(dir, "anon-1", code, sizeof(code), &other), 0);
	CHECK(memcmp(image.build_id, other.build_id, 20));
	close(fd);
	remove_directory(dir, "anon-1");
}

TEST(a_vdso_is_kept_as_it_is)
{
	const int dir = temporary_directory();
	const uint8_t *vdso = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	struct image_file image;
	uint8_t back[4096], build_id[20];
	int fd;

	if (!vdso)
		SKIP("no vdso here");
	CHECK_EQ(image_file_write(dir, "vdso", vdso, sizeof(back), &image), 0);
	CHECK_EQ(image.pgoff, 0);
	CHECK_EQ(image.build_id_size, 20);
	fd = openat(dir, "vdso", O_RDONLY);
	CHECK_EQ(read(fd, back, sizeof(back)), sizeof(back));
	CHECK(!memcmp(back, vdso, sizeof(back)));
	CHECK_EQ(image_build_id(back, sizeof(back), build_id), 20);
	CHECK(!memcmp(build_id, image.build_id, 20));
	close(fd);
	remove_directory(dir, "vdso");
}

TEST(build_id_of_damaged_files_is_none_and_no_crash)
{
	const uint8_t *vdso = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
	uint8_t bytes[4096], build_id[20];

	if (!vdso)
		SKIP("no vdso here");
	for (size_t cut = 0; cut < sizeof(bytes); cut++) {
		uint8_t *exact = malloc(cut);

		memcpy(exact, vdso, cut);
		image_build_id(exact, cut, build_id);
		free(exact);
	}
	for (size_t at = 0; at < 1024; at++) {
		memcpy(bytes, vdso, sizeof(bytes));
		bytes[at] = 0xff;
		image_build_id(bytes, sizeof(bytes), build_id);
	}
	CHECK_EQ(image_build_id("#!/bin/sh", 9, build_id), 0);
}

TEST(a_failed_write_leaves_no_file)
{
	struct image_file image;
	uint8_t code[1] = { 0xc3 };

	CHECK_EQ(image_file_write(-1, "x", code, 1, &image), -EBADF);
	CHECK_EQ(image_file_write(AT_FDCWD, "/nonexistent/x", code, 1, &image), -ENOENT);
}

UNIT_MAIN("unit/images")
