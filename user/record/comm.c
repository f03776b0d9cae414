// SPDX-License-Identifier: GPL-2.0-only
#include "record/comm.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"

void comm_read(pid_t pid, pid_t tid, char comm[16])
{
	char path[64];
	scoped_file FILE *file = NULL;

	memset(comm, 0, 16);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/comm", pid, tid);
	file = fopen(path, "re");
	if (file && fgets(comm, 16, file))
		comm[strcspn(comm, "\n")] = '\0';
}
