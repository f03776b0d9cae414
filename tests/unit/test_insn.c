// SPDX-License-Identifier: GPL-2.0-only
/*
 * insn_decode() against libipt's own decoder: a table of encodings, random bytes, and every
 * instruction of real libraries.
 * links: image/insn
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <intel-pt.h>

#include "image/insn.h"
#include "unit.h"

#define CODE_IP 0x10000ull

/* libipt decodes one instruction at CODE_IP: a PT stream that only says "tracing starts here". */
struct oracle {
	uint8_t trace[64];
	const uint8_t *code;
	size_t size;
	struct pt_insn_decoder *decoder;
};

static int oracle_read(uint8_t *buf, size_t size, const struct pt_asid *asid, uint64_t ip,
		       void *context)
{
	const struct oracle *oracle = context;

	(void)asid;
	if (ip < CODE_IP || ip >= CODE_IP + oracle->size)
		return -pte_nomap;
	if (size > CODE_IP + oracle->size - ip)
		size = CODE_IP + oracle->size - ip;
	memcpy(buf, oracle->code + (ip - CODE_IP), size);
	return (int)size;
}

static void encode(struct pt_encoder *encoder, const struct pt_packet *packet)
{
	CHECK(pt_enc_next(encoder, packet) > 0);
}

static void oracle_init(struct oracle *oracle, unsigned int mode_bits)
{
	struct pt_packet mode = { .type = ppt_mode }, pge = { .type = ppt_tip_pge };
	struct pt_encoder *encoder;
	struct pt_config config;
	uint64_t used;

	memset(oracle, 0, sizeof(*oracle));
	pt_config_init(&config);
	config.begin = oracle->trace;
	config.end = oracle->trace + sizeof(oracle->trace);
	encoder = pt_alloc_encoder(&config);
	CHECK(encoder);
	mode.payload.mode.leaf = pt_mol_exec;
	mode.payload.mode.bits.exec.csl = mode_bits == 64;
	mode.payload.mode.bits.exec.csd = mode_bits == 32;
	pge.payload.ip.ipc = pt_ipc_sext_48;
	pge.payload.ip.ip = CODE_IP;
	encode(encoder, &(struct pt_packet){ .type = ppt_psb });
	encode(encoder, &mode);
	encode(encoder, &(struct pt_packet){ .type = ppt_psbend });
	encode(encoder, &pge);
	CHECK(pt_enc_get_offset(encoder, &used) == 0);
	pt_free_encoder(encoder);
	config.end = oracle->trace + used;
	oracle->decoder = pt_insn_alloc_decoder(&config);
	CHECK(oracle->decoder);
	CHECK(!pt_image_set_callback(pt_insn_get_image(oracle->decoder), oracle_read, oracle));
}

static void oracle_decode(struct oracle *oracle, const uint8_t *code, size_t size,
			  struct pt_insn *insn)
{
	struct pt_event event;
	int status;

	oracle->code = code;
	oracle->size = size;
	memset(insn, 0, sizeof(*insn));
	status = pt_insn_sync_set(oracle->decoder, 0);
	CHECK(status >= 0);
	while (status & pts_event_pending) {
		status = pt_insn_event(oracle->decoder, &event, sizeof(event));
		CHECK(status >= 0);
	}
	pt_insn_next(oracle->decoder, insn, sizeof(*insn));
}

static bool class_agrees(enum insn_class class, enum pt_insn_class theirs)
{
	switch (class) {
	case INSN_JCC:
		return theirs == ptic_cond_jump;
	case INSN_JMP:
	case INSN_JMP_IND:
		return theirs == ptic_jump;
	case INSN_CALL:
	case INSN_CALL_IND:
		return theirs == ptic_call;
	case INSN_RET:
		return theirs == ptic_return;
	case INSN_FAR:
		return theirs == ptic_far_call || theirs == ptic_far_return ||
		       theirs == ptic_far_jump;
	default:
		return theirs == ptic_other || theirs == ptic_ptwrite;
	}
}

/* What both decode, they agree on; libipt does not refuse all that is invalid. */
static bool agrees(struct oracle *oracle, const uint8_t *code, size_t size, unsigned int mode_bits)
{
	struct pt_insn theirs;
	struct insn insn;

	if (insn_decode(code, size, CODE_IP, mode_bits, &insn))
		return true;
	oracle_decode(oracle, code, size, &theirs);
	if (theirs.size == insn.length && class_agrees(insn.class, theirs.iclass))
		return true;
	fprintf(stderr, "length %u class %d, libipt %u class %d:", insn.length, insn.class,
		theirs.size, theirs.iclass);
	for (size_t i = 0; i < size && i < 15; i++)
		fprintf(stderr, " %02x", code[i]);
	fprintf(stderr, "\n");
	return false;
}

