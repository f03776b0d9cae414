// SPDX-License-Identifier: GPL-2.0-only
/*
 * Decodes a case: code as hex, a trace as packets in words (made by libipt's encoder), and prints
 * the branch events. Each case is also decoded by libipt's instruction decoder; both must agree.
 *
 *   [code]              "ADDR: HEX... # comment"; "[code at=TIME]" maps from that time on
 *   [chunk JOIN]        begins a stretch: birth attach wrapped resize lost untraced atomic
 *   psb psbend pad ovf  the packets; numbers are hex, with # comments
 *   tsc N, cbr N, mode 64|32, mode.tsx begin|commit|abort
 *   tip|tip.pge|tip.pgd|fup [IP [16|32|48|full]]     without IP: suppressed
 *   tnt ttn, tnt64 ttn...; raw HEX...; cut N: drops the first N bytes of the stretch so far
 *
 * links: decode/engine decode/blocks decode/insns decode/walk decode/stream decode/images
 * links: decode/insn_cache decode/branch decode/build base/clock image/insn
 * links: image/space image/files image/object image/symbols image/symtab image/plt image/match
 * links: image/debug_file image/demangle snapshot/recording
 */
#include <ctype.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <intel-pt.h>

#include "base/mem.h"
#include "decode_agree.h"

#define PID 1
#define TID 2

struct golden {
	struct recording recording;
	struct space *space;
	uint8_t trace[65536];
	size_t trace_size;
	enum recording_join join;
	bool has_chunk;
	uint8_t code[4096];
	uint64_t code_start, code_size, code_time;
	unsigned int images;
};

static void die(const char *what, const char *line)
{
	printf("bad case: %s: %s\n", what, line);
	exit(1);
}

static const char *image_path(unsigned int index)
{
	static char path[512];
	const char *dir = getenv("TMPDIR");

	snprintf(path, sizeof(path), "%s/golden.%d.%u", dir ? dir : "/tmp", getpid(), index);
	return path;
}

static void flush_code(struct golden *golden)
{
	const char *path = image_path(golden->images);
	struct space_map_request request = {
		.pid = PID,
		.addr = golden->code_start,
		.len = golden->code_size,
		.time_ns = golden->code_time,
		.path = path,
	};
	scoped_file FILE *file = NULL;

	if (!golden->code_size)
		return;
	file = fopen(path, "w");
	if (!file || fwrite(golden->code, 1, golden->code_size, file) != golden->code_size ||
	    space_map(golden->space, &request))
		die("cannot write", path);
	golden->images++;
	golden->code_size = 0;
}

static void add_code(struct golden *golden, const char *line)
{
	char *rest;
	uint64_t addr = strtoull(line, &rest, 16);

	if (*rest != ':')
		die("no address", line);
	if (golden->code_size && addr != golden->code_start + golden->code_size)
		flush_code(golden);
	if (!golden->code_size)
		golden->code_start = addr;
	for (rest++; *rest && *rest != '#' && *rest != '\n'; rest++) {
		if (!isxdigit((unsigned char)*rest))
			continue;
		golden->code[golden->code_size++] = (uint8_t)strtoul(rest, &rest, 16);
		if (!*rest)
			break;
	}
}

static void flush_chunk(struct golden *golden)
{
	struct recording_chunk chunk = {
		.pid = PID,
		.tid = TID,
		.join = golden->join,
		.size = golden->trace_size,
	};

	if (!golden->has_chunk)
		return;
	chunk.data = malloc(golden->trace_size + 1);
	memcpy(chunk.data, golden->trace, golden->trace_size);
	if (recording_add_chunk(&golden->recording, &chunk))
		die("no memory", "");
	golden->trace_size = 0;
	golden->has_chunk = false;
}

static void begin_chunk(struct golden *golden, const char *join)
{
	static const char *const joins[] = { "birth", "attach",   "wrapped", "resize",
					     "lost",  "untraced", "atomic" };
	size_t i;

	flush_chunk(golden);
	for (i = 0; i < ARRAY_SIZE(joins) && strncmp(join, joins[i], strlen(joins[i])); i++)
		;
	if (i == ARRAY_SIZE(joins))
		die("unknown join", join);
	golden->join = (enum recording_join)i;
	golden->has_chunk = true;
}

