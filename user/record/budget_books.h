/* SPDX-License-Identifier: GPL-2.0-only */
/* What budget.c (who lives, what each has) and budget_plan.c (what each shall have) share. */
#ifndef PTBPF_RECORD_BUDGET_BOOKS_H
#define PTBPF_RECORD_BUDGET_BOOKS_H

#include "base/vec.h"
#include "record/budget.h"

#define BUDGET_NS_PER_S 1000000000ull
/* A ring rests as long before it grows or is swapped; longer after it grew in vain. */
#define BUDGET_PATIENCE_NS BUDGET_NS_PER_S

struct budget {
	uint64_t bytes, used;
	enum budget_balance balance;
	VEC(struct budget_thread) threads; /* by tid */
	VEC(struct budget_step) steps;
	VEC(struct budget_step) ordered;
};

/* Index of @tid, or where it would be inserted. */
size_t budget_position(const struct budget *budget, pid_t tid);
/* Changes what a thread has and with it the sum. */
void budget_set_bytes(struct budget *budget, struct budget_thread *t, uint64_t ring, uint64_t tail);

#endif
