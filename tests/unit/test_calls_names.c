// SPDX-License-Identifier: GPL-2.0-only
/*
 * The image room is played by this file: two mappings that follow each other at one address.
 *
 * links: calls/namer calls/timeline
 */
#include "unit.h"

#include "calls/namer.h"

#define BASE 0x10000u
#define SWITCH_NS 1000u

static const struct symbol symbols[] = {
	{ .start = 0x100, .size = 0x80, .name = "_Z3foov", .demangled = "foo()" },
	{ .start = 0x200, .size = 0x80, .name = "plain", .demangled = "plain" },
	{ .start = 0x300, .size = 0x10, .name = "puts@plt", .demangled = "puts@plt" },
	{ .start = 0x400,
	  .size = 0x20,
	  .name = "_Z3foov.cold",
	  .demangled = "foo() [clone .cold]" },
	{ .start = 0x500, .size = 0x20, .name = "gone.cold.7", .demangled = "gone.cold.7" },
	{ .start = 0x600, .size = 0x20, .name = "_Unwind_Resume", .demangled = "_Unwind_Resume" },
	{ .start = 0x700, .size = 0x20, .name = "not.colder", .demangled = "not.colder" },
	{ .start = 0x800, .size = 0, .name = "empty", .demangled = "empty" },
};
#define N_SYMBOLS (sizeof(symbols) / sizeof(*symbols))

/* Objects are opaque: their addresses are all that anyone needs. */
static const char objects[2];
static int looked_up;

/* At twice the address: memory that a snapshot saved. */
static const struct space_mapping saved = {
	.pid = 1,
	.addr = 2 * BASE,
	.len = 0x1000,
	.to_ns = UINT64_MAX,
	.path = "/tmp/prog-1/images/anon-1-20000",
	.object = (const struct object *)&objects[1],
};
static const struct symbol saved_symbol = {
	.start = 0,
	.size = 0x1000,
	.name = "anon-1-20000",
	.demangled = "anon-1-20000",
};

static const struct space_mapping mappings[] = {
	{ .pid = 1,
	  .addr = BASE,
	  .len = 0x1000,
	  .from_ns = 0,
	  .to_ns = SWITCH_NS,
	  .path = "/lib/first.so",
	  .object = (const struct object *)&objects[0] },
	{ .pid = 1,
	  .addr = BASE,
	  .len = 0x1000,
	  .pgoff = 0x2000,
	  .from_ns = SWITCH_NS,
	  .to_ns = UINT64_MAX,
	  .path = "/lib/second.so" },
};

const struct space_mapping *space_find(const struct space *space, pid_t pid, uint64_t addr,
				       uint64_t time_ns)
{
	(void)space;
	if (pid == 1 && addr >= saved.addr && addr < saved.addr + saved.len)
		return &saved;
	if (pid != 1 || addr < BASE || addr >= BASE + 0x1000)
		return NULL;
	return &mappings[time_ns >= SWITCH_NS];
}

bool space_name(const struct space *space, pid_t pid, uint64_t addr, uint64_t time_ns,
		struct space_name *name)
{
	const struct space_mapping *mapping = space_find(space, pid, addr, time_ns);

	looked_up++;
	if (!mapping)
		return false;
	*name = (struct space_name){ .mapping = mapping, .start = mapping->addr };
	if (mapping == &saved) {
		name->symbol = &saved_symbol;
		return true;
	}
	for (size_t i = 0; mapping->object && i < N_SYMBOLS; i++) {
		const uint64_t size = symbols[i].size ? symbols[i].size : 1;

		if (addr - BASE - symbols[i].start < size) {
			name->symbol = &symbols[i];
			name->start = BASE + symbols[i].start;
		}
	}
	return true;
}

int object_match(const struct object *object, const char *pattern, object_match_fn fn, void *ctx)
{
	(void)object;
	for (size_t i = 0; i < N_SYMBOLS; i++) {
		if (!strcmp(symbols[i].name, pattern) && fn(ctx, &symbols[i]))
			return 1;
	}
	return 0;
}

const char *object_path(const struct object *object)
{
	return object == (const struct object *)&objects[0] ? "/lib/first.so" : "/lib/other.so";
}

int object_offset_to_vaddr(const struct object *object, uint64_t offset, uint64_t *vaddr)
{
	(void)object;
	*vaddr = offset + 0x400000;
	return 0;
}

static struct namer *new_namer(pid_t pid)
{
	struct namer *namer;

	CHECK_EQ(namer_new(NULL, pid, &namer), 0);
	return namer;
}

