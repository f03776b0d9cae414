// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: image/object image/symbols image/symtab image/plt image/match
 * links: image/debug_file image/demangle
 */
#include "image/object.h"

#include <errno.h>
#include <limits.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "elf_maker.h"
#include "unit.h"

#define AT(offset) (MADE_VADDR + (offset))

static const uint8_t code[4096];
static struct made_file made;
static char made_path[PATH_MAX];

static struct object *open_made(void)
{
	const char *dir = getenv("TMPDIR");
	struct object *object;

	snprintf(made_path, sizeof(made_path), "%s/object.%d", dir ? dir : "/tmp", getpid());
	made_write(made_path, made.bytes, made.size);
	CHECK_EQ(object_open(made_path, &object), 0);
	unlink(made_path);
	return object;
}

static const char *name_at(const struct object *object, uint64_t address)
{
	const struct symbol *symbol = object_symbol_at(object, address);

	return symbol ? symbol->name : "-";
}

TEST(aliases_prefer_size_binding_and_fewer_underscores)
{
	const struct made_symbol symbols[] = {
		{ "local", AT(0), 16, STB_LOCAL, STT_FUNC },
		{ "weak", AT(0), 16, STB_WEAK, STT_FUNC },
		{ "__global", AT(0), 16, STB_GLOBAL, STT_FUNC },
		{ "_global", AT(0), 16, STB_GLOBAL, STT_FUNC },
		{ "a_sizeless", AT(0), 0, STB_GLOBAL, STT_FUNC },
		{ "weak2", AT(32), 16, STB_WEAK, STT_FUNC },
		{ "local2", AT(32), 16, STB_LOCAL, STT_FUNC },
	};
	const struct symbol *all;
	struct object *object;

	made_elf(&made, code, sizeof(code), 0, symbols, 7);
	object = open_made();
	CHECK_STR(name_at(object, AT(0)), "_global");
	CHECK_STR(name_at(object, AT(15)), "_global");
	CHECK_STR(name_at(object, AT(32)), "weak2");
	CHECK_EQ(object_symbols(object, &all), 7);
	CHECK_STR(all[0].name, "_global");
	CHECK_STR(all[1].name, "__global");
	CHECK_STR(all[4].name, "a_sizeless");
	object_close(object);
}

TEST(of_equal_aliases_the_shortest_names_the_place)
{
	const struct made_symbol symbols[] = {
		{ "nextafterf32x", AT(0), 16, STB_WEAK, STT_FUNC },
		{ "nextafter", AT(0), 16, STB_WEAK, STT_FUNC },
		{ "nextafterf64", AT(0), 16, STB_WEAK, STT_FUNC },
	};
	struct object *object;

	made_elf(&made, code, sizeof(code), 0, symbols, 3);
	object = open_made();
	CHECK_STR(name_at(object, AT(4)), "nextafter");
	object_close(object);
}

