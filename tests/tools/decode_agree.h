/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Two decoders, one execution: branch events are unrolled into the instructions between them and
 * compared with those that the instruction decoder tells.
 */
#ifndef PTBPF_TESTS_DECODE_AGREE_H
#define PTBPF_TESTS_DECODE_AGREE_H

#include <inttypes.h>
#include <stdio.h>

#include "base/vec.h"
#include "decode/decode.h"
#include "image/insn.h"

struct agree {
	const struct space *space;
	pid_t pid;
	unsigned int mode_bits;
	VEC(uint64_t) ips; /* by the instruction decoder */
	size_t at;
	uint64_t cur; /* where execution stands */
	size_t events;
	bool failed;
};

static inline int agree_add_insn(void *ctx, uint64_t ip, uint64_t time_ns)
{
	struct agree *agree = ctx;

	(void)time_ns;
	return vec_push(&agree->ips, ip);
}

static inline void agree_fail(struct agree *agree, const struct branch *branch, const char *what,
			      uint64_t want, uint64_t got)
{
	if (!agree->failed)
		printf("disagree: event %zu (%s %" PRIx64 " -> %" PRIx64 "), insn %zu: %s %" PRIx64
		       ", not %" PRIx64 "\n",
		       agree->events, branch_kind_name(branch->kind), branch->from, branch->to,
		       agree->at, what, got, want);
	agree->failed = true;
}

/* One instruction, which must be the next that the other decoder told; then to its successor. */
static inline bool agree_step(struct agree *agree, const struct branch *branch, uint64_t *ip)
{
	uint8_t bytes[15];
	struct insn insn;
	size_t size;

	if (agree->at >= agree->ips.len) {
		agree_fail(agree, branch, "one too many at", 0, agree->cur);
		return false;
	}
	if (agree->ips.data[agree->at] != agree->cur) {
		agree_fail(agree, branch, "at", agree->ips.data[agree->at], agree->cur);
		return false;
	}
	*ip = agree->cur;
	agree->at++;
	size = space_read(agree->space, agree->pid, agree->cur, branch->time_ns, bytes,
			  sizeof(bytes));
	if (insn_decode(bytes, size, agree->cur, agree->mode_bits, &insn))
		insn.length = 0;
	agree->cur += insn.length;
	return true;
}

static inline int agree_branch(struct agree *agree, const struct branch *branch)
{
	uint64_t ip = 0;

	agree->events++;
	for (uint32_t i = 0; i < branch->insns && !agree->failed; i++) {
		if (!agree_step(agree, branch, &ip))
			return 0;
	}
	if (agree->failed)
		return 0;
	switch ((enum branch_kind)branch->kind) {
	case BRANCH_CALL:
	case BRANCH_RETURN:
	case BRANCH_JUMP:
	case BRANCH_COND:
	case BRANCH_SYSCALL:
	case BRANCH_FAR:
		if (!branch->insns || ip != branch->from)
			agree_fail(agree, branch, "branch at", branch->from, ip);
		agree->cur = branch->to;
		break;
	case BRANCH_ASYNC:
	case BRANCH_END:
	case BRANCH_ABORT:
		if (agree->cur != branch->from)
			agree_fail(agree, branch, "stands at", branch->from, agree->cur);
		agree->cur = branch->to;
		break;
	case BRANCH_BEGIN:
		agree->cur = branch->to;
		break;
	case BRANCH_GAP:
		break;
	}
	return 0;
}

/* branch_fn */
static inline int agree_branches(void *ctx, const struct branch *branches, size_t n)
{
	for (size_t i = 0; i < n; i++)
		agree_branch(ctx, &branches[i]);
	return 0;
}

static inline bool agree_end(struct agree *agree)
{
	struct branch none = { .kind = BRANCH_END };

	if (!agree->failed && agree->at != agree->ips.len)
		agree_fail(agree, &none, "all events told, next", agree->ips.data[agree->at], 0);
	return !agree->failed;
}

/* Whether both decoders agree on @tid, all of whose code is of @mode_bits; says where not. */
static inline bool agree_thread(const struct recording *recording, const struct space *space,
				pid_t pid, pid_t tid, unsigned int mode_bits)
{
	struct agree agree = { .space = space, .pid = pid, .mode_bits = mode_bits };
	struct decode_thread_stats branches, insns;
	bool same;
	int err;

	err = decode_thread_insns(recording, space, tid, agree_add_insn, &agree, &insns);
	if (!err)
		err = decode_thread(recording, space, tid, agree_branches, &agree, &branches);
	same = !err && agree_end(&agree);
	if (same && branches.instructions != insns.instructions) {
		printf("disagree: %" PRIu64 " instructions in events, not %" PRIu64 "\n",
		       branches.instructions, insns.instructions);
		same = false;
	}
	vec_free(&agree.ips);
	return same;
}

#endif