TEST(functions_are_told_apart_by_entry)
{
	struct namer *namer = new_namer(1);
	struct calls_function whole, part, other;

	CHECK(namer_look_up(namer, BASE + 0x110, 5, &whole));
	CHECK_EQ(whole.entry, BASE + 0x100);
	CHECK_EQ(whole.start, BASE + 0x100);
	CHECK_EQ(whole.end, BASE + 0x180);
	CHECK(!whole.is_stub && !whole.resumes_unwind);
	CHECK(namer_look_up(namer, BASE + 0x410, 5, &part));
	CHECK_EQ(part.entry, whole.entry);
	CHECK_EQ(part.start, BASE + 0x400);
	CHECK(namer_look_up(namer, BASE + 0x510, 5, &other));
	CHECK_EQ(other.entry, BASE + 0x500); /* its parent is not to be had */
	CHECK(namer_look_up(namer, BASE + 0x700, 5, &other));
	CHECK_EQ(other.entry, BASE + 0x700);
	CHECK(namer_look_up(namer, BASE + 0x308, 5, &other));
	CHECK(other.is_stub);
	CHECK(namer_look_up(namer, BASE + 0x600, 5, &other));
	CHECK(other.resumes_unwind);
	CHECK(namer_look_up(namer, BASE + 0x800, 5, &other));
	CHECK_EQ(other.end, BASE + 0x801);
	CHECK(!namer_look_up(namer, BASE + 0x900, 5, &other));
	CHECK_EQ(other.id, CALLS_NO_NAME);
	CHECK_EQ(other.start, BASE);
	CHECK(!namer_look_up(namer, 0x90000, 5, &other));
	namer_free(namer);
}

TEST(answers_are_remembered_as_long_as_the_mapping_lasts)
{
	struct namer *namer = new_namer(1);
	struct calls_function function;

	looked_up = 0;
	for (uint64_t time_ns = 1; time_ns < 10; time_ns++)
		CHECK(namer_look_up(namer, BASE + 0x110, time_ns, &function));
	CHECK_EQ(looked_up, 1);
	CHECK(!namer_look_up(namer, BASE + 0x110, SWITCH_NS, &function));
	CHECK_EQ(looked_up, 2);
	/* Where nothing is mapped, something may be a moment later. */
	CHECK(!namer_look_up(namer, 0x90000, 1, &function));
	CHECK(!namer_look_up(namer, 0x90000, 2, &function));
	CHECK_EQ(looked_up, 4);
	namer_free(namer);
}

static void add_slice(struct thread_timeline *thread, struct namer *namer, uint64_t addr,
		      uint64_t time_ns)
{
	struct calls_function function;
	struct slice slice = { .address = addr, .begin_ns = time_ns, .name = CALLS_NO_NAME };

	if (namer_look_up(namer, addr, time_ns, &function))
		slice.name = function.id;
	CHECK_EQ(vec_push(&thread->slices, slice), 0);
}

static const char *name_of(const struct timeline *timeline, const struct thread_timeline *thread,
			   size_t i)
{
	return timeline->names.data[thread->slices.data[i].name].function;
}

TEST(names_of_all_threads_are_in_one_table)
{
	struct namer *first = new_namer(1), *second = new_namer(1), *nowhere = new_namer(2);
	struct thread_timeline one = { .tid = 1 }, two = { .tid = 2 }, three = { .tid = 3 };
	struct timeline timeline = { .trigger_ns = 0 };
	struct names *names;

	add_slice(&one, first, BASE + 0x200, 5);
	add_slice(&one, first, BASE + 0x410, 5);
	add_slice(&one, first, BASE + 0x300, 5);
	add_slice(&one, first, BASE + 0x900, 5);
	add_slice(&one, first, BASE + 0x900, SWITCH_NS);
	add_slice(&one, first, 2 * BASE + 0x10, 5);
	add_slice(&two, second, BASE + 0x100, 5);
	add_slice(&two, second, BASE + 0x200, 5);
	add_slice(&three, nowhere, BASE + 0x200, 5);
	CHECK_EQ(names_new(&timeline, &names), 0);
	CHECK_EQ(names_add(names, first, &one), 0);
	CHECK_EQ(names_add(names, second, &two), 0);
	CHECK_EQ(names_add(names, nowhere, &three), 0);
	CHECK_STR(name_of(&timeline, &one, 0), "plain");
	CHECK_STR(name_of(&timeline, &one, 1), "foo()");
	CHECK_STR(timeline.names.data[one.slices.data[1].name].mangled, "_Z3foov");
	CHECK(!timeline.names.data[one.slices.data[0].name].mangled);
	CHECK_STR(timeline.names.data[one.slices.data[0].name].object, "first.so");
	CHECK_STR(name_of(&timeline, &one, 2), "puts");
	CHECK_STR(name_of(&timeline, &one, 3), "first.so+0x400900");
	CHECK_STR(name_of(&timeline, &one, 4), "second.so+0x2900"); /* no object: file offset */
	CHECK_STR(name_of(&timeline, &one, 5), "0x20010");
	CHECK_STR(timeline.names.data[one.slices.data[5].name].object, "[anon]");
	CHECK_EQ(two.slices.data[0].name, one.slices.data[1].name);
	CHECK_EQ(two.slices.data[1].name, one.slices.data[0].name);
	CHECK_STR(name_of(&timeline, &three, 0), "0x10200");
	CHECK_EQ(timeline.names.len, 7);
	names_free(names);
	namer_free(first);
	namer_free(second);
	namer_free(nowhere);
	vec_free(&one.slices);
	vec_free(&two.slices);
	vec_free(&three.slices);
	timeline_fini(&timeline);
}

UNIT_MAIN("unit/calls_names")
