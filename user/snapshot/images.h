/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code that no file holds (vdso, JIT code, other anonymous executable memory), saved as files of
 * the snapshot so that perf and ptbpf read its bytes as they read any other mapping's.
 */
#ifndef PTBPF_SNAPSHOT_IMAGES_H
#define PTBPF_SNAPSHOT_IMAGES_H

#include <stddef.h>
#include <stdint.h>

/* What the MAP event of the saved memory says. */
struct image_file {
	uint64_t pgoff;
	uint8_t build_id[20];
	uint8_t build_id_size;
};

/*
 * Writes the @size bytes of a mapping as @images_fd/@name: memory that is an ELF file itself (a
 * vdso) as it is, any other in an ELF file with one executable segment, one symbol called @name and
 * a build-id of its content. An existing file is replaced. 0 or -errno, no file is left then.
 *
 * The MAP event then has the path .../images/@name; never "[vdso]" or "//anon", for which perf
 * takes its own process's vdso, or nothing.
 */
int image_file_write(int images_fd, const char *name, const void *bytes, size_t size,
		     struct image_file *image);

/* The GNU build-id of an ELF file in memory: its size, or 0. Any bytes are safe. */
uint8_t image_build_id(const void *elf, size_t size, uint8_t build_id[20]);

#endif
