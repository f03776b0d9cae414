// SPDX-License-Identifier: GPL-2.0-only
/*
 * The objects are the test itself, with functions of its own in assembly, and libc.
 * links: record/resolve record/resolve_code record/resolve_nearest record/trigger
 * links: record/trigger_condition base/duration image/insn image/object image/symbols image/symtab
 * links: image/plt image/match image/debug_file image/demangle
 */
#include "record/resolve.h"

#include <errno.h>
#include <link.h>

#include "unit.h"

#define FUNCTION(name, body)                                                                       \
	asm(".pushsection .text\n.p2align 4\n.globl " #name "\n.type " #name ", @function\n" #name \
	    ":\n" body "\n.size " #name ", . - " #name "\n.popsection")

#define ENDBR ".byte 0xf3, 0x0f, 0x1e, 0xfa\n"

FUNCTION(fx_endbr_push, ENDBR "push %rbp\nmov %rsp, %rbp\npop %rbp\nret");
FUNCTION(fx_endbr_push_r12, ENDBR "push %r12\npop %r12\nret");
FUNCTION(fx_endbr_sub, ENDBR "sub $8, %rsp\nadd $8, %rsp\nret");
FUNCTION(fx_endbr_push16, ENDBR ".byte 0x66\npush %ax\nret"); /* the kernel does not emulate it */
FUNCTION(fx_endbr_push_imm, ENDBR "push $5\npop %rax\nret");
FUNCTION(fx_endbr_only, ENDBR);
FUNCTION(fx_push, "push %rbx\npop %rbx\nret");
FUNCTION(fx_loop_to_push, ENDBR "1: push %rbp\npop %rbp\ndec %edi\njnz 1b\nret");
FUNCTION(fx_long_insn, "movabs $0x1122334455667788, %rax\nret");
FUNCTION(fx_impl_fast, "mov $1, %eax\nret");
FUNCTION(fx_impl_slow, "mov $2, %eax\nret");
/* a resolver as compilers and libc write it, with a pointer to data that is no candidate */
asm(".pushsection .text\n.p2align 4\n.globl fx_indirect\n.type fx_indirect, @gnu_indirect_function\n"
    "fx_indirect:\nlea fx_data(%rip), %rcx\nlea fx_impl_slow(%rip), %rax\nlea fx_impl_fast(%rip), "
    "%rdx\ntestb $1, (%rcx)\ncmovnz %rdx, %rax\nret\n.size fx_indirect, . - fx_indirect\n"
    ".globl fx_opaque\n.type fx_opaque, @gnu_indirect_function\n"
    "fx_opaque:\nxor %eax, %eax\nret\n.size fx_opaque, . - fx_opaque\n.popsection");
/* one local name at two places, and C++ names */
asm(".pushsection .text\n.p2align 4\n.type fx_twin, @function\nfx_twin: ret\n.size fx_twin, 1\n"
    ".popsection");
FUNCTION(_ZN2ns6handleERKNS_7RequestEi, "push %rbp\npop %rbp\nret");
FUNCTION(_ZN2ns6handleEv, "push %rbp\npop %rbp\nret");

char fx_data[16] = "x";

static struct object *self;
static char why[1024];

static const struct object *own_object(void)
{
	if (!self)
		CHECK_EQ(object_open("/proc/self/exe", &self), 0);
	return self;
}

/* Resolves @text in @object, known as @path. */
static int resolve_in(const struct object *object, const char *path, const char *text,
		      resolve_sites *sites)
{
	struct trigger trigger;
	int err;

	CHECK_EQ(trigger_parse(text, &trigger, why, sizeof(why)), 0);
	why[0] = '\0';
	err = resolve_object(&trigger, object, path, sites, why, sizeof(why));
	trigger_fini(&trigger);
	return err;
}

static int resolve(const char *text, resolve_sites *sites)
{
	return resolve_in(own_object(), "/opt/bin/test_resolve", text, sites);
}

static const struct symbol *symbol_named(const struct object *object, const char *name)
{
	const struct symbol *symbols;
	const size_t n = object_symbols(object, &symbols);

	for (size_t i = 0; i < n; i++) {
		if (!strcmp(symbols[i].name, name))
			return &symbols[i];
	}
	fprintf(stderr, "no symbol %s\n", name);
	exit(1);
}

static uint64_t address_of(const char *name)
{
	return symbol_named(own_object(), name)->start;
}

/* One site, probed @skip bytes behind the entry of @name. */
static void check_probe(const char *name, uint64_t skip)
{
	resolve_sites sites = {};
	uint64_t vaddr;

	CHECK_EQ(resolve(name, &sites), 0);
	CHECK_EQ(sites.len, 1);
	CHECK_EQ(sites.data[0].entry, address_of(name));
	CHECK_EQ(sites.data[0].vaddr, address_of(name) + skip);
	CHECK_EQ(object_offset_to_vaddr(own_object(), sites.data[0].offset, &vaddr), 0);
	CHECK_EQ(vaddr, sites.data[0].vaddr);
	CHECK_STR(sites.data[0].symbol, name);
	CHECK_STR(sites.data[0].display, name);
	CHECK(!sites.data[0].ifunc);
	resolve_sites_fini(&sites);
}

TEST(a_push_behind_endbr64_is_preferred)
{
	check_probe("fx_endbr_push", 4);
	check_probe("fx_endbr_push_r12", 4);
	check_probe("fx_push", 0);
}

TEST(what_the_kernel_does_not_emulate_is_probed_at_the_entry)
{
	check_probe("fx_endbr_sub", 0);
	check_probe("fx_endbr_push16", 0);
	check_probe("fx_endbr_push_imm", 0);
	check_probe("fx_endbr_only", 0);
}

TEST(a_push_that_a_loop_jumps_to_is_no_entry)
{
	check_probe("fx_loop_to_push", 0);
}

TEST(offsets_count_from_the_function)
{
	const uint64_t start = address_of("fx_endbr_push");
	resolve_sites sites = {};

	CHECK_EQ(resolve("fx_endbr_push+5", &sites), 0);
	CHECK_EQ(sites.data[0].vaddr, start + 5);
	CHECK_EQ(sites.data[0].entry, start + 5);
	CHECK_STR(sites.data[0].symbol, "fx_endbr_push");
	CHECK_STR(sites.data[0].display, "fx_endbr_push+0x5");
	resolve_sites_fini(&sites);
}

TEST(offsets_must_be_instructions_of_the_function)
{
	resolve_sites sites = {};

	CHECK_EQ(resolve("fx_long_insn+3", &sites), -EINVAL);
	CHECK(strstr(why, "inside an instruction"));
	CHECK(strstr(why, "fx_long_insn+0x0") && strstr(why, "fx_long_insn+0xa"));
	CHECK_EQ(resolve("fx_long_insn+10", &sites), 0);
	CHECK_EQ(resolve("fx_long_insn+11", &sites), -EINVAL);
	CHECK(strstr(why, "only 0xb bytes"));
	CHECK_EQ(sites.len, 1);
	resolve_sites_fini(&sites);
}

TEST(addresses_are_taken_as_they_are)
{
	const uint64_t start = address_of("fx_endbr_push");
	resolve_sites sites = {};
	char text[128];

	snprintf(text, sizeof(text), "addr:test_resolve+0x%llx", (unsigned long long)start);
	CHECK_EQ(resolve(text, &sites), 0);
	CHECK_EQ(sites.data[0].vaddr, start); /* exactly there, not at the push */
	CHECK_STR(sites.data[0].display, "fx_endbr_push");
	snprintf(text, sizeof(text), "addr:test_resolve+0x%llx", (unsigned long long)start + 4);
	CHECK_EQ(resolve(text, &sites), 0);
	CHECK_STR(sites.data[1].display, "fx_endbr_push+0x4");
	snprintf(text, sizeof(text), "addr:test_resolve+0x%llx", (unsigned long long)start + 2);
	CHECK_EQ(resolve(text, &sites), -EINVAL);
	CHECK(strstr(why, "inside an instruction"));
	snprintf(text, sizeof(text), "addr:test_resolve+0x%llx",
		 (unsigned long long)(address_of("fx_push") + ((char *)fx_data - (char *)0)));
	CHECK_EQ(resolve(text, &sites), -EINVAL);
	CHECK(strstr(why, "not in executable code"));
	CHECK_EQ(resolve("addr:other.so+0x1000", &sites), -ENOENT);
	CHECK_EQ(sites.len, 2);
	resolve_sites_fini(&sites);
}

TEST(globs_find_all_and_keep_order)
{
	resolve_sites sites = {};

	CHECK_EQ(resolve("fx_impl_*", &sites), 0);
	CHECK_EQ(sites.len, 2);
	CHECK(sites.data[0].vaddr < sites.data[1].vaddr);
	CHECK_EQ(resolve("fx_push", &sites), 0); /* appended */
	CHECK_EQ(sites.len, 3);
	CHECK_STR(sites.data[2].symbol, "fx_push");
	resolve_sites_fini(&sites);
}

TEST(mangled_and_demangled_names)
{
	resolve_sites sites = {};

	CHECK_EQ(resolve("_ZN2ns6handleEv", &sites), 0);
	CHECK_EQ(sites.len, 1);
	CHECK_STR(sites.data[0].display, "ns::handle()");
	CHECK_EQ(resolve("ns::handle(ns::Request const&, int)", &sites), 0);
	CHECK_EQ(sites.len, 2);
	CHECK_STR(sites.data[1].symbol, "_ZN2ns6handleERKNS_7RequestEi");
	resolve_sites_fini(&sites);
	CHECK_EQ(resolve("ns::handle", &sites), 0); /* all overloads */
	CHECK_EQ(sites.len, 2);
	resolve_sites_fini(&sites);
}

TEST(data_and_imports_never_match)
{
	resolve_sites sites = {};

	CHECK_EQ(resolve("fx_data", &sites), -ENOENT);
	CHECK_EQ(resolve("setenv_no_such", &sites), -ENOENT);
	CHECK_EQ(resolve("fprintf", &sites), -ENOENT); /* imported from libc: not here */
	CHECK_EQ(why[0], '\0');
	CHECK_EQ(sites.len, 0);
}

TEST(more_than_64_places_are_too_many)
{
	resolve_sites sites = {};

	CHECK_EQ(resolve("fx_push", &sites), 0);
	CHECK_EQ(resolve("*", &sites), -E2BIG);
	CHECK(strstr(why, "narrow it"));
	CHECK_EQ(sites.len, 1);
	CHECK_STR(sites.data[0].symbol, "fx_push");
	resolve_sites_fini(&sites);
}

TEST(an_indirect_function_leads_to_its_implementations)
{
	resolve_sites sites = {};

	CHECK_EQ(resolve("fx_indirect", &sites), 0);
	CHECK_EQ(sites.len, 2);
	CHECK_EQ(sites.data[0].vaddr, address_of("fx_impl_fast"));
	CHECK_EQ(sites.data[1].vaddr, address_of("fx_impl_slow"));
	CHECK_STR(sites.data[0].symbol, "fx_indirect");
	CHECK_STR(sites.data[0].display, "fx_indirect [fx_impl_fast]");
	CHECK(sites.data[0].ifunc);
	resolve_sites_fini(&sites);
	/* a glob attaches what it can */
	CHECK_EQ(resolve("fx_[io]*", &sites), 0);
	CHECK_EQ(sites.len, 2);
	resolve_sites_fini(&sites);
	CHECK_EQ(resolve("fx_opaque", &sites), -EINVAL);
	CHECK(strstr(why, "IFUNC"));
	CHECK_EQ(resolve("fx_indirect+1", &sites), -EINVAL);
	CHECK(strstr(why, "no meaning"));
	CHECK_EQ(sites.len, 0);
}

static int find_libc(struct dl_phdr_info *info, size_t size, void *path)
{
	(void)size;
	if (!strstr(info->dlpi_name, "libc.so"))
		return 0;
	snprintf(path, 4096, "%s", info->dlpi_name);
	return 1;
}

TEST(functions_of_libc)
{
	resolve_sites sites = {};
	struct object *libc;
	char path[4096] = "";

	dl_iterate_phdr(find_libc, path);
	CHECK(path[0]);
	CHECK_EQ(object_open(path, &libc), 0);
	CHECK_EQ(resolve_in(libc, path, "libc!abort", &sites), 0);
	CHECK_EQ(sites.len, 1);
	CHECK_EQ(sites.data[0].entry, symbol_named(libc, "abort")->start);
	resolve_sites_fini(&sites);
	CHECK_EQ(resolve_in(libc, path, "libm!abort", &sites), -ENOENT);
	/* memcpy is chosen among several: never the resolver itself */
	CHECK_EQ(resolve_in(libc, path, "memcpy", &sites), 0);
	CHECK(sites.len >= 3);
	for (size_t i = 0; i < sites.len; i++)
		CHECK(sites.data[i].entry != symbol_named(libc, "memcpy")->start);
	resolve_sites_fini(&sites);
	object_close(libc);
}

TEST(objects_are_meant_by_path_name_or_glob)
{
	static const struct {
		const char *text, *path;
		bool wanted;
	} cases[] = {
		{ "f", "/usr/lib/libc.so.6", true },
		{ "libc.so.6!f", "/usr/lib/libc.so.6", true },
		{ "libc!f", "/usr/lib/libc.so.6", true },
		{ "libc.so!f", "/usr/lib/libc.so.6", false },
		{ "lib!f", "/usr/lib/libc.so.6", false },
		{ "libstdc++!f", "/usr/lib/libstdc++.so.6.0.30", true },
		{ "libstdc++.so.6!f", "/usr/lib/libstdc++.so.6.0.30", false },
		{ "libstdc++.so.6*!f", "/usr/lib/libstdc++.so.6.0.30", true },
		{ "/usr/lib/libc.so.6!f", "/usr/lib/libc.so.6", true },
		{ "*/libc.so.?!f", "/usr/lib/libc.so.6", true },
		{ "./server!f", "/opt/bin/server", true },
		{ "bin/server!f", "/opt/bin/server", true },
		{ "in/server!f", "/opt/bin/server", false },
		{ "./!f", "/opt/bin/server", false },
		{ "server!f", "/opt/bin/server2", false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct trigger trigger;

		CHECK_EQ(trigger_parse(cases[i].text, &trigger, why, sizeof(why)), 0);
		if (resolve_object_wanted(&trigger, cases[i].path) != cases[i].wanted) {
			fprintf(stderr, "%s for %s\n", cases[i].text, cases[i].path);
			CHECK(0);
		}
		trigger_fini(&trigger);
	}
}

TEST(symbolic_links_lead_to_the_object)
{
	char directory[] = "/tmp/ptbpf-resolve.XXXXXX", link[64], text[80], exe[4096];
	struct trigger trigger;
	ssize_t n;

	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	CHECK(n > 0);
	exe[n] = '\0';
	CHECK(mkdtemp(directory));
	snprintf(link, sizeof(link), "%s/alias", directory);
	CHECK_EQ(symlink(exe, link), 0);
	snprintf(text, sizeof(text), "%s!f", link);
	CHECK_EQ(trigger_parse(text, &trigger, why, sizeof(why)), 0);
	CHECK(resolve_object_wanted(&trigger, exe));
	CHECK(!resolve_object_wanted(&trigger, "/usr/bin/other"));
	unlink(link);
	rmdir(directory);
	trigger_fini(&trigger);
}

static const char *nearest(const char *text)
{
	static char buf[1024];
	struct resolve_nearest names = {};
	struct trigger trigger;

	CHECK_EQ(trigger_parse(text, &trigger, why, sizeof(why)), 0);
	CHECK_EQ(resolve_nearest_add(&names, &trigger, own_object()), 0);
	CHECK_EQ(resolve_nearest_add(&names, &trigger, own_object()), 0); /* no name twice */
	resolve_nearest_text(&names, buf, sizeof(buf));
	resolve_nearest_fini(&names);
	trigger_fini(&trigger);
	return buf;
}

TEST(the_nearest_names_are_offered)
{
	CHECK_STR(nearest("fx_imlp_fast"), "nearest names: fx_impl_fast");
	CHECK(strstr(nearest("fx_impl"), "fx_impl_fast") && strstr(nearest("fx_impl"), "_slow"));
	CHECK(!strncmp(nearest("fx_long_ins"), "nearest names: fx_long_insn", 27));
	CHECK(strstr(nearest("handel"), "ns::handle"));
	CHECK(strstr(nearest("ns::handl(int)"), "ns::handle"));
	CHECK(strstr(nearest("FX_LONG_INSN"), "fx_long_insn"));
	CHECK_STR(nearest("qqqqqqqqqqqqqqqq"), "");
}

TEST(at_most_five_names_the_best_first)
{
	const char *const text = nearest("fx_endbr_pus");
	int commas = 0;

	CHECK(!strncmp(text, "nearest names: fx_endbr_push,", 29));
	for (const char *at = text; *at; at++)
		commas += *at == ',';
	CHECK(commas <= RESOLVE_NEAREST - 1);
}

UNIT_MAIN("unit/resolve")