TEST(ranges_end_where_their_symbol_does)
{
	const struct made_symbol symbols[] = {
		{ "outer", AT(0x100), 0x100, STB_GLOBAL, STT_FUNC },
		{ "inner", AT(0x140), 0x10, STB_GLOBAL, STT_FUNC },
		{ "label", AT(0x180), 0, STB_GLOBAL, STT_NOTYPE },
		{ "open", AT(0x300), 0, STB_GLOBAL, STT_FUNC },
		{ "next", AT(0x380), 8, STB_GLOBAL, STT_FUNC },
		{ "last", AT(0x400), 0, STB_GLOBAL, STT_FUNC },
		{ "data", AT(0x500), 8, STB_GLOBAL, STT_OBJECT },
		{ "elsewhere", 0x10, 8, STB_GLOBAL, STT_FUNC },
		{ "endless", AT(0x800), UINT64_MAX, STB_GLOBAL, STT_FUNC },
		{ "_start", AT(0x7f0), 0, STB_LOCAL, STT_NOTYPE },
	};
	struct object *object;

	made_elf(&made, code, sizeof(code), 0, symbols, 10);
	object = open_made();
	CHECK_STR(name_at(object, AT(0xff)), "-");
	CHECK_STR(name_at(object, AT(0x13f)), "outer");
	CHECK_STR(name_at(object, AT(0x140)), "inner");
	CHECK_STR(name_at(object, AT(0x150)), "outer");
	CHECK_STR(name_at(object, AT(0x180)), "outer");
	CHECK_STR(name_at(object, AT(0x1ff)), "outer");
	CHECK_STR(name_at(object, AT(0x200)), "-");
	CHECK_STR(name_at(object, AT(0x37f)), "open");
	CHECK_STR(name_at(object, AT(0x388)), "-");
	CHECK_STR(name_at(object, AT(0x7ef)), "last");
	CHECK_STR(name_at(object, AT(0x7ff)), "_start");
	CHECK_STR(name_at(object, 0x12), "-");
	CHECK_STR(name_at(object, AT(0xfff)), "endless");
	CHECK_STR(name_at(object, AT(0x1000)), "-");
	CHECK_STR(name_at(object, 0), "-");
	CHECK_STR(name_at(object, UINT64_MAX), "-");
	object_close(object);
}

TEST(names_are_demangled_in_every_language)
{
	static const char *const names[][2] = {
		{ "plain", "plain" },
		{ "plain.cold", "plain.cold" },
		{ "_Z3fooiPKc", "foo(int, char const*)" },
		{ "_Z3fooi.cold", "foo(int) [clone .cold]" },
		{ "_ZN4core3fmt5write17h0123456789abcdefE", "core::fmt::write" },
		{ "_RNvC6_123foo3bar", "123foo::bar" },
		{ "_D3std5stdio7writelnFZv", "std.stdio.writeln()" },
		{ "_Zbroken", "_Zbroken" },
	};
	struct made_symbol symbols[8];
	struct object *object;

	for (size_t i = 0; i < 8; i++)
		symbols[i] =
			(struct made_symbol){ names[i][0], AT(16 * i), 16, STB_GLOBAL, STT_FUNC };
	made_elf(&made, code, sizeof(code), 0, symbols, 8);
	object = open_made();
	for (size_t i = 0; i < 8; i++) {
		const struct symbol *symbol = object_symbol_at(object, AT(16 * i));

		CHECK(symbol);
		CHECK_STR(symbol->name, names[i][0]);
		CHECK_STR(symbol->demangled, names[i][1]);
	}
	object_close(object);
}

/* Each parameter is a function that takes the one before twice. */
TEST(a_name_that_explodes_is_left_alone)
{
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char name[512] = "_Z1f1APFvS_S_E";
	struct made_symbol symbol = { name, AT(0), 16, STB_GLOBAL, STT_FUNC };
	struct object *object;

	for (int i = 1; i < 35; i += 2)
		sprintf(name + strlen(name), "PFvS%c_S%c_E", digits[i], digits[i]);
	made_elf(&made, code, sizeof(code), 0, &symbol, 1);
	object = open_made();
	CHECK(!strcmp(object_symbol_at(object, AT(0))->demangled, name));
	object_close(object);
}

struct found {
	char names[512];
	int n;
};

static int add_found(void *ctx, const struct symbol *symbol)
{
	struct found *found = ctx;

	snprintf(found->names + strlen(found->names), sizeof(found->names) - strlen(found->names),
		 "%s%s", found->n++ ? " " : "", symbol->name);
	return 0;
}

static const char *match(const struct object *object, const char *pattern, struct found *found)
{
	memset(found, 0, sizeof(*found));
	CHECK_EQ(object_match(object, pattern, add_found, found), 0);
	return found->names;
}

static int stop(void *ctx, const struct symbol *symbol)
{
	(void)ctx;
	(void)symbol;
	return -E2BIG;
}

