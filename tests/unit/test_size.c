// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: base/size
 */
#include "base/size.h"

#include <errno.h>

#include "unit.h"

static uint64_t parsed(const char *text)
{
	uint64_t bytes = 0;

	return size_parse(text, &bytes) ? 0 : bytes;
}

TEST(parses_what_people_write)
{
	CHECK_EQ(parsed("4096"), 4096);
	CHECK_EQ(parsed("8K"), 8192);
	CHECK_EQ(parsed("512k"), 512 * 1024);
	CHECK_EQ(parsed("8KiB"), 8192);
	CHECK_EQ(parsed("8KB"), 8192);
	CHECK_EQ(parsed("1.5G"), 3ull << 29);
	CHECK_EQ(parsed("300T"), 300ull << 40);
	CHECK_EQ(parsed("16000E"), -1);
}

TEST(refuses_everything_else)
{
	static const char *const bad[] = { "",     "0",   "-1",  "abc", "1X",  "K",   "8KQ",
					   "0x10", "+4K", " 4K", "4 K", "nan", "inf", "1e400" };
	uint64_t bytes;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		CHECK_EQ(size_parse(bad[i], &bytes), -EINVAL);
}

TEST(formats_exactly)
{
	char buf[32];

	CHECK_STR(size_format(16384, buf, sizeof(buf)), "16K");
	CHECK_STR(size_format(1536, buf, sizeof(buf)), "1.5K");
	CHECK_STR(size_format(9001, buf, sizeof(buf)), "9001B");
	CHECK_STR(size_format(1ull << 48, buf, sizeof(buf)), "256T");
	CHECK_STR(size_format(3ull << 29, buf, sizeof(buf)), "1.5G");
}

TEST(rounds_to_powers_of_two)
{
	CHECK_EQ(size_floor_pow2(0), 0);
	CHECK_EQ(size_floor_pow2(17), 16);
	CHECK_EQ(size_ceil_pow2(17), 32);
	CHECK_EQ(size_ceil_pow2(16), 16);
	CHECK_EQ(size_ceil_pow2((1ull << 40) + 1), 1ull << 41);
}

UNIT_MAIN("unit/size")