struct encoding {
	const char *hex;
	enum insn_class class;
	uint64_t target;
	unsigned int rep : 1, tf : 1, writes : 1;
};

static size_t from_hex(const char *hex, uint8_t *bytes)
{
	size_t n = 0;
	int used;
	unsigned int byte;

	while (sscanf(hex, " %2x%n", &byte, &used) == 1) {
		bytes[n++] = (uint8_t)byte;
		hex += used;
	}
	return n;
}

static void check_table(const struct encoding *table, size_t n, unsigned int mode_bits)
{
	struct oracle oracle;

	oracle_init(&oracle, mode_bits);
	for (size_t i = 0; i < n; i++) {
		struct insn insn;
		uint8_t code[16];
		size_t size = from_hex(table[i].hex, code);

		fprintf(stderr, "%s\n", table[i].hex);
		CHECK_EQ(insn_decode(code, size, CODE_IP, mode_bits, &insn), 0);
		CHECK_EQ(insn.length, size);
		CHECK_EQ(insn.class, table[i].class);
		CHECK_EQ(insn.target, table[i].target);
		CHECK_EQ(insn.is_rep_string, table[i].rep);
		CHECK_EQ(insn.touches_tf, table[i].tf);
		CHECK_EQ(insn.writes_memory, table[i].writes);
		CHECK(agrees(&oracle, code, size, mode_bits));
	}
	pt_insn_free_decoder(oracle.decoder);
}

TEST(every_class_in_64_bit_mode)
{
	static const struct encoding table[] = {
		{ .hex = "90", .class = INSN_OTHER },
		{ .hex = "f3 0f 1e fa", .class = INSN_OTHER }, /* endbr64 */
		{ .hex = "55", .class = INSN_OTHER, .writes = 1 },
		{ .hex = "48 89 07", .class = INSN_OTHER, .writes = 1 },
		{ .hex = "48 8b 07", .class = INSN_OTHER },
		{ .hex = "48 39 07", .class = INSN_OTHER },
		{ .hex = "0f 0b", .class = INSN_OTHER },          /* ud2 */
		{ .hex = "f3 48 0f ae e0", .class = INSN_OTHER }, /* ptwrite */
		{ .hex = "62 f1 7c 48 10 07", .class = INSN_OTHER },
		{ .hex = "62 f1 7c 48 11 07", .class = INSN_OTHER, .writes = 1 },
		{ .hex = "74 10", .class = INSN_JCC, .target = 0x10012 },
		{ .hex = "0f 85 fa ff ff ff", .class = INSN_JCC, .target = 0x10000 },
		{ .hex = "3e 74 fe", .class = INSN_JCC, .target = 0x10001 },
		{ .hex = "e3 fe", .class = INSN_JCC, .target = 0x10000 },
		{ .hex = "67 e3 10", .class = INSN_JCC, .target = 0x10013 },
		{ .hex = "e2 10", .class = INSN_JCC, .target = 0x10012 },
		{ .hex = "e1 10", .class = INSN_JCC, .target = 0x10012 },
		{ .hex = "e0 10", .class = INSN_JCC, .target = 0x10012 },
		{ .hex = "eb 80", .class = INSN_JMP, .target = 0xff82 },
		{ .hex = "e9 00 00 00 80", .class = INSN_JMP, .target = 0xffffffff80010005 },
		{ .hex = "f2 e9 00 01 00 00", .class = INSN_JMP, .target = 0x10106 },
		{ .hex = "e8 00 00 00 00", .class = INSN_CALL, .target = 0x10005, .writes = 1 },
		{ .hex = "66 48 e8 00 00 00 00",
		  .class = INSN_CALL,
		  .target = 0x10007,
		  .writes = 1 },
		{ .hex = "ff e0", .class = INSN_JMP_IND },
		{ .hex = "3e ff e0", .class = INSN_JMP_IND },
		{ .hex = "ff 24 c5 00 00 00 00", .class = INSN_JMP_IND },
		{ .hex = "ff 25 00 00 00 00", .class = INSN_JMP_IND },
		{ .hex = "ff d0", .class = INSN_CALL_IND, .writes = 1 },
		{ .hex = "41 ff 54 24 08", .class = INSN_CALL_IND, .writes = 1 },
		{ .hex = "c3", .class = INSN_RET },
		{ .hex = "f3 c3", .class = INSN_RET },
		{ .hex = "c2 08 00", .class = INSN_RET },
		{ .hex = "0f 05", .class = INSN_FAR },
		{ .hex = "0f 34", .class = INSN_FAR },
		{ .hex = "cc", .class = INSN_FAR },
		{ .hex = "f1", .class = INSN_FAR },
		{ .hex = "cd 80", .class = INSN_FAR },
		{ .hex = "ff 28", .class = INSN_FAR },
		{ .hex = "ff 18", .class = INSN_FAR, .writes = 1 },
		{ .hex = "cb", .class = INSN_FAR },
		{ .hex = "48 cf", .class = INSN_FAR, .tf = 1 },
		{ .hex = "c7 f8 10 00 00 00", .class = INSN_XBEGIN, .target = 0x10016 },
		{ .hex = "0f 01 d5", .class = INSN_XEND },
		{ .hex = "f3 48 a5", .class = INSN_OTHER, .rep = 1, .writes = 1 },
		{ .hex = "f2 a4", .class = INSN_OTHER, .rep = 1, .writes = 1 },
		{ .hex = "f3 aa", .class = INSN_OTHER, .rep = 1, .writes = 1 },
		{ .hex = "f3 a6", .class = INSN_OTHER, .rep = 1 },
		{ .hex = "f2 ae", .class = INSN_OTHER, .rep = 1 },
		{ .hex = "f3 ac", .class = INSN_OTHER, .rep = 1 },
		{ .hex = "48 a5", .class = INSN_OTHER, .writes = 1 },
		{ .hex = "f3 0f b8 c0", .class = INSN_OTHER }, /* popcnt */
		{ .hex = "f3 90", .class = INSN_OTHER },
		{ .hex = "9c", .class = INSN_OTHER, .tf = 1, .writes = 1 },
		{ .hex = "9d", .class = INSN_OTHER, .tf = 1 },
		{ .hex = "8e d0", .class = INSN_OTHER, .tf = 1 },
		{ .hex = "0f b2 00", .class = INSN_OTHER, .tf = 1 },
		{ .hex = "8c d0", .class = INSN_OTHER },
	};

	check_table(table, sizeof(table) / sizeof(*table), 64);
}

