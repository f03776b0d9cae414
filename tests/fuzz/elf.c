// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any bytes as an object file.
 *
 * links: image/object image/symbols image/symtab image/plt image/match
 * links: image/debug_file image/demangle
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "image/object.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int count(void *ctx, const struct symbol *symbol)
{
	*(size_t *)ctx += strlen(symbol->name) + strlen(symbol->demangled);
	return 0;
}

/* What a reader of an object relies on. */
static void check(const struct object *object)
{
	static const char *const patterns[] = { "main", "*", "a::b", "f*(int)", "*@plt", "[a-z]?" };
	const struct object_segment *segments;
	const struct symbol *symbols, *found;
	size_t n = object_symbols(object, &symbols), sum = 0;
	uint64_t offset, vaddr;
	uint8_t buf[64];

	for (size_t i = 0; i < n; i++) {
		if (i && symbols[i].start < symbols[i - 1].start)
			abort();
		sum += strlen(symbols[i].demangled);
		found = object_symbol_at(object, symbols[i].start);
		if (found && (found->start > symbols[i].start ||
			      symbols[i].start - found->start >= found->size))
			abort();
	}
	for (size_t i = 0; i < sizeof(patterns) / sizeof(*patterns); i++)
		object_match(object, patterns[i], count, &sum);
	for (size_t i = 0; i < object_segments(object, &segments); i++) {
		if (!object_vaddr_to_offset(object, segments[i].vaddr, &offset))
			object_read(object, offset, buf, sizeof(buf));
		object_offset_to_vaddr(object, segments[i].file_offset, &vaddr);
		object_symbol_at(object, segments[i].vaddr + segments[i].file_size);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int fd = memfd_create("object", MFD_CLOEXEC);
	struct object *object;
	char path[64];

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (!object_open(path, &object)) {
		check(object);
		object_close(object);
	}
	close(fd);
	return 0;
}
