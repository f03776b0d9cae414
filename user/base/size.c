// SPDX-License-Identifier: GPL-2.0-only
#include "base/size.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char units[] = "BKMGTPE";

/* Shift of the unit that @suffix names, or -EINVAL. */
static int unit_shift(const char *suffix)
{
	const char *unit;

	if (!*suffix || !strcasecmp(suffix, "B"))
		return 0;
	unit = strchr(units + 1, toupper((unsigned char)*suffix));
	if (!unit)
		return -EINVAL;
	if (suffix[1] && strcasecmp(suffix + 1, "B") && strcasecmp(suffix + 1, "iB"))
		return -EINVAL;
	return 10 * (int)(unit - units);
}

int size_parse(const char *text, uint64_t *bytes)
{
	long double value;
	char *end;
	int shift;

	if (!isdigit((unsigned char)*text) || strpbrk(text, "xX"))
		return -EINVAL;
	errno = 0;
	value = strtold(text, &end);
	if (errno == ERANGE || !isfinite((double)value))
		return -EINVAL;
	shift = unit_shift(end);
	if (shift < 0)
		return shift;
	value = ldexpl(value, shift);
	if (value < 1)
		return -EINVAL;
	*bytes = value >= 0x1p63L ? UINT64_MAX : (uint64_t)value;
	return 0;
}

const char *size_format(uint64_t bytes, char *buf, size_t buf_size)
{
	int unit = 0;

	while (unit < 6 && bytes >= (1ull << (10 * (unit + 1))))
		unit++;
	while (unit > 0) {
		const uint64_t one = 1ull << (10 * unit);

		if (bytes % one == 0) {
			snprintf(buf, buf_size, "%llu%c", (unsigned long long)(bytes / one),
				 units[unit]);
			return buf;
		}
		if (unit > 0 && bytes % one == one / 2 && bytes / one < 1024) {
			snprintf(buf, buf_size, "%llu.5%c", (unsigned long long)(bytes / one),
				 units[unit]);
			return buf;
		}
		unit--;
	}
	snprintf(buf, buf_size, "%lluB", (unsigned long long)bytes);
	return buf;
}
