// SPDX-License-Identifier: GPL-2.0-only
#include "cmd/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"

#define FIRST_NS 300000000ull /* what is done sooner needs no line */
#define EVERY_NS 100000000ull

void progress_init(struct progress *progress, const char *what)
{
	*progress = (struct progress){ .what = what, .begin_ns = clock_now_ns() };
}

void progress_step(void *ctx, size_t done, size_t all)
{
	struct progress *progress = ctx;
	const uint64_t now_ns = clock_now_ns();

	if (now_ns - progress->begin_ns < FIRST_NS || now_ns - progress->shown_ns < EVERY_NS ||
	    log_get_level() < LOG_INFO || !isatty(STDERR_FILENO))
		return;
	progress->shown_ns = now_ns;
	progress->shown = true;
	dprintf(STDERR_FILENO, "\rptbpf: %s: %zu of %zu threads, %llu s \033[K", progress->what,
		done, all, (unsigned long long)((now_ns - progress->begin_ns) / 1000000000));
}

void progress_fini(struct progress *progress)
{
	if (progress->shown)
		dprintf(STDERR_FILENO, "\r\033[K");
	progress->shown = false;
}