TEST(match_takes_mangled_demangled_bare_and_globs)
{
	const struct made_symbol symbols[] = {
		{ "_ZN2ns3fooEi", AT(0), 16, STB_GLOBAL, STT_FUNC },
		{ "_ZN2ns3fooEd", AT(16), 16, STB_GLOBAL, STT_FUNC },
		{ "_ZN2ns3fooEd.cold", AT(32), 16, STB_LOCAL, STT_FUNC },
		{ "_ZN2nsplEi", AT(48), 16, STB_GLOBAL, STT_FUNC },
		{ "handle_get", AT(64), 16, STB_GLOBAL, STT_FUNC },
		{ "handle_put", AT(80), 16, STB_GLOBAL, STT_FUNC },
		{ "handle_alias", AT(80), 16, STB_LOCAL, STT_FUNC },
		{ "_Z4findIiEvT_", AT(112), 16, STB_WEAK, STT_FUNC },
		{ "memcpy@@GLIBC_2.14", AT(128), 16, STB_GLOBAL, STT_FUNC },
		{ "_ZN1AC1Ev", AT(144), 16, STB_GLOBAL, STT_FUNC },
		{ "_ZN2nsmlEi", AT(160), 16, STB_GLOBAL, STT_GNU_IFUNC },
		{ "cloned.constprop.0", AT(176), 16, STB_LOCAL, STT_FUNC },
		{ "cloned.part.0", AT(192), 16, STB_LOCAL, STT_FUNC },
		{ "cloned.constprop.0.cold", AT(208), 16, STB_LOCAL, STT_FUNC },
	};
	struct object *object;
	struct found found;

	made_elf(&made, code, sizeof(code), 0, symbols, ARRAY_SIZE(symbols));
	object = open_made();
	CHECK_STR(match(object, "_ZN2ns3fooEi", &found), "_ZN2ns3fooEi");
	CHECK_STR(match(object, "ns::foo", &found), "_ZN2ns3fooEi _ZN2ns3fooEd");
	CHECK_STR(match(object, "ns::foo(int)", &found), "_ZN2ns3fooEi");
	CHECK_STR(match(object, "foo", &found), "");
	CHECK_STR(match(object, "*foo(double)", &found), "_ZN2ns3fooEd");
	CHECK_STR(match(object, "ns::operator*", &found), "_ZN2nsmlEi");
	CHECK(object_symbol_at(object, AT(160))->is_ifunc);
	CHECK(!object_symbol_at(object, AT(144))->is_ifunc);
	CHECK_STR(match(object, "ns::operator+", &found), "_ZN2nsplEi");
	CHECK_STR(match(object, "handle_*", &found), "handle_get handle_put");
	CHECK_STR(match(object, "handle_alias", &found), "handle_alias");
	CHECK_STR(match(object, "handle_[gp]?t", &found), "handle_get handle_put");
	CHECK_STR(match(object, "find<int>", &found), "_Z4findIiEvT_");
	CHECK_STR(match(object, "void find<int>(int)", &found), "_Z4findIiEvT_");
	CHECK_STR(match(object, "memcpy", &found), "memcpy");
	CHECK_STR(match(object, "cloned", &found), "cloned.constprop.0");
	CHECK_STR(match(object, "A::A", &found), "_ZN1AC1Ev");
	CHECK_STR(match(object, "", &found), "");
	CHECK_EQ(object_match(object, "handle_*", stop, NULL), -E2BIG);
	object_close(object);
}

