/* SPDX-License-Identifier: GPL-2.0-only */
/* Readable names of C++, Rust (v0 and legacy) and D symbols. Sole user of libiberty. Pure. */
#ifndef PTBPF_IMAGE_DEMANGLE_H
#define PTBPF_IMAGE_DEMANGLE_H

#include <stdbool.h>

/* The demangled name, with or without the parameter list; NULL: not mangled, or too much. */
char *demangle_name(const char *mangled, bool parameters);

/* Whether a name could be mangled at all, by its first letters. */
bool demangle_maybe(const char *name);

#endif
