// SPDX-License-Identifier: GPL-2.0-only
#include "record/resolve.h"

#include <elf.h>
#include <errno.h>
#include <fnmatch.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "record/resolve_code.h"

/* One resolve_object() under way. */
struct resolver {
	const struct trigger *trigger;
	const struct object *object;
	const char *path;
	resolve_sites *sites;
	size_t first; /* the first of our own sites in *sites */
	bool refused; /* some place cannot be probed; an error only when all cannot */
	char *why;
	size_t why_size;
};

__attribute__((format(printf, 2, 3))) static int refuse(const struct resolver *resolver,
							const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(resolver->why, resolver->why_size, fmt, args);
	va_end(args);
	return -EINVAL;
}

static const char *base_name(const char *path)
{
	const char *const slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* "bin/server" for "/opt/bin/server", "./server" for "/opt/server". */
static bool is_path_tail(const char *path, const char *tail)
{
	size_t n, len;

	while (!strncmp(tail, "./", 2))
		tail += 2;
	n = strlen(path);
	len = strlen(tail);
	return *tail && len < n && !strcmp(path + n - len, tail) && path[n - len - 1] == '/';
}

static bool is_same_file(const char *path, const char *wanted)
{
	char real[PATH_MAX];

	return strchr(wanted, '/') && realpath(wanted, real) && !strcmp(path, real);
}

bool resolve_object_wanted(const struct trigger *trigger, const char *path)
{
	const char *const wanted = trigger->object;
	const char *const base = base_name(path);
	const size_t len = wanted ? strlen(wanted) : 0;

	if (!wanted)
		return true;
	if (!strcmp(path, wanted) || !strcmp(base, wanted))
		return true;
	if (!strncmp(base, wanted, len) && !strncmp(base + len, ".so", 3))
		return true;
	if (!fnmatch(wanted, path, FNM_NOESCAPE) || !fnmatch(wanted, base, FNM_NOESCAPE))
		return true;
	return is_path_tail(path, wanted) || is_same_file(path, wanted);
}

static void free_site(struct resolve_site *site)
{
	free(site->symbol);
	free(site->display);
}

void resolve_sites_fini(resolve_sites *sites)
{
	struct resolve_site *site;

	vec_for_each(site, sites)
		free_site(site);
	vec_free(sites);
}

static void take_back(const struct resolver *resolver)
{
	while (resolver->sites->len > resolver->first)
		free_site(&resolver->sites->data[--resolver->sites->len]);
}

static bool is_known(const struct resolver *resolver, uint64_t vaddr)
{
	for (size_t i = resolver->first; i < resolver->sites->len; i++) {
		if (resolver->sites->data[i].vaddr == vaddr)
			return true;
	}
	return false;
}

/*
 * Takes the names over. 0, -ENOMEM, -E2BIG, -EINVAL when no file bytes lie there to be executed.
 */
static int add_site(const struct resolver *resolver, const struct symbol *symbol,
		    struct resolve_site site)
{
	int err;

	if (!site.symbol || !site.display)
		err = -ENOMEM;
	else if (!code_is_executable(resolver->object, site.entry))
		err = refuse(resolver, "0x%" PRIx64 " of %s holds no code", site.entry,
			     resolver->path);
	else
		err = 0;
	if (err) {
		free_site(&site);
		return err;
	}
	site.vaddr = site.entry;
	if (symbol && site.entry == symbol->start)
		site.vaddr = code_probe_address(resolver->object, symbol);
	if (is_known(resolver, site.vaddr)) {
		free_site(&site);
		return 0;
	}
	if (resolver->sites->len == RESOLVE_MAX_SITES) {
		free_site(&site);
		refuse(resolver,
		       "more than %d places match; narrow it: fewer wildcards, or OBJECT!FUNC",
		       RESOLVE_MAX_SITES);
		return -E2BIG;
	}
	err = object_vaddr_to_offset(resolver->object, site.vaddr, &site.offset);
	if (!err)
		err = vec_push(resolver->sites, site);
	if (err)
		free_site(&site);
	return err;
}

__attribute__((format(printf, 1, 2))) static char *format(const char *fmt, ...)
{
	va_list args;
	char *text;
	int n;

	va_start(args, fmt);
	n = vasprintf(&text, fmt, args);
	va_end(args);
	return n < 0 ? NULL : text;
}

/* An indirect function's symbol is its resolver: each implementation that it may return instead. */
static int add_implementations(const struct resolver *resolver, const struct symbol *symbol)
{
	uint64_t found[CODE_MAX_TARGETS];
	const size_t n = code_ifunc_targets(resolver->object, symbol, found);

	if (resolver->trigger->offset)
		return refuse(resolver,
			      "%s is chosen among several functions at load time; an "
			      "offset into it has no meaning",
			      symbol->demangled);
	if (!n)
		return refuse(resolver,
			      "%s of %s is chosen at load time (IFUNC), and the file does "
			      "not tell among which functions; name one of them",
			      symbol->demangled, resolver->path);
	for (size_t i = 0; i < n; i++) {
		const struct symbol *const target = object_symbol_at(resolver->object, found[i]);
		const bool named = target && target->start == found[i];
		const struct resolve_site site = {
			.entry = found[i],
			.symbol = strdup(symbol->name),
			.display =
				named ? format("%s [%s]", symbol->demangled, target->demangled) :
					format("%s [0x%" PRIx64 "]", symbol->demangled, found[i]),
			.ifunc = true,
		};
		const struct symbol nameless = { .start = found[i] };
		const int err = add_site(resolver, named ? target : &nameless, site);

		if (err)
			return err;
	}
	return 0;
}

static int check_boundary(const struct resolver *resolver, const struct symbol *symbol,
			  uint64_t vaddr)
{
	uint64_t before, after;

	if (code_is_boundary(resolver->object, symbol, vaddr, &before, &after))
		return 0;
	return refuse(resolver,
		      "0x%" PRIx64
		      " lies inside an instruction; instructions begin at %s+0x%" PRIx64
		      " and %s+0x%" PRIx64,
		      vaddr, symbol->demangled, before - symbol->start, symbol->demangled,
		      after - symbol->start);
}

static int add_function(const struct resolver *resolver, const struct symbol *symbol)
{
	const uint64_t offset = resolver->trigger->offset;
	struct resolve_site site;
	int err;

	if (symbol->is_ifunc)
		return add_implementations(resolver, symbol);
	if (offset && offset >= symbol->size)
		return refuse(resolver, "%s of %s has only 0x%" PRIx64 " bytes", symbol->demangled,
			      resolver->path, symbol->size);
	err = check_boundary(resolver, symbol, symbol->start + offset);
	if (err)
		return err;
	site = (struct resolve_site){
		.entry = symbol->start + offset,
		.symbol = strdup(symbol->name),
		.display = offset ? format("%s+0x%" PRIx64, symbol->demangled, offset) :
				    strdup(symbol->demangled),
	};
	return add_site(resolver, symbol, site);
}

static int on_match(void *ctx, const struct symbol *symbol)
{
	struct resolver *const resolver = ctx;
	const int err = add_function(resolver, symbol);

	if (err != -EINVAL)
		return err;
	resolver->refused = true;
	return 0;
}

static int resolve_address(const struct resolver *resolver)
{
	const uint64_t vaddr = resolver->trigger->offset;
	const struct symbol *symbol;
	struct resolve_site site;
	int err;

	if (!code_is_executable(resolver->object, vaddr))
		return refuse(resolver, "0x%" PRIx64 " is not in executable code of %s", vaddr,
			      resolver->path);
	symbol = object_symbol_at(resolver->object, vaddr);
	err = symbol ? check_boundary(resolver, symbol, vaddr) : 0;
	if (err)
		return err;
	site = (struct resolve_site){ .entry = vaddr,
				      .symbol = strdup(symbol ? symbol->name : "") };
	if (!symbol)
		site.display = format("%s+0x%" PRIx64, base_name(resolver->path), vaddr);
	else if (symbol->start == vaddr)
		site.display = strdup(symbol->demangled);
	else
		site.display = format("%s+0x%" PRIx64, symbol->demangled, vaddr - symbol->start);
	return add_site(resolver, NULL, site); /* NULL: exactly there */
}

static int by_vaddr(const void *a, const void *b)
{
	const struct resolve_site *const x = a, *const y = b;

	return (x->vaddr > y->vaddr) - (x->vaddr < y->vaddr);
}

int resolve_object(const struct trigger *trigger, const struct object *object, const char *path,
		   resolve_sites *sites, char *why, size_t why_size)
{
	struct resolver resolver = {
		.trigger = trigger,
		.object = object,
		.path = path,
		.sites = sites,
		.first = sites->len,
		.why = why,
		.why_size = why_size,
	};
	int err;

	if (!resolve_object_wanted(trigger, path))
		return -ENOENT;
	if (trigger->kind == TRIGGER_ADDR)
		err = resolve_address(&resolver);
	else if (trigger->kind == TRIGGER_SYM)
		err = object_match(object, trigger->function, on_match, &resolver);
	else
		return -ENOENT;
	if (err == -ENOMEM)
		refuse(&resolver, "out of memory");
	if (err) {
		take_back(&resolver);
		return err;
	}
	if (sites->len == resolver.first)
		return resolver.refused ? -EINVAL : -ENOENT;
	qsort(sites->data + resolver.first, sites->len - resolver.first, sizeof(*sites->data),
	      by_vaddr);
	return 0;
}
