// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any bytes as code and as the trace of its run: two bytes of the code's length, the code, then
 * stretches of trace, each after a byte that says how it joins.
 *
 * links: decode/engine decode/blocks decode/insns decode/walk decode/stream decode/images
 * links: decode/insn_cache decode/branch decode/build base/clock image/insn
 * links: image/space image/files image/object image/symbols image/symtab image/plt image/match
 * links: image/debug_file image/demangle snapshot/recording
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "decode/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define CODE 0x1000
#define CHUNK 2048

struct seen {
	uint64_t time_ns, events, insns, gaps;
};

static int check(void *ctx, const struct branch *branches, size_t n)
{
	struct seen *seen = ctx;

	for (size_t i = 0; i < n; i++) {
		const struct branch *b = &branches[i];

		if (b->time_ns < seen->time_ns || b->kind > BRANCH_GAP || b->gap >= GAP_COUNT ||
		    (b->kind == BRANCH_GAP) != (b->gap != GAP_NONE) || b->from_size > 15)
			abort();
		seen->time_ns = b->time_ns;
		seen->insns += b->insns;
		seen->gaps += b->kind == BRANCH_GAP;
	}
	seen->events += n;
	return 0;
}

static int count(void *ctx, uint64_t ip, uint64_t time_ns)
{
	(void)ip;
	*(uint64_t *)ctx += time_ns ? 1 : 2;
	return 0;
}

static size_t add_code(struct space *space, const uint8_t *data, size_t size, int *fd)
{
	struct space_map_request request = { .pid = 1, .addr = CODE };
	char path[64];

	*fd = memfd_create("code", MFD_CLOEXEC);
	if (size < 2 || *fd < 0)
		return size;
	request.len = data[0] | (size_t)data[1] << 8;
	if (request.len > size - 2)
		request.len = size - 2;
	if (write(*fd, data + 2, request.len) != (ssize_t)request.len)
		abort();
	snprintf(path, sizeof(path), "/proc/self/fd/%d", *fd);
	request.path = path;
	if (space_map(space, &request))
		abort();
	return request.len + 2;
}

static void add_chunks(struct recording *recording, const uint8_t *data, size_t size)
{
	while (size) {
		struct recording_chunk chunk = { .pid = 1, .tid = 1 };

		chunk.join = data[0] % (RECORDING_JOIN_ATOMIC + 1);
		chunk.data_lost = data[0] & 0x80;
		data++;
		size--;
		chunk.size = size > CHUNK ? CHUNK : size;
		chunk.data = malloc(chunk.size + 1);
		if (!chunk.data)
			abort();
		memcpy(chunk.data, data, chunk.size);
		data += chunk.size;
		size -= chunk.size;
		if (recording_add_chunk(recording, &chunk))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recording recording = {
		.cpu = { true, 6, 79, 1 },
		.pt = { .mtc_freq = 3, .tsc_ctc_n = 84, .tsc_ctc_d = 2, .max_nonturbo_ratio = 20 }
	};
	struct decode_thread_stats stats;
	struct seen seen = { 0 };
	struct space *space;
	uint64_t insns = 0;
	size_t used;
	int fd;

	if (space_new(NULL, &space))
		abort();
	used = add_code(space, data, size, &fd);
	add_chunks(&recording, data + used, size - used);
	if (space_freeze(space) || decode_thread(&recording, space, 1, check, &seen, &stats) ||
	    decode_thread_insns(&recording, space, 1, count, &insns, NULL))
		abort();
	if (stats.instructions != seen.insns || stats.gaps != seen.gaps ||
	    stats.gaps + stats.branches != seen.events)
		abort();
	close(fd);
	space_free(space);
	recording_fini(&recording);
	return 0;
}
