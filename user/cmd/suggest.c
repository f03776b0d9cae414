// SPDX-License-Identifier: GPL-2.0-only
#include "cmd/suggest.h"

#include <string.h>

#define LONGEST 32

static unsigned int min3(unsigned int a, unsigned int b, unsigned int c)
{
	const unsigned int ab = a < b ? a : b;

	return ab < c ? ab : c;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn one word into the other. */
static unsigned int distance(const char *a, size_t a_len, const char *b, size_t b_len)
{
	unsigned int rows[3][LONGEST + 1];

	for (size_t j = 0; j <= b_len; j++)
		rows[0][j] = (unsigned int)j;
	for (size_t i = 1; i <= a_len; i++) {
		unsigned int *const row = rows[i % 3];
		const unsigned int *const above = rows[(i + 2) % 3], *const above2 =
									     rows[(i + 1) % 3];

		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= b_len; j++) {
			row[j] = min3(row[j - 1] + 1, above[j] + 1,
				      above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			    above2[j - 2] + 1 < row[j])
				row[j] = above2[j - 2] + 1;
		}
	}
	return rows[a_len % 3][b_len];
}

void suggest_consider(struct suggest *suggest, const char *typed, const char *candidate)
{
	const size_t typed_len = strlen(typed), len = strlen(candidate);
	unsigned int found, allowed;

	if (!typed_len || typed_len > LONGEST || len > LONGEST)
		return;
	found = distance(typed, typed_len, candidate, len);
	allowed = 1 + (unsigned int)(typed_len < len ? typed_len : len) / 4;
	if (typed_len >= 3 && typed_len < len && !strncmp(typed, candidate, typed_len))
		found = found < 2 ? found : 2; /* cut short */
	else if (found > allowed)
		return;
	if (!suggest->best || found < suggest->distance) {
		suggest->best = candidate;
		suggest->distance = found;
	}
}