TEST(offsets_addresses_bytes_and_build_id)
{
	const struct object_segment *segments;
	uint8_t text[64] = { 0x90, 0xc3 }, buf[8];
	uint64_t value;
	struct object *object;
	const uint8_t *id;

	made_elf(&made, text, sizeof(text), 0x5a, NULL, 0);
	object = open_made();
	CHECK_EQ(object_build_id(object, &id), 20);
	CHECK_EQ(id[19], 0x5a);
	CHECK_EQ(object_segments(object, &segments), 1);
	CHECK_EQ(segments[0].vaddr, MADE_VADDR);
	CHECK_EQ(object_offset_to_vaddr(object, MADE_TEXT_OFFSET + 1, &value), 0);
	CHECK_EQ(value, AT(1));
	CHECK_EQ(object_offset_to_vaddr(object, MADE_TEXT_OFFSET + 64, &value), -ENOENT);
	CHECK_EQ(object_vaddr_to_offset(object, AT(63), &value), 0);
	CHECK_EQ(value, MADE_TEXT_OFFSET + 63);
	CHECK_EQ(object_vaddr_to_offset(object, AT(64), &value), -ENOENT);
	CHECK_EQ(object_read(object, MADE_TEXT_OFFSET + 1, buf, 8), 8);
	CHECK_EQ(buf[0], 0xc3);
	CHECK_EQ(object_read(object, made.size - 2, buf, 8), 2);
	CHECK_EQ(object_read(object, UINT64_MAX - 1, buf, 8), 0);
	object_close(object);
}

TEST(own_binary_has_its_functions_and_plt)
{
	struct object *object;
	struct found found;

	CHECK_EQ(object_open("/proc/self/exe", &object), 0);
	CHECK_STR(match(object, "add_found", &found), "add_found");
	CHECK_STR(match(object, "fnmatch@plt", &found), "fnmatch@plt");
	CHECK_EQ(found.n, 1);
	CHECK_STR(match(object, "fnmatch*", &found), "");
	object_close(object);
}

TEST(imports_are_what_the_linker_must_find)
{
	struct object *object;

	CHECK_EQ(object_open("/proc/self/exe", &object), 0);
	CHECK(object_imports(object, "waitpid"));
	CHECK(!object_imports(object, "imports_are_what_the_linker_must_find"));
	CHECK(!object_imports(object, "main"));
	object_close(object);
}

TEST(what_is_no_elf_is_refused)
{
	char fifo[PATH_MAX];
	struct object *object;

	snprintf(fifo, sizeof(fifo), "%s/fifo.%d", getenv("TMPDIR") ?: "/tmp", getpid());
	CHECK_EQ(mkfifo(fifo, 0600), 0);
	CHECK_EQ(object_open(fifo, &object), -ENOEXEC);
	unlink(fifo);
	CHECK_EQ(object_open("/dev/zero", &object), -ENOEXEC);
	CHECK_EQ(object_open("/tmp", &object), -ENOEXEC);
	CHECK_EQ(object_open("/etc/passwd", &object), -ENOEXEC);
	CHECK_EQ(object_open("/nonexistent", &object), -ENOENT);
}

/* Every prefix, and every byte of the headers and tables damaged: fewer symbols, never a crash. */
TEST(truncated_and_damaged_files_never_crash)
{
	const struct made_symbol symbols[] = {
		{ "first", AT(0), 16, STB_GLOBAL, STT_FUNC },
		{ "_Z6secondv", AT(16), 0, STB_WEAK, STT_FUNC },
	};
	static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xff };
	struct made_file good;
	struct found found;

	made_elf(&good, code, 64, 7, symbols, 2);
	snprintf(made_path, sizeof(made_path), "%s/bad.%d", getenv("TMPDIR") ?: "/tmp", getpid());
	for (size_t at = 0; at < good.size; at++) {
		if (at == 256)
			at = MADE_TEXT_OFFSET + 64;
		for (size_t v = 0; v <= ARRAY_SIZE(values); v++) {
			struct object *object;

			made = good;
			if (v < ARRAY_SIZE(values))
				made.bytes[at] = values[v];
			else
				made.size = at;
			made_write(made_path, made.bytes, made.size);
			if (object_open(made_path, &object))
				continue;
			name_at(object, AT(20));
			match(object, "second", &found);
			object_close(object);
		}
	}
	unlink(made_path);
}

UNIT_MAIN("unit/object")
