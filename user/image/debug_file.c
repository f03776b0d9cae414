// SPDX-License-Identifier: GPL-2.0-only
#include "image/elf_file.h"

#include <elfutils/libdwelf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <lzma.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/mem.h"

#define DEBUG_ROOT "/usr/lib/debug"
/* Mini debug information is some ten KiB to a few MiB; more is an attack on our memory. */
#define DEBUG_DATA_MAX (64u << 20)
#define DECODER_MEMORY_MAX (128u << 20)

static int open_regular(const char *path)
{
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return -ENOENT;
	return TAKE_FD(fd);
}

static bool same_build_id(int fd, const void *id, ssize_t id_size)
{
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	const void *other;
	bool same;

	if (!elf)
		return false;
	same = elf_kind(elf) == ELF_K_ELF && dwelf_elf_gnu_build_id(elf, &other) == id_size &&
	       !memcmp(id, other, id_size);
	elf_end(elf);
	return same;
}

static bool same_crc(int fd, GElf_Word crc)
{
	uLong sum = crc32(0, NULL, 0);
	uint8_t buf[65536];
	off_t at = 0;
	ssize_t n;

	while ((n = pread(fd, buf, sizeof(buf), at)) > 0) {
		sum = crc32(sum, buf, (uInt)n);
		at += n;
	}
	return n == 0 && sum == crc;
}

static int open_by_build_id(const uint8_t *id, size_t size)
{
	char path[sizeof(DEBUG_ROOT "/.build-id/xx/.debug") + 2 * 64];
	int len = snprintf(path, sizeof(path), DEBUG_ROOT "/.build-id/%02x/", id[0]);

	for (size_t i = 1; i < size && i < 64; i++)
		len += snprintf(path + len, sizeof(path) - len, "%02x", id[i]);
	snprintf(path + len, sizeof(path) - len, ".debug");
	return open_regular(path);
}

int debug_file_open(Elf *elf, const char *path)
{
	static const char *const places[][2] = { { "", "" },
						 { "", "/.debug" },
						 { DEBUG_ROOT, "" } };
	const char *slash = strrchr(path, '/'), *link;
	int dir_len = slash ? (int)(slash - path) : 1;
	const void *id = NULL;
	ssize_t id_size = dwelf_elf_gnu_build_id(elf, &id);
	GElf_Word crc;

	if (id_size > 1) {
		scoped_fd int fd = open_by_build_id(id, id_size);

		if (fd >= 0 && same_build_id(fd, id, id_size))
			return TAKE_FD(fd);
	}
	link = dwelf_elf_gnu_debuglink(elf, &crc);
	if (!link || !*link || strchr(link, '/'))
		return -ENOENT;
	for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
		char name[PATH_MAX];
		scoped_fd int fd = -1;

		if (snprintf(name, sizeof(name), "%s%.*s%s/%s", places[i][0], dir_len,
			     slash ? path : ".", places[i][1], link) >= (int)sizeof(name) ||
		    !strcmp(name, path))
			continue;
		fd = open_regular(name);
		if (fd >= 0 && (id_size > 1 ? same_build_id(fd, id, id_size) : same_crc(fd, crc)))
			return TAKE_FD(fd);
	}
	return -ENOENT;
}

/* Writes what @data decompresses to; a bomb ends at the limit, anything wrong at the error. */
static bool write_decompressed(const Elf_Data *data, int fd)
{
	lzma_stream stream = LZMA_STREAM_INIT;
	uint8_t buf[65536];
	size_t written = 0;
	lzma_ret ret;

	if (lzma_stream_decoder(&stream, DECODER_MEMORY_MAX, 0) != LZMA_OK)
		return false;
	stream.next_in = data->d_buf;
	stream.avail_in = data->d_size;
	do {
		size_t n;

		stream.next_out = buf;
		stream.avail_out = sizeof(buf);
		ret = lzma_code(&stream, LZMA_FINISH);
		n = sizeof(buf) - stream.avail_out;
		if (written + n > DEBUG_DATA_MAX ||
		    pwrite(fd, buf, n, (off_t)written) != (ssize_t)n)
			ret = LZMA_DATA_ERROR;
		written += n;
	} while (ret == LZMA_OK);
	lzma_end(&stream);
	return ret == LZMA_STREAM_END;
}

static int write_section(void *ctx, Elf *elf, const struct file_section *section)
{
	Elf_Data *data;
	int *fd = ctx;

	(void)elf;
	if (strcmp(section->name, ".gnu_debugdata") || section->shdr.sh_size > DEBUG_DATA_MAX)
		return 0;
	data = elf_rawdata(section->scn, NULL);
	if (!data || !data->d_buf || !data->d_size)
		return 0;
	*fd = memfd_create("debugdata", MFD_CLOEXEC);
	if (*fd >= 0 && !write_decompressed(data, *fd)) {
		close(*fd);
		*fd = -1;
	}
	return 1;
}

int debug_data_open(Elf *elf)
{
	int fd = -1;

	sections_each(elf, write_section, &fd);
	return fd >= 0 ? fd : -ENOENT;
}
