/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One ELF object (or a flat image of anonymous code): its loadable bytes, build-id and symbols,
 * read once, shared read-only by all threads of ptbpf. Sole user of libelf and libdw.
 */
#ifndef PTBPF_IMAGE_OBJECT_H
#define PTBPF_IMAGE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct object;

struct object_segment {
	uint64_t file_offset, file_size, vaddr;
	uint32_t flags; /* PF_X ... */
};

struct symbol {
	uint64_t start, size;  /* ELF virtual address; size 0 was stretched to the next symbol */
	const char *name;      /* as in the symbol table; "foo@plt" for PLT slots */
	const char *demangled; /* C++, Rust, D; else the same pointer as name */
	bool is_ifunc;         /* STT_GNU_IFUNC: a resolver that returns the function, not it */
};

/*
 * Opens @path: .symtab, .dynsym, .gnu_debugdata, a separate debug file where found, PLT slots by
 * name. 0; -ENOEXEC: not an ELF for x86; -errno of open. A truncated or hostile file gives -ENOEXEC
 * or fewer symbols, never a crash.
 */
int object_open(const char *path, struct object **out);
/*
 * Opens a flat image: offset 0 of the file is virtual address 0, no symbols. 0 or -errno.
 */
int object_open_flat(const char *path, struct object **out);
void object_close(struct object *object);

const char *object_path(const struct object *object);
size_t object_segments(const struct object *object, const struct object_segment **segments);
/* Size of the build-id in *id, 0 without one. */
size_t object_build_id(const struct object *object, const uint8_t **id);

/* Must the dynamic linker find a symbol of this name for the object? Reads the file anew. */
bool object_imports(const struct object *object, const char *name);

/*
 * The innermost symbol that covers @vaddr; NULL without. Binary search; a name is demangled when it
 * is first asked for.
 */
const struct symbol *object_symbol_at(const struct object *object, uint64_t vaddr);
/* All function symbols, sorted by start; aliases kept, the preferred one first. Demangles all. */
size_t object_symbols(const struct object *object, const struct symbol **symbols);

/* File offset <-> ELF virtual address by PT_LOAD. 0, -ENOENT. */
int object_offset_to_vaddr(const struct object *object, uint64_t offset, uint64_t *vaddr);
int object_vaddr_to_offset(const struct object *object, uint64_t vaddr, uint64_t *offset);

/* Bytes of the file at @offset; the count that is there. */
size_t object_read(const struct object *object, uint64_t offset, void *buf, size_t size);

/*
 * Function symbols whose mangled or demangled name (with or without the parameter list) equals
 * @pattern or, when none does, matches it as a glob. PLT slots only match a pattern that says
 * "@plt". Calls fn for each distinct address. 0, or fn's first nonzero.
 */
typedef int (*object_match_fn)(void *ctx, const struct symbol *symbol);
int object_match(const struct object *object, const char *pattern, object_match_fn fn, void *ctx);

#endif
