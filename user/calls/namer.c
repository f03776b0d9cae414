// SPDX-License-Identifier: GPL-2.0-only
#include "calls/namer.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"

#define CACHE_SIZE 8192u

/* A function as the image room names it. */
struct known {
	const struct symbol *symbol;
	const struct symbol *whole; /* what a .cold part belongs to; else the symbol itself */
	const struct object *object;
	uint32_t next; /* in its bucket */
};

struct cached {
	uint64_t addr;
	uint64_t from_ns, to_ns; /* of the mapping */
	struct calls_function function;
	bool named, used;
};

struct namer {
	const struct space *space;
	pid_t pid;
	VEC(struct known) known; /* by id */
	uint32_t buckets[1024];
	struct cached *cache; /* CACHE_SIZE; while the thread is decoded */
};

int namer_new(const struct space *space, pid_t pid, struct namer **made)
{
	struct namer *namer = calloc(1, sizeof(*namer));

	if (!namer)
		return -ENOMEM;
	namer->space = space;
	namer->pid = pid;
	memset(namer->buckets, 0xff, sizeof(namer->buckets));
	*made = namer;
	return 0;
}

void namer_drop_cache(struct namer *namer)
{
	free(namer->cache);
	namer->cache = NULL;
}

void namer_free(struct namer *namer)
{
	if (!namer)
		return;
	namer_drop_cache(namer);
	vec_free(&namer->known);
	free(namer);
}

static uint32_t hash_pointer(const void *pointer)
{
	return (uint32_t)(((uintptr_t)pointer * 0x9e3779b97f4a7c15ull) >> 40);
}

/* Length of a name without its .cold or .cold.N; 0: it has none. */
static size_t whole_length(const char *name)
{
	const char *cold = NULL, *found = name;

	while ((found = strstr(found, ".cold"))) {
		if (!found[5] || (found[5] == '.' && found[6] >= '0' && found[6] <= '9'))
			cold = found;
		found += 5;
	}
	return cold ? (size_t)(cold - name) : 0;
}

struct whole_search {
	const char *name;
	uint64_t near;
	const struct symbol *found;
};

