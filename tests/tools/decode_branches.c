// SPDX-License-Identifier: GPL-2.0-only
/*
 * decode_branches PERF.DATA [SNAPSHOT_DIR]: one line a branch that decode/ finds, "TID FROM TO
 * KIND", and one a gap, "TID gap NAME", for tests that compare with another decoder.
 *
 * links: snapshot/recording snapshot/perf_data_read snapshot/perf_records snapshot/perf_chunks
 * links: decode/engine decode/blocks decode/insns decode/walk decode/stream decode/images
 * links: decode/insn_cache decode/branch decode/build base/clock image/insn
 * links: image/space image/files image/object image/symbols image/symtab image/plt image/match
 * links: image/debug_file image/demangle
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "decode/decode.h"
#include "snapshot/perf_data.h"

static int print(void *ctx, const struct branch *branches, size_t n)
{
	const pid_t tid = *(const pid_t *)ctx;

	for (const struct branch *b = branches; b < branches + n; b++) {
		if (b->kind == BRANCH_GAP)
			printf("%d gap %s%s\n", tid, branch_gap_name(b->gap),
			       b->flags & BRANCH_GAP_ERROR ? " error" : "");
		else
			printf("%d %" PRIx64 " %" PRIx64 " %s\n", tid, b->from, b->to,
			       branch_kind_name(b->kind));
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct space_options options = { .snapshot_dir = argc > 2 ? argv[2] : NULL };
	const struct space_missing *missing;
	struct recording recording;
	struct space *space;
	char why[256];
	bool truncated;
	pid_t *tids;
	size_t n;

	if (argc < 2)
		return 2;
	if (perf_data_read(argv[1], &recording, &truncated, why, sizeof(why))) {
		fprintf(stderr, "%s: %s\n", argv[1], why);
		return 1;
	}
	if (space_new(&options, &space) || decode_build_space(&recording, space) ||
	    space_freeze(space) || decode_tids(&recording, &tids, &n))
		return 1;
	for (size_t i = 0; i < n; i++) {
		struct decode_thread_stats stats;

		if (decode_thread(&recording, space, tids[i], print, &tids[i], &stats))
			return 1;
	}
	n = space_missing(space, &missing);
	for (size_t i = 0; i < n; i++)
		fprintf(stderr, "%s: %s\n", missing[i].path, missing[i].reason);
	free(tids);
	space_free(space);
	recording_fini(&recording);
	return 0;
}
