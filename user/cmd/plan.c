// SPDX-License-Identifier: GPL-2.0-only
/* ptbpf plan: what record would attach and allocate; changes nothing. */
#include <stdio.h>

#include "base/log.h"
#include "base/mem.h"
#include "cmd/commands.h"
#include "cmd/live.h"

enum exit_code cmd_plan(const struct options *options)
{
	scoped(live_fini) struct live live = { 0 };
	enum exit_code code = live_prepare(options, &live);

	if (code == EXIT_DONE)
		code = session_plan(&live.session);
	if (!fflush(stdout))
		return code;
	log_err("write to stdout: %m");
	return EXIT_FAILED;
}