static void add_bytes(struct golden *golden, const char *hex)
{
	unsigned int byte;
	int used;

	while (sscanf(hex, "%x%n", &byte, &used) == 1) {
		golden->trace[golden->trace_size++] = (uint8_t)byte;
		hex += used;
	}
}

static void fill_ip(struct pt_packet *packet, enum pt_packet_type type, const char *words)
{
	char width[8] = "full";

	packet->type = type;
	packet->payload.ip.ipc = pt_ipc_suppressed;
	if (sscanf(words, "%" SCNx64 " %7s", &packet->payload.ip.ip, width) < 1)
		return;
	packet->payload.ip.ipc = !strcmp(width, "16") ? pt_ipc_update_16 :
				 !strcmp(width, "32") ? pt_ipc_update_32 :
				 !strcmp(width, "48") ? pt_ipc_update_48 :
							pt_ipc_full;
}

static void fill_tnt(struct pt_packet *packet, enum pt_packet_type type, const char *words)
{
	packet->type = type;
	for (; *words && *words != '#'; words++) {
		if (*words != 't' && *words != 'n')
			continue;
		packet->payload.tnt.payload = packet->payload.tnt.payload << 1 | (*words == 't');
		packet->payload.tnt.bit_size++;
	}
}

static void fill_mode(struct pt_packet *packet, const char *words)
{
	packet->type = ppt_mode;
	packet->payload.mode.leaf = pt_mol_exec;
	packet->payload.mode.bits.exec.csl = strtoul(words, NULL, 10) == 64;
	packet->payload.mode.bits.exec.csd = strtoul(words, NULL, 10) == 32;
}

static void fill_tsx(struct pt_packet *packet, const char *words)
{
	packet->type = ppt_mode;
	packet->payload.mode.leaf = pt_mol_tsx;
	packet->payload.mode.bits.tsx.intx = strstr(words, "begin") != NULL;
	packet->payload.mode.bits.tsx.abrt = strstr(words, "abort") != NULL;
}

/* The packet that @name says; false for an unknown one. */
static bool fill_packet(struct pt_packet *packet, const char *name, const char *words)
{
	static const struct {
		const char *name;
		enum pt_packet_type type;
	} plain[] = { { "psb", ppt_psb },
		      { "psbend", ppt_psbend },
		      { "pad", ppt_pad },
		      { "ovf", ppt_ovf },
		      { "stop", ppt_stop } },
	  with_ip[] = { { "tip", ppt_tip },
			{ "tip.pge", ppt_tip_pge },
			{ "tip.pgd", ppt_tip_pgd },
			{ "fup", ppt_fup } };

	for (size_t i = 0; i < ARRAY_SIZE(plain); i++) {
		packet->type = plain[i].type;
		if (!strcmp(name, plain[i].name))
			return true;
	}
	for (size_t i = 0; i < ARRAY_SIZE(with_ip); i++) {
		if (strcmp(name, with_ip[i].name))
			continue;
		fill_ip(packet, with_ip[i].type, words);
		return true;
	}
	if (!strcmp(name, "tnt") || !strcmp(name, "tnt64")) {
		fill_tnt(packet, name[3] ? ppt_tnt_64 : ppt_tnt_8, words);
	} else if (!strcmp(name, "mode")) {
		fill_mode(packet, words);
	} else if (!strcmp(name, "mode.tsx")) {
		fill_tsx(packet, words);
	} else if (!strcmp(name, "tsc")) {
		packet->type = ppt_tsc;
		packet->payload.tsc.tsc = strtoull(words, NULL, 16);
	} else if (!strcmp(name, "cbr")) {
		packet->type = ppt_cbr;
		packet->payload.cbr.ratio = (uint8_t)strtoul(words, NULL, 16);
	} else {
		return false;
	}
	return true;
}

