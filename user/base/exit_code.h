/* SPDX-License-Identifier: GPL-2.0-only */
/* ptbpf's exit codes: a contract with scripts, documented in the README, tested one by one. */
#ifndef PTBPF_BASE_EXIT_CODE_H
#define PTBPF_BASE_EXIT_CODE_H

enum exit_code {
	EXIT_DONE = 0,
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_UNSUPPORTED = 3,
	EXIT_PERMISSION = 4,
	EXIT_NOT_FOUND = 5, /* target or symbol */
	EXIT_RESOURCE_LIMIT = 6,
	EXIT_NO_FIRE = 7,     /* ended without a fire */
	EXIT_DECODE_GAPS = 8, /* decode: gaps caused by errors */
};

#endif
