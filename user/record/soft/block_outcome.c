// SPDX-License-Identifier: GPL-2.0-only
/* The outcome of one instruction, for stepping one by one. */
#include <errno.h>

#include "image/insn.h"
#include "record/soft/block_cache.h"
#include "record/soft/block_exec.h"

#define USER_CS_64 0x33

static int decode_32(struct block_node *node, const struct block_reader *reader, uint64_t ip)
{
	struct insn insn;
	uint8_t bytes[16];
	size_t got = reader->code(reader->ctx, ip, bytes, 15);

	*node = (struct block_node){ .addr = ip };
	if (insn_decode(bytes, got, ip, 32, &insn) ||
	    insn_ops_decode(bytes, got, ip, 32, &node->ops))
		return -EAGAIN;
	node->length = insn.length;
	return 0;
}

/* The target of a return or an indirect branch. */
static int read_target(const struct insn_ops *ops, const struct block_state *state,
		       const struct user_regs_struct *regs, const struct block_reader *reader,
		       unsigned int size, uint64_t *target)
{
	uint64_t addr = regs->rsp;

	*target = 0;
	if (ops->op != INSN_OP_RET && ops->src.kind == INSN_OPERAND_REG) {
		*target = state->gpr[ops->src.reg] & block_mask(size);
		return 0;
	}
	if (ops->op != INSN_OP_RET && !block_address(state, ops, &addr))
		return -EAGAIN;
	return reader->memory(reader->ctx, addr, target, size) == size ? 0 : -EAGAIN;
}

static int branch_outcome(const struct block_site *site, const struct user_regs_struct *regs,
			  const struct block_reader *reader, struct block_event *event,
			  bool *has_event, uint64_t *next)
{
	const struct insn_ops *ops = site->ops;
	unsigned int size = regs->cs == USER_CS_64 ? 8 : 4;
	struct block_state state;
	int err = 0;

	block_state_init(&state, regs);
	*event = (struct block_event){ .from = site->addr, .to = ops->target };
	switch (ops->op) {
	case INSN_OP_JCC:
		if (block_exec(&state, NULL, site, next, event) != BLOCK_FLOW_EVENT)
			return -EAGAIN;
		break;
	case INSN_OP_JMP:
		*has_event = false;
		break;
	case INSN_OP_CALL:
		event->kind = BLOCK_CALL;
		break;
	case INSN_OP_RET:
		event->kind = BLOCK_RETURN;
		err = read_target(ops, &state, regs, reader, size, &event->to);
		break;
	default:
		event->kind = BLOCK_INDIRECT;
		err = read_target(ops, &state, regs, reader, size, &event->to);
	}
	if (ops->op == INSN_OP_CALL || ops->op == INSN_OP_CALL_IND)
		event->return_address = (site->addr + site->length) & block_mask(size);
	event->to &= block_mask(size);
	*next = event->to;
	return err;
}

int block_outcome(struct block_cache *cache, const struct user_regs_struct *regs,
		  const struct block_reader *reader, struct block_event *event, bool *has_event,
		  uint64_t *next)
{
	struct block_node other;
	const struct block_node *node = &other;
	struct block_site site;
	uint32_t index;

	if (regs->cs == USER_CS_64) {
		index = block_cache_node(cache, reader, regs->rip);
		if (index == BLOCK_NO_NODE)
			return -ENOMEM;
		node = &cache->nodes[index];
	} else if (decode_32(&other, reader, regs->rip)) {
		return -EAGAIN;
	}
	switch (node->ops.op) {
	case INSN_OP_OPAQUE:
	case INSN_OP_REP:
		return -EAGAIN;
	case INSN_OP_JCC:
	case INSN_OP_JMP:
	case INSN_OP_CALL:
	case INSN_OP_JMP_IND:
	case INSN_OP_CALL_IND:
	case INSN_OP_RET:
		site = (struct block_site){ &node->ops, node->addr, node->length };
		*has_event = true;
		return branch_outcome(&site, regs, reader, event, has_event, next);
	default:
		*has_event = false;
		*next = node->addr + node->length;
		return 0;
	}
}