static void add_packet(struct golden *golden, const char *line)
{
	struct pt_packet packet = { .size = sizeof(packet) };
	struct pt_encoder *encoder;
	struct pt_config config;
	char name[16];
	int at, size;

	if (sscanf(line, "%15s%n", name, &at) != 1)
		die("no packet", line);
	if (!strcmp(name, "raw")) {
		add_bytes(golden, line + at);
		return;
	}
	if (!strcmp(name, "cut")) {
		size = (int)strtoul(line + at, NULL, 16);
		golden->trace_size -= size;
		memmove(golden->trace, golden->trace + size, golden->trace_size);
		return;
	}
	if (!fill_packet(&packet, name, line + at))
		die("unknown packet", line);
	pt_config_init(&config);
	config.begin = golden->trace + golden->trace_size;
	config.end = golden->trace + sizeof(golden->trace);
	encoder = pt_alloc_encoder(&config);
	size = encoder ? pt_enc_next(encoder, &packet) : -1;
	pt_free_encoder(encoder);
	if (size < 0)
		die("cannot encode", line);
	golden->trace_size += (size_t)size;
}

static void read_case(struct golden *golden, FILE *file)
{
	char line[1024];
	bool code = false;

	while (fgets(line, sizeof(line), file)) {
		const char *text = line + strspn(line, " \t");

		if (!strncmp(text, "[expect]", 8))
			break;
		if (*text == '#' || *text == '\n')
			continue;
		if (!strncmp(text, "[code", 5)) {
			flush_code(golden);
			code = true;
			golden->code_time = 0;
			sscanf(text, "[code at=%" SCNx64, &golden->code_time);
		} else if (!strncmp(text, "[chunk ", 7)) {
			code = false;
			begin_chunk(golden, text + 7);
		} else if (code) {
			add_code(golden, text);
		} else if (golden->has_chunk) {
			add_packet(golden, text);
		}
	}
	flush_code(golden);
	flush_chunk(golden);
}

static int print_branches(void *ctx, const struct branch *branches, size_t n)
{
	(void)ctx;
	for (size_t i = 0; i < n; i++) {
		const struct branch *b = &branches[i];

		printf("%" PRIx64 "%s %s", b->time_ns, b->flags & BRANCH_TIME_EXACT ? "!" : "",
		       branch_kind_name(b->kind));
		if (b->kind == BRANCH_GAP)
			printf(" %s%s +%" PRIx64, branch_gap_name(b->gap),
			       b->flags & BRANCH_GAP_ERROR ? " error" : "", b->offset);
		if (b->from)
			printf(" %" PRIx64, b->from);
		if (b->from_size)
			printf("+%u", b->from_size);
		if (b->to)
			printf(" -> %" PRIx64, b->to);
		printf(" (%u)%s%s\n", b->insns, b->flags & BRANCH_TX ? " tx" : "",
		       b->flags & BRANCH_INDIRECT ? " indirect" : "");
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct golden golden = { 0 };
	struct decode_thread_stats stats;
	const struct space_missing *missing;
	FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
	bool same;

	if (!file || space_new(NULL, &golden.space))
		return 2;
	read_case(&golden, file);
	fclose(file);
	if (space_freeze(golden.space))
		return 2;
	if (decode_thread(&golden.recording, golden.space, TID, print_branches, NULL, &stats))
		return 2;
	printf("%" PRIu64 " bytes: %" PRIu64 " instructions, %" PRIu64 " branches, %" PRIu64
	       " gaps, %" PRIu64 " errors\n",
	       stats.bytes, stats.instructions, stats.branches, stats.gaps, stats.error_gaps);
	same = agree_thread(&golden.recording, golden.space, PID, TID, 64);
	for (size_t i = 0; i < space_missing(golden.space, &missing); i++)
		printf("missing%s: %s\n", missing[i].needed ? " and needed" : "",
		       missing[i].reason);
	recording_fini(&golden.recording);
	space_free(golden.space);
	for (unsigned int i = 0; i < golden.images; i++)
		unlink(image_path(i));
	return same ? 0 : 1;
}
