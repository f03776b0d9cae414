// SPDX-License-Identifier: GPL-2.0-only
#include "output/units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

const char *units_duration(uint64_t ns, bool steps, char *buf)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "us", 1000 }, { "ms", 1000000 }, { "s", 1000000000 } };
	size_t unit = 0;
	uint64_t thousandths;

	if (steps || ns < 1000) {
		snprintf(buf, UNITS_SIZE, "%" PRIu64 "%s", ns, steps ? "" : " ns");
		return buf;
	}
	/* 999.6 us is 1.00 ms. */
	while (unit + 1 < ARRAY_SIZE(units) && ns >= units[unit].ns * 1000 - units[unit].ns / 2)
		unit++;
	thousandths = ns / units[unit].ns * 1000 + ns % units[unit].ns * 1000 / units[unit].ns;
	if (thousandths < 9995)
		thousandths += 5;
	else if (thousandths < 99950)
		thousandths += 50;
	else
		thousandths += 500;
	if (thousandths < 10000)
		snprintf(buf, UNITS_SIZE, "%" PRIu64 ".%02" PRIu64 " %s", thousandths / 1000,
			 thousandths % 1000 / 10, units[unit].name);
	else if (thousandths < 100000)
		snprintf(buf, UNITS_SIZE, "%" PRIu64 ".%" PRIu64 " %s", thousandths / 1000,
			 thousandths % 1000 / 100, units[unit].name);
	else
		snprintf(buf, UNITS_SIZE, "%" PRIu64 " %s", thousandths / 1000, units[unit].name);
	return buf;
}

const char *units_count(uint64_t count, char *buf)
{
	char digits[24];
	const int n = snprintf(digits, sizeof(digits), "%" PRIu64, count);
	char *to = buf;

	for (int i = 0; i < n; i++) {
		if (i && (n - i) % 3 == 0)
			*to++ = ',';
		*to++ = digits[i];
	}
	*to = '\0';
	return buf;
}