TEST(every_class_in_32_bit_mode)
{
	static const struct encoding table[] = {
		{ .hex = "40", .class = INSN_OTHER },
		{ .hex = "74 10", .class = INSN_JCC, .target = 0x10012 },
		{ .hex = "e3 fe", .class = INSN_JCC, .target = 0x10000 },
		{ .hex = "e9 00 00 00 80", .class = INSN_JMP, .target = 0x80010005 },
		{ .hex = "e8 00 00 ff ff", .class = INSN_CALL, .target = 0x5, .writes = 1 },
		{ .hex = "ff 60 04", .class = INSN_JMP_IND },
		{ .hex = "ff 10", .class = INSN_CALL_IND, .writes = 1 },
		{ .hex = "c3", .class = INSN_RET },
		{ .hex = "9a 00 00 00 00 33 00", .class = INSN_FAR, .writes = 1 },
		{ .hex = "ea 00 00 00 00 33 00", .class = INSN_FAR },
		{ .hex = "cd 80", .class = INSN_FAR },
		{ .hex = "0f 34", .class = INSN_FAR },
		{ .hex = "ce", .class = INSN_FAR },
		{ .hex = "cf", .class = INSN_FAR, .tf = 1 },
		{ .hex = "17", .class = INSN_OTHER, .tf = 1 },
		{ .hex = "9d", .class = INSN_OTHER, .tf = 1 },
		{ .hex = "f3 ab", .class = INSN_OTHER, .rep = 1, .writes = 1 },
	};

	check_table(table, sizeof(table) / sizeof(*table), 32);
}

TEST(bad_bytes_are_refused)
{
	static const uint8_t cut[] = { 0x0f, 0x85, 0x00 }, invalid[] = { 0x06, 0, 0 },
			     endless[] = { 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66,
					   0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x66, 0x90 };
	struct insn insn;

	CHECK_EQ(insn_decode(cut, 0, 0, 64, &insn), -ENODATA);
	for (size_t size = 1; size <= sizeof(cut); size++)
		CHECK_EQ(insn_decode(cut, size, 0, 64, &insn), -ENODATA);
	CHECK_EQ(insn_decode(invalid, sizeof(invalid), 0, 64, &insn), -EINVAL);
	CHECK_EQ(insn_decode(endless, sizeof(endless), 0, 64, &insn), -EINVAL);
	CHECK_EQ(insn.class, INSN_INVALID);
	CHECK_EQ(insn_decode(cut, sizeof(cut), 0, 48, &insn), -EINVAL);
}

