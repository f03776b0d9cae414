/* SPDX-License-Identifier: GPL-2.0-only */
/* "did you mean": the word that was probably meant. Pure. */
#ifndef PTBPF_CMD_SUGGEST_H
#define PTBPF_CMD_SUGGEST_H

#include <stddef.h>

struct suggest {
	const char *best; /* NULL: nothing is near enough; borrowed from suggest_consider() */
	unsigned int distance;
};

/* Compares @typed with one candidate and keeps the nearest; zeroed to begin with. */
void suggest_consider(struct suggest *suggest, const char *typed, const char *candidate);

#endif
