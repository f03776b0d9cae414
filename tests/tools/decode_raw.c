// SPDX-License-Identifier: GPL-2.0-only
/*
 * Decodes raw PT bytes of one thread: decode_raw [OPTION]... PT
 *   --map FILE:OFFSET:SIZE:ADDR   bytes of a file at an address (hex); SIZE 0: to the file's end
 *   --sections IMAGE LIST         lines "OFFSET SIZE ADDR" (hex) of one image file
 *   --32                          all code is 32-bit (for --agree)
 *   --cpu FAMILY/MODEL/STEPPING   whose errata
 *   --insns | --events | --agree | --bench | --quiet   what to print
 *
 * links: decode/engine decode/blocks decode/insns decode/walk decode/stream decode/images
 * links: decode/insn_cache decode/branch decode/build base/clock image/insn
 * links: image/space image/files image/object image/symbols image/symtab image/plt image/match
 * links: image/debug_file image/demangle snapshot/recording
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "decode_agree.h"

struct raw {
	struct recording recording;
	struct space *space;
	unsigned int mode_bits;
	char what;
};

static void add_map(struct raw *raw, const char *path, uint64_t offset, uint64_t size,
		    uint64_t addr)
{
	struct stat st;
	struct space_map_request request = {
		.pid = 1, .addr = addr, .len = size, .pgoff = offset, .path = path
	};
	char *full = realpath(path, NULL);

	request.path = full ? full : path;
	if (!size && !stat(path, &st))
		request.len = (uint64_t)st.st_size - offset;
	if (space_map(raw->space, &request))
		exit(2);
	free(full);
}

static void add_map_option(struct raw *raw, char *option)
{
	char *path = strtok(option, ":"), *offset = strtok(NULL, ":"), *size = strtok(NULL, ":");
	char *addr = strtok(NULL, ":");

	if (!addr)
		exit(2);
	add_map(raw, path, strtoull(offset, NULL, 16), strtoull(size, NULL, 16),
		strtoull(addr, NULL, 16));
}

static void add_sections(struct raw *raw, const char *image, const char *list)
{
	scoped_file FILE *file = fopen(list, "r");
	uint64_t offset, size, addr;
	char line[512];

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "%" SCNx64 " %" SCNx64 " %" SCNx64, &offset, &size, &addr) == 3)
			add_map(raw, image, offset, size, addr);
	}
}

static void add_trace(struct raw *raw, const char *path)
{
	struct recording_chunk chunk = { .pid = 1, .tid = 1, .join = RECORDING_JOIN_WRAPPED };
	scoped_fd int fd = open(path, O_RDONLY);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		exit(2);
	chunk.size = (uint64_t)st.st_size;
	chunk.data = malloc(chunk.size + 1);
	if (!chunk.data || read(fd, chunk.data, chunk.size) != (ssize_t)chunk.size ||
	    recording_add_chunk(&raw->recording, &chunk))
		exit(2);
}

static int print_insn(void *ctx, uint64_t ip, uint64_t time_ns)
{
	(void)ctx;
	(void)time_ns;
	printf("%016" PRIx64 "\n", ip);
	return 0;
}

static int print_branches(void *ctx, const struct branch *branches, size_t n)
{
	(void)ctx;
	for (size_t i = 0; i < n; i++)
		printf("%" PRIu64 " %s %s %" PRIx64 " %" PRIx64 " %u\n", branches[i].time_ns,
		       branch_kind_name(branches[i].kind), branch_gap_name(branches[i].gap),
		       branches[i].from, branches[i].to, branches[i].insns);
	return 0;
}

static int ignore(void *ctx, const struct branch *branches, size_t n)
{
	*(uint64_t *)ctx += n + branches[0].to;
	return 0;
}

static double cpu_seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int run(struct raw *raw)
{
	struct decode_thread_stats stats = { 0 };
	uint64_t sum = 0;
	double begin = cpu_seconds(), seconds;
	int err = 0;

	switch (raw->what) {
	case 'i':
		return decode_thread_insns(&raw->recording, raw->space, 1, print_insn, NULL,
					   &stats);
	case 'a':
		if (!agree_thread(&raw->recording, raw->space, 1, 1, raw->mode_bits))
			return 1;
		break;
	default:
		break;
	}
	err = decode_thread(&raw->recording, raw->space, 1,
			    raw->what == 'e' ? print_branches : ignore, &sum, &stats);
	seconds = cpu_seconds() - begin;
	fprintf(stderr,
		"%" PRIu64 " bytes, %" PRIu64 " instructions, %" PRIu64 " branches, %" PRIu64
		" gaps, %" PRIu64 " errors\n",
		stats.bytes, stats.instructions, stats.branches, stats.gaps, stats.error_gaps);
	if (raw->what == 'b')
		printf("%.2f s CPU: %.1f MB/s, %.1f M events/s, %.1f M instructions/s\n", seconds,
		       (double)stats.bytes / seconds / 1e6, (double)stats.branches / seconds / 1e6,
		       (double)stats.instructions / seconds / 1e6);
	return err;
}

int main(int argc, char **argv)
{
	struct raw raw = { .mode_bits = 64, .what = 'q' };
	unsigned int family, model, stepping;
	int status;

	if (argc < 2 || space_new(NULL, &raw.space))
		return 2;
	for (int i = 1; i < argc - 1; i++) {
		if (!strcmp(argv[i], "--map")) {
			add_map_option(&raw, argv[++i]);
		} else if (!strcmp(argv[i], "--sections") && i + 2 < argc) {
			add_sections(&raw, argv[i + 1], argv[i + 2]);
			i += 2;
		} else if (!strcmp(argv[i], "--cpu") &&
			   sscanf(argv[++i], "%u/%u/%u", &family, &model, &stepping) == 3) {
			raw.recording.cpu =
				(struct recording_cpu){ true, (uint16_t)family, (uint8_t)model,
							(uint8_t)stepping };
		} else if (!strcmp(argv[i], "--32")) {
			raw.mode_bits = 32;
		} else if (!strncmp(argv[i], "--", 2)) {
			raw.what = argv[i][2];
		} else {
			return 2;
		}
	}
	add_trace(&raw, argv[argc - 1]);
	if (space_freeze(raw.space))
		return 2;
	status = run(&raw);
	recording_fini(&raw.recording);
	space_free(raw.space);
	return status;
}