/* Opcode bytes drawn so that branches, prefixes and the 0f map all come often. */
static size_t random_code(uint8_t *code, uint64_t *state)
{
	static const uint8_t prefixes[] = { 0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x3e, 0x48, 0x41, 0x64 };

	for (size_t i = 0; i < 15; i++) {
		*state = *state * 6364136223846793005ull + 1442695040888963407ull;
		code[i] = (uint8_t)(*state >> 56);
		if (i < 3 && (*state >> 50) % 4 == 0)
			code[i] = prefixes[(*state >> 40) % sizeof(prefixes)];
		if (i < 2 && (*state >> 48) % 8 == 0)
			code[i] = 0x0f;
	}
	return 15;
}

/*
 * libipt and Zydis differ in bytes that no compiler writes and no processor runs; what decides
 * control flow has to agree always.
 */
static bool control_flow_agrees(struct oracle *oracle, const uint8_t *code, size_t size,
				unsigned int mode_bits)
{
	struct pt_insn theirs;
	struct insn insn;

	if (insn_decode(code, size, CODE_IP, mode_bits, &insn))
		return true;
	oracle_decode(oracle, code, size, &theirs);
	if (class_agrees(insn.class, ptic_other) && class_agrees(INSN_OTHER, theirs.iclass))
		return true;
	return agrees(oracle, code, size, mode_bits);
}

TEST(random_bytes_agree_with_libipt)
{
	static const unsigned int modes[] = { 64, 32 };

	for (size_t m = 0; m < 2; m++) {
		uint64_t state = 42;
		struct oracle oracle;

		oracle_init(&oracle, modes[m]);
		for (size_t i = 0; i < 300000; i++) {
			uint8_t code[16];

			CHECK(control_flow_agrees(&oracle, code, random_code(code, &state),
						  modes[m]));
		}
		pt_insn_free_decoder(oracle.decoder);
	}
}

static const Elf64_Shdr *find_text(const uint8_t *file, size_t size)
{
	const Elf64_Ehdr *header = (const void *)file;
	const Elf64_Shdr *sections = (const void *)(file + header->e_shoff);
	const char *names;

	CHECK(header->e_shoff + header->e_shnum * sizeof(*sections) <= size);
	names = (const char *)file + sections[header->e_shstrndx].sh_offset;
	for (size_t i = 0; i < header->e_shnum; i++) {
		if (strcmp(names + sections[i].sh_name, ".text") == 0)
			return &sections[i];
	}
	return NULL;
}

static void check_file(const char *path)
{
	size_t n = 0, branches = 0, offset = 0, bad = 0;
	const Elf64_Shdr *text;
	struct oracle oracle;
	const uint8_t *file;
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		SKIP("no such file");
	CHECK(fstat(fd, &st) == 0);
	file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	CHECK(file != MAP_FAILED);
	text = find_text(file, (size_t)st.st_size);
	CHECK(text);
	oracle_init(&oracle, 64);
	while (offset < text->sh_size) {
		const uint8_t *code = file + text->sh_offset + offset;
		size_t size = text->sh_size - offset < 15 ? text->sh_size - offset : 15;
		struct insn insn;

		if (insn_decode(code, size, CODE_IP, 64, &insn)) {
			bad++;
			offset++;
			continue;
		}
		CHECK(agrees(&oracle, code, size, 64));
		branches += insn.class != INSN_OTHER;
		offset += insn.length;
		n++;
	}
	fprintf(stderr, "%s: %zu instructions, %zu branches, %zu bytes of data\n", path, n,
		branches, bad);
	CHECK(n > 10000 && branches > n / 20 && bad < n / 1000);
	pt_insn_free_decoder(oracle.decoder);
}

TEST(libc_agrees_with_libipt)
{
	check_file("/lib/x86_64-linux-gnu/libc.so.6");
}

TEST(libstdcxx_agrees_with_libipt)
{
	check_file("/usr/lib/x86_64-linux-gnu/libstdc++.so.6");
}

UNIT_MAIN("unit/insn")
