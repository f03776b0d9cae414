// SPDX-License-Identifier: GPL-2.0-only
#include "base/duration.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
	const char *name;
	double ns;
} units[] = {
	{ "ns", 1 },  { "us", 1e3 }, { "\302\265s", 1e3 }, { "ms", 1e6 },
	{ "s", 1e9 }, { "m", 60e9 }, { "min", 60e9 },      { "h", 3600e9 },
};

int duration_parse(const char *text, int64_t *ns)
{
	const char *digits = text + (*text == '-' || *text == '+');
	double value;
	char *end;

	if (!isdigit((unsigned char)*digits) || strpbrk(digits, "xXpP"))
		return -EINVAL;
	value = strtod(digits, &end);
	if (*text == '-')
		value = -value;
	if (!*end) {
		*ns = 0;
		return value ? -EINVAL : 0;
	}
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
		if (strcmp(end, units[i].name))
			continue;
		value = round(value * units[i].ns);
		if (!(fabs(value) < 0x1p63))
			return -ERANGE;
		*ns = (int64_t)value;
		return 0;
	}
	return -EINVAL;
}

const char *duration_format(uint64_t ns, char *buf, size_t buf_size)
{
	static const char *const names[] = { "ns", "us", "ms", "s" };
	double value = (double)ns;
	size_t unit = 0;

	while (unit < 3 && value >= 999.5) {
		value /= 1000;
		unit++;
	}
	if (unit == 0)
		snprintf(buf, buf_size, "%.0fns", value);
	else
		snprintf(buf, buf_size, "%.*f%s",
			 value < 9.995 ? 2 :
			 value < 99.95 ? 1 :
					 0,
			 value, names[unit]);
	return buf;
}
