// SPDX-License-Identifier: GPL-2.0-only
/*
 * decode_check PERF.DATA [SNAPSHOT_DIR]: decodes every thread to branch events and to instructions,
 * which must agree; prints what each thread had and fails on a disagreement.
 *
 * links: snapshot/recording snapshot/perf_data_read snapshot/perf_records snapshot/perf_chunks
 * links: decode/engine decode/blocks decode/insns decode/walk decode/stream decode/images
 * links: decode/insn_cache decode/branch decode/build base/clock image/insn
 * links: image/space image/files image/object image/symbols image/symtab image/plt image/match
 * links: image/debug_file image/demangle
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode_agree.h"
#include "snapshot/perf_data.h"

struct context {
	struct recording recording;
	struct space *space;
	uint64_t gaps[GAP_COUNT];
};

static int count(void *ctx, const struct branch *branches, size_t n)
{
	struct context *context = ctx;

	for (size_t i = 0; i < n; i++)
		context->gaps[branches[i].gap]++;
	return 0;
}

static pid_t pid_of(const struct recording *recording, pid_t tid)
{
	const struct recording_chunk *chunk;

	vec_for_each(chunk, &recording->chunks) {
		if (chunk->tid == tid)
			return chunk->pid;
	}
	return 0;
}

static bool check_thread(struct context *context, pid_t tid)
{
	struct decode_thread_stats stats;
	pid_t pid = pid_of(&context->recording, tid);

	memset(context->gaps, 0, sizeof(context->gaps));
	if (decode_thread(&context->recording, context->space, tid, count, context, &stats))
		return false;
	printf("%d/%d: %" PRIu64 " bytes, %" PRIu64 " instructions, %" PRIu64 " branches", pid, tid,
	       stats.bytes, stats.instructions, stats.branches);
	for (int i = GAP_NONE + 1; i < GAP_COUNT; i++) {
		if (context->gaps[i])
			printf(", %" PRIu64 " %s", context->gaps[i], branch_gap_name(i));
	}
	printf("\n");
	return agree_thread(&context->recording, context->space, pid, tid, 64);
}

int main(int argc, char **argv)
{
	struct space_options options = { .snapshot_dir = argc > 2 ? argv[2] : NULL };
	struct context context = { 0 };
	bool truncated, same = true;
	char why[256];
	pid_t *tids;
	size_t n;

	if (argc < 2 || perf_data_read(argv[1], &context.recording, &truncated, why, sizeof(why)) ||
	    space_new(&options, &context.space) ||
	    decode_build_space(&context.recording, context.space) || space_freeze(context.space) ||
	    decode_tids(&context.recording, &tids, &n))
		return 2;
	for (size_t i = 0; i < n; i++)
		same &= check_thread(&context, tids[i]);
	free(tids);
	space_free(context.space);
	recording_fini(&context.recording);
	return same ? 0 : 1;
}
