// SPDX-License-Identifier: GPL-2.0-only
#include "image/demangle.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "base/vec.h"

/* Back references let a short hostile name stand for an endless one. */
#define DEMANGLED_MAX (256 * 1024)
/* libiberty's D reader recurses per letter without a limit of its own. */
#define MANGLED_D_MAX 2048

struct sink {
	VEC(char) text;
	jmp_buf overflow;
};

static void append(const char *text, size_t size, void *sink_)
{
	struct sink *sink = sink_;

	if (sink->text.len + size >= DEMANGLED_MAX || vec_reserve(&sink->text, size + 1))
		longjmp(sink->overflow, 1);
	memcpy(sink->text.data + sink->text.len, text, size);
	sink->text.len += size;
	sink->text.data[sink->text.len] = 0;
}

typedef int (*demangler_fn)(const char *mangled, int options, demangle_callbackref callback,
			    void *opaque);

static char *demangle_with(demangler_fn demangler, const char *mangled, int options)
{
	struct sink sink = { 0 };

	/* The only way to stop libiberty, which keeps what it holds on its stack. */
	if (setjmp(sink.overflow) || !demangler(mangled, options, append, &sink) || !sink.text.len)
		vec_free(&sink.text);
	return sink.text.data;
}

bool demangle_maybe(const char *name)
{
	return name[0] == '_' && (name[1] == 'Z' || name[1] == 'R' || name[1] == 'D');
}

char *demangle_name(const char *mangled, bool parameters)
{
	int options = DMGL_ANSI | (parameters ? DMGL_PARAMS : 0);
	char *name = NULL;

	if (!demangle_maybe(mangled))
		return NULL;
	if (mangled[1] == 'D' && strlen(mangled) <= MANGLED_D_MAX)
		return dlang_demangle(mangled, options);
	if (mangled[1] == 'R' || !strncmp(mangled, "_ZN", 3))
		name = demangle_with(rust_demangle_callback, mangled, options);
	if (!name && mangled[1] == 'Z')
		name = demangle_with(cplus_demangle_v3_callback, mangled, options);
	return name;
}
