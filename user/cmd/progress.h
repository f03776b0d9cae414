/* SPDX-License-Identifier: GPL-2.0-only */
/* One line that says how far long work is: on a terminal only, unless ptbpf is quiet. */
#ifndef PTBPF_CMD_PROGRESS_H
#define PTBPF_CMD_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct progress {
	const char *what; /* "decoding" */
	uint64_t begin_ns, shown_ns;
	bool shown;
};

void progress_init(struct progress *progress, const char *what);
/* A build_options.progress callback. */
void progress_step(void *progress, size_t done, size_t all);
/* Erases the line. */
void progress_fini(struct progress *progress);

#endif
