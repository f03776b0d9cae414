// SPDX-License-Identifier: GPL-2.0-only
#include "decode/branch.h"

#include "base/mem.h"

static const char *const kind_names[] = {
	[BRANCH_CALL] = "call",   [BRANCH_RETURN] = "return",   [BRANCH_JUMP] = "jump",
	[BRANCH_COND] = "cond",   [BRANCH_SYSCALL] = "syscall", [BRANCH_ASYNC] = "async",
	[BRANCH_FAR] = "far",     [BRANCH_BEGIN] = "begin",     [BRANCH_END] = "end",
	[BRANCH_ABORT] = "abort", [BRANCH_GAP] = "gap",
};

static const char *const gap_names[GAP_COUNT] = {
	[GAP_NONE] = "none",
	[GAP_OVERFLOW] = "overflow",
	[GAP_LOST] = "lost",
	[GAP_RESIZE] = "resize",
	[GAP_UNTRACED] = "untraced",
	[GAP_NO_IMAGE] = "no-image",
	[GAP_BAD_PACKET] = "bad-packet",
	[GAP_MISMATCH] = "mismatch",
	[GAP_ATOMIC] = "atomic",
	[GAP_START] = "start",
};

const char *branch_kind_name(enum branch_kind kind)
{
	return (size_t)kind < ARRAY_SIZE(kind_names) ? kind_names[kind] : "unknown";
}

const char *branch_gap_name(enum branch_gap gap)
{
	return (size_t)gap < ARRAY_SIZE(gap_names) ? gap_names[gap] : "unknown";
}