static uint64_t distance(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

/* Functions of one name (static ones) each have their part: the nearest is as good a guess as any.
 */
static int match_whole(void *ctx, const struct symbol *symbol)
{
	struct whole_search *search = ctx;

	if (!strcmp(symbol->name, search->name) &&
	    (!search->found ||
	     distance(symbol->start, search->near) < distance(search->found->start, search->near)))
		search->found = symbol;
	return 0;
}

static const struct symbol *find_whole(const struct object *object, const struct symbol *symbol)
{
	const size_t length = whole_length(symbol->name);
	scoped_free char *name = length ? strndup(symbol->name, length) : NULL;
	struct whole_search search = { .name = name, .near = symbol->start };

	if (!name)
		return symbol;
	object_match(object, name, match_whole, &search);
	return search.found ? search.found : symbol;
}

/* CALLS_NO_NAME: no memory; then the function goes by its address. */
static uint32_t known_id(struct namer *namer, const struct space_name *name)
{
	const uint32_t bucket = hash_pointer(name->symbol) % ARRAY_SIZE(namer->buckets);
	struct known known = {
		.symbol = name->symbol,
		.object = name->mapping->object,
		.next = namer->buckets[bucket],
	};

	for (uint32_t i = namer->buckets[bucket]; i != CALLS_NO_NAME;
	     i = namer->known.data[i].next) {
		if (namer->known.data[i].symbol == name->symbol)
			return i;
	}
	known.whole = find_whole(known.object, known.symbol);
	if (vec_push(&namer->known, known))
		return CALLS_NO_NAME;
	namer->buckets[bucket] = (uint32_t)namer->known.len - 1;
	return namer->buckets[bucket];
}

static bool is_stub(const char *name)
{
	const size_t length = strlen(name);

	return (length > 4 && !strcmp(name + length - 4, "@plt")) ||
	       !strncmp(name, "__x86_indirect_thunk_", 21) ||
	       !strncmp(name, "__llvm_retpoline_", 17);
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

/* Saved memory is one symbol with the file's name, for perf; it holds any number of functions. */
static bool is_saved_memory(const struct space_mapping *mapping)
{
	return mapping->path && strstr(mapping->path, "/images/anon-");
}

/* What the user calls the object; memory that a snapshot saved by what it was. */
static const char *object_name(const char *path)
{
	if (!path || !strncmp(path, "//anon", 6) || strstr(path, "/images/anon-"))
		return "[anon]";
	return strstr(path, "/images/vdso-") ? "[vdso]" : base_name(path);
}

static bool resolve(struct namer *namer, uint64_t addr, uint64_t time_ns, struct cached *cached)
{
	struct calls_function *function = &cached->function;
	struct space_name name = { .symbol = NULL };
	const struct known *known;

	*function = (struct calls_function){ .id = CALLS_NO_NAME, .entry = addr };
	if (!space_name(namer->space, namer->pid, addr, time_ns, &name)) {
		/* Nothing is known there, and a mapping may come: one page, for now. */
		function->start = addr & ~0xfffull;
		function->end = function->start + 0x1000;
		cached->from_ns = cached->to_ns = time_ns;
		return false;
	}
	cached->from_ns = name.mapping->from_ns;
	cached->to_ns = name.mapping->to_ns;
	function->start = name.mapping->addr;
	function->end = name.mapping->addr + name.mapping->len;
	if (!name.symbol || is_saved_memory(name.mapping))
		return false;
	function->id = known_id(namer, &name);
	if (function->id == CALLS_NO_NAME)
		return false;
	known = &namer->known.data[function->id];
	function->start = name.start;
	function->end = name.start + (name.symbol->size ? name.symbol->size : 1);
	function->entry = name.start + (known->whole->start - known->symbol->start);
	function->is_stub = is_stub(known->symbol->name);
	function->resumes_unwind = !strcmp(known->symbol->name, "_Unwind_Resume");
	return true;
}

bool namer_look_up(void *ctx, uint64_t addr, uint64_t time_ns, struct calls_function *function)
{
	struct namer *namer = ctx;
	struct cached uncached = { .used = false }, *cached = &uncached;

	if (!namer->cache)
		namer->cache = calloc(CACHE_SIZE, sizeof(*namer->cache));
	if (namer->cache)
		cached = &namer->cache[((addr * 0x9e3779b97f4a7c15ull) >> 48) % CACHE_SIZE];
	if (!cached->used || cached->addr != addr || time_ns < cached->from_ns ||
	    time_ns >= cached->to_ns) {
		cached->addr = addr;
		cached->used = true;
		cached->named = resolve(namer, addr, time_ns, cached);
	}
	*function = cached->function;
	return cached->named;
}

/* One name in the table; found again by its strings. */
struct names {
	struct timeline *timeline;
	uint32_t *buckets; /* index + 1 into the names */
	size_t n_buckets;  /* a power of two */
};

int names_new(struct timeline *timeline, struct names **made)
{
	struct names *names = calloc(1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	names->timeline = timeline;
	names->n_buckets = 1024;
	names->buckets = calloc(names->n_buckets, sizeof(*names->buckets));
	if (!names->buckets) {
		free(names);
		return -ENOMEM;
	}
	*made = names;
	return 0;
}

void names_free(struct names *names)
{
	if (!names)
		return;
	free(names->buckets);
	free(names);
}

static uint64_t hash_text(uint64_t hash, const char *text)
{
	for (; text && *text; text++)
		hash = (hash ^ (uint8_t)*text) * 0x100000001b3ull;
	return (hash ^ 0xff) * 0x100000001b3ull;
}

static uint64_t hash_name(const struct timeline_name *name)
{
	uint64_t hash = hash_text(0xcbf29ce484222325ull, name->function);

	hash = hash_text(hash_text(hash, name->mangled), name->object);
	return hash ^ hash >> 29;
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

static bool same_name(const struct timeline_name *a, const struct timeline_name *b)
{
	return same_text(a->function, b->function) && same_text(a->mangled, b->mangled) &&
	       same_text(a->object, b->object);
}

static int grow_buckets(struct names *names)
{
	const size_t n = names->n_buckets * 4;
	uint32_t *buckets = calloc(n, sizeof(*buckets));

	if (!buckets)
		return -ENOMEM;
	for (size_t i = 0; i < names->timeline->names.len; i++) {
		size_t at = hash_name(&names->timeline->names.data[i]) & (n - 1);

		while (buckets[at])
			at = (at + 1) & (n - 1);
		buckets[at] = (uint32_t)i + 1;
	}
	free(names->buckets);
	names->buckets = buckets;
	names->n_buckets = n;
	return 0;
}

/* The index of an equal name, or of a copy of this one. */
static int intern(struct names *names, const struct timeline_name *name, uint32_t *index)
{
	struct timeline *timeline = names->timeline;
	struct timeline_name copy;
	size_t at;

	if (timeline->names.len * 2 >= names->n_buckets && grow_buckets(names))
		return -ENOMEM;
	at = hash_name(name) & (names->n_buckets - 1);
	for (; names->buckets[at]; at = (at + 1) & (names->n_buckets - 1)) {
		*index = names->buckets[at] - 1;
		if (same_name(name, &timeline->names.data[*index]))
			return 0;
	}
	copy = (struct timeline_name){
		.function = strdup(name->function),
		.mangled = name->mangled ? strdup(name->mangled) : NULL,
		.object = strdup(name->object),
	};
	if (!copy.function || !copy.object || (name->mangled && !copy.mangled) ||
	    vec_push(&timeline->names, copy)) {
		free(copy.function);
		free(copy.mangled);
		free(copy.object);
		return -ENOMEM;
	}
	*index = (uint32_t)timeline->names.len - 1;
	names->buckets[at] = *index + 1;
	return 0;
}

static int intern_known(struct names *names, const struct known *known, uint32_t *index)
{
	const struct symbol *symbol = known->whole;
	const char *demangled = symbol->demangled ? symbol->demangled : symbol->name;
	const size_t length = strlen(demangled);
	const bool plt = length > 4 && !strcmp(demangled + length - 4, "@plt");
	scoped_free char *function = strndup(demangled, plt ? length - 4 : length);
	const struct timeline_name name = {
		.function = function,
		.mangled = demangled == symbol->name || !strcmp(demangled, symbol->name) ?
				   NULL :
				   (char *)symbol->name,
		.object = (char *)object_name(object_path(known->object)),
	};

	return function ? intern(names, &name, index) : -ENOMEM;
}

/* OBJECT+0xOFF, as an addr: trigger takes it; memory without a file by its address. */
static int intern_address(struct names *names, const struct namer *namer, const struct slice *slice,
			  uint32_t *index)
{
	const struct space_mapping *mapping =
		space_find(namer->space, namer->pid, slice->address, slice->begin_ns);
	const char *object = mapping ? object_name(mapping->path) : "";
	const bool has_file = *object && *object != '[';
	uint64_t offset = slice->address;
	scoped_free char *text = NULL;
	struct timeline_name name = { .object = (char *)object };

	if (has_file) {
		offset += mapping->pgoff - mapping->addr;
		if (mapping->object)
			object_offset_to_vaddr(mapping->object, offset, &offset);
	}
	if (asprintf(&text, "%s%s0x%llx", has_file ? object : "", has_file ? "+" : "",
		     (unsigned long long)offset) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	name.function = text;
	return intern(names, &name, index);
}

int names_add(struct names *names, const struct namer *namer, struct thread_timeline *thread)
{
	scoped_free uint32_t *map = malloc((namer->known.len + 1) * sizeof(*map));
	struct slice *slice;
	int err = 0;

	if (!map)
		return -ENOMEM;
	memset(map, 0xff, (namer->known.len + 1) * sizeof(*map));
	vec_for_each(slice, &thread->slices) {
		const uint32_t id = slice->name;

		if (id == CALLS_NO_NAME)
			err = intern_address(names, namer, slice, &slice->name);
		else if (map[id] == UINT32_MAX)
			err = intern_known(names, &namer->known.data[id], &map[id]);
		if (err)
			return err;
		if (id != CALLS_NO_NAME)
			slice->name = map[id];
	}
	return 0;
}
