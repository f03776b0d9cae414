// SPDX-License-Identifier: GPL-2.0-only
#include "base/limits.h"

#include <sys/resource.h>

void limits_raise_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur == limit.rlim_max)
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit); /* at worst it stays as it was */
}
