// SPDX-License-Identifier: GPL-2.0-only
#include "cmd/owner.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

static bool read_id(const char *name, unsigned int *id)
{
	const char *text = getenv(name);
	unsigned long value;
	char *end;

	if (!text || *text < '0' || *text > '9')
		return false;
	value = strtoul(text, &end, 10);
	*id = (unsigned int)value;
	return !*end && value < UINT_MAX;
}

bool owner_find(uid_t *uid, gid_t *gid)
{
	if (!geteuid() && read_id("SUDO_UID", uid) && read_id("SUDO_GID", gid))
		return true;
	*uid = (uid_t)-1;
	*gid = (gid_t)-1;
	return false;
}
