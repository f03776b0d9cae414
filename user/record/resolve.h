/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Where a trigger leads: from a `sym:` or `addr:` trigger and one object that is mapped executable
 * to the places to probe. Reads the object, and where OBJECT! is a symbolic link. Addresses are the
 * object's own (ELF virtual addresses); the caller adds the load bias of each mapping.
 */
#ifndef PTBPF_RECORD_RESOLVE_H
#define PTBPF_RECORD_RESOLVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"
#include "image/object.h"
#include "record/trigger.h"

#define RESOLVE_MAX_SITES 64 /* of one trigger over all objects; more: "narrow it" */
#define RESOLVE_NEAREST 5

struct resolve_site {
	uint64_t offset; /* file offset of the probed instruction, for a uprobe */
	uint64_t vaddr;  /* its address; where the trace of the firing thread ends */
	/*
	 * The address that the trigger names. The probe stands a few bytes further when the
	 * function begins with `endbr64; push REG`: the kernel emulates the push (1 us), but steps
	 * endbr64 out of line (20 us, and PT would run through a page that is in no file).
	 */
	uint64_t entry;
	char *symbol;  /* as in the symbol table; "" when no symbol covers the address */
	char *display; /* "FUNC", "FUNC+0x1f" (demangled) or "OBJECT+0xOFF", for people */
	bool ifunc;    /* one of the implementations an indirect function may choose */
};

typedef VEC(struct resolve_site) resolve_sites;

/*
 * May @path (as it is mapped) be the object that the trigger means? Always without OBJECT!; else
 * path, base name, glob of either, or the base name up to ".so" (libc for libc.so.6).
 */
bool resolve_object_wanted(const struct trigger *trigger, const char *path);

/*
 * Appends the sites of @trigger in @object, distinct, by address; @path is how messages name it.
 * 0: at least one was added; -ENOENT: nothing here matches (another object may); -E2BIG: more than
 * RESOLVE_MAX_SITES in @sites; -EINVAL: what matches cannot be probed (an offset inside an
 * instruction, no code there, ...); -ENOMEM. @why is filled for each but 0 and -ENOENT, to follow
 * the trigger's text; @sites then holds what it held before.
 */
int resolve_object(const struct trigger *trigger, const struct object *object, const char *path,
		   resolve_sites *sites, char *why, size_t why_size);
void resolve_sites_fini(resolve_sites *sites);

/* The names nearest to one that was not found, best first; zeroed is empty. */
struct resolve_nearest {
	char *names[RESOLVE_NEAREST];
	unsigned int distance[RESOLVE_NEAREST];
	size_t n;
};

/* Considers every function of @object. 0, -ENOMEM. */
int resolve_nearest_add(struct resolve_nearest *nearest, const struct trigger *trigger,
			const struct object *object);
/* "nearest names: a, b, c" into @buf; "" without any. Returns @buf. */
const char *resolve_nearest_text(const struct resolve_nearest *nearest, char *buf, size_t buf_size);
void resolve_nearest_fini(struct resolve_nearest *nearest);

#endif
