/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Which function an address belongs to, for one thread; and names of all threads in one table. A
 * namer's ids are its own until names_add() maps them.
 */
#ifndef PTBPF_CALLS_NAMER_H
#define PTBPF_CALLS_NAMER_H

#include <sys/types.h>

#include "calls/calls.h"
#include "image/space.h"

struct namer;
struct names;

int namer_new(const struct space *space, pid_t pid, struct namer **namer);
void namer_free(struct namer *namer);
/* Gives back what speeds up look-ups; the names stay. */
void namer_drop_cache(struct namer *namer);
/* A calls_lookup_fn; @ctx is the namer. Caches, so not for two threads at once. */
bool namer_look_up(void *ctx, uint64_t addr, uint64_t time_ns, struct calls_function *function);

/* The table behind timeline.names. */
int names_new(struct timeline *timeline, struct names **names);
void names_free(struct names *names);
/* Turns the namer's ids, and the addresses of code without a name, into indices: 0, -ENOMEM. */
int names_add(struct names *names, const struct namer *namer, struct thread_timeline *thread);

#endif
