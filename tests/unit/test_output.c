// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: output/utf8 output/units output/walk output/proto
 */
#include "unit.h"

#include "output/proto.h"
#include "output/units.h"
#include "output/utf8.h"
#include "output/walk.h"

static const char *cleaned(const char *text, size_t size)
{
	static char out[64];

	CHECK(size <= sizeof(out));
	CHECK_EQ(utf8_clean(text, out, size), strlen(out));
	return out;
}

TEST(invalid_utf8_is_replaced)
{
	CHECK_STR(cleaned("plain", 64), "plain");
	CHECK_STR(cleaned("a\tb\nc\x7f", 64), "a b c ");
	CHECK_STR(cleaned("\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82", 64),
		  "\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82");
	CHECK_STR(cleaned("\xff", 64), UTF8_REPLACEMENT);
	CHECK_STR(cleaned("\xc0\x80", 64), UTF8_REPLACEMENT UTF8_REPLACEMENT); /* too long for 0 */
	CHECK_STR(cleaned("\xed\xa0\x80", 64),
		  UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT); /* surrogate */
	CHECK_STR(cleaned("\xf4\x90\x80\x80", 64),
		  UTF8_REPLACEMENT UTF8_REPLACEMENT UTF8_REPLACEMENT
			  UTF8_REPLACEMENT); /* above U+10FFFF */
	CHECK_STR(cleaned("cut\xe2\x82", 64), "cut" UTF8_REPLACEMENT UTF8_REPLACEMENT);
}

TEST(long_text_is_cut_at_a_character)
{
	CHECK_STR(cleaned("0123456789", 11), "0123456789");
	CHECK_STR(cleaned("0123456789", 10), "012345...");
	CHECK_STR(cleaned("ab\xe2\x82\xac\xe2\x82\xac\xe2\x82\xac", 10), "ab\xe2\x82\xac...");
}

TEST(durations_have_three_digits)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{ 0, "0 ns" },
		{ 999, "999 ns" },
		{ 1000, "1.00 us" },
		{ 1004, "1.00 us" },
		{ 1005, "1.01 us" },
		{ 9994, "9.99 us" },
		{ 9995, "10.0 us" },
		{ 99949, "99.9 us" },
		{ 99950, "100 us" },
		{ 999499, "999 us" },
		{ 999500, "1.00 ms" },
		{ 45100000, "45.1 ms" },
		{ 2030000000, "2.03 s" },
		{ 75300000000, "75.3 s" },
		{ 7200000000000, "7200 s" },
	};
	char buf[UNITS_SIZE];

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++)
		CHECK_STR(units_duration(cases[i].ns, false, buf), cases[i].text);
	CHECK_STR(units_duration(123456, true, buf), "123456");
	CHECK(strlen(units_duration(UINT64_MAX, false, buf)) < UNITS_SIZE);
}

TEST(counts_have_commas)
{
	char buf[UNITS_SIZE];

	CHECK_STR(units_count(0, buf), "0");
	CHECK_STR(units_count(999, buf), "999");
	CHECK_STR(units_count(1000, buf), "1,000");
	CHECK_STR(units_count(1234567, buf), "1,234,567");
	CHECK_STR(units_count(UINT64_MAX, buf), "18,446,744,073,709,551,615");
}

struct details {
	char text[256];
};

static void add_detail(void *ctx, const char *key, size_t key_size, const char *value,
		       size_t value_size)
{
	struct details *details = ctx;
	const size_t used = strlen(details->text);

	snprintf(details->text + used, sizeof(details->text) - used, "<%.*s|%.*s>", (int)key_size,
		 key, (int)value_size, value);
}

static const char *split(const char *detail)
{
	static struct details details;

	details.text[0] = '\0';
	walk_detail(detail, add_detail, &details);
	return details.text;
}

TEST(details_split_at_words_with_an_equals_sign)
{
	CHECK_STR(split(NULL), "");
	CHECK_STR(split(""), "");
	CHECK_STR(split("a=1"), "<a|1>");
	CHECK_STR(split("a=1 b=two words c="), "<a|1><b|two words><c|>");
	CHECK_STR(split("trigger=sym:f,arg0>=5 hit=1"), "<trigger|sym:f,arg0>=5><hit|1>");
	CHECK_STR(split("no equals"), "<no equals|>");
	CHECK_STR(split("=x = y"), "<|x><| y>");
}

TEST(nested_messages_have_their_lengths)
{
	static const uint8_t expected[] = { 0x0a, 0x07, 0x08, 0x96, 0x01, 0x12, 0x02, 'h', 'i' };
	struct proto proto = { .failed = false };
	char big[300];

	proto_begin(&proto, 1);
	proto_uint(&proto, 1, 150);
	proto_bytes(&proto, 2, "hi", 2);
	proto_end(&proto);
	CHECK_EQ(proto.bytes.len, sizeof(expected));
	CHECK(!memcmp(proto.bytes.data, expected, sizeof(expected)));
	proto_clear(&proto);
	memset(big, 'x', sizeof(big));
	proto_begin(&proto, 1);
	proto_begin(&proto, 2);
	proto_bytes(&proto, 3, big, sizeof(big));
	proto_end(&proto);
	proto_end(&proto);
	/* 300 bytes and 3 of head, each level adding a tag and a length of two bytes */
	CHECK_EQ(proto.bytes.len, 309);
	CHECK_EQ(proto.bytes.data[1], 0x80 | (306 & 0x7f));
	CHECK_EQ(proto.bytes.data[2], 306 >> 7);
	proto_fini(&proto);
}

/* Writes B and E per slice, G per gap and I per instant. */
static int log_begin(void *ctx, const struct slice *slice)
{
	sprintf((char *)ctx + strlen(ctx), "B%u ", slice->name);
	return 0;
}

static int log_end(void *ctx, const struct slice *slice)
{
	sprintf((char *)ctx + strlen(ctx), "E%u ", slice->name);
	return 0;
}

static int log_gap(void *ctx, const struct gap *gap, uint32_t depth)
{
	sprintf((char *)ctx + strlen(ctx), "G%u@%u ", gap->reason, depth);
	return 0;
}

static int log_instant(void *ctx, const struct instant *instant, uint32_t depth)
{
	sprintf((char *)ctx + strlen(ctx), "I%s@%u ", instant->name, depth);
	return 0;
}

TEST(equal_times_keep_the_programs_order)
{
	struct slice slices[] = {
		{ .begin_ns = 10, .end_ns = 40, .name = 0, .parent = UINT32_MAX },
		{ .begin_ns = 10, .end_ns = 10, .name = 1, .parent = 0, .depth = 1 },
		{ .begin_ns = 10, .end_ns = 20, .name = 2, .parent = 0, .depth = 1 },
		{ .begin_ns = 20, .end_ns = 20, .name = 3, .parent = 2, .depth = 2 },
		{ .begin_ns = 30, .end_ns = 40, .name = 4, .parent = 0, .depth = 1 },
	};
	struct gap gaps[] = { { .begin_ns = 20, .end_ns = 30, .reason = 1 },
			      { .begin_ns = 40, .end_ns = 50, .reason = 2 } };
	struct instant instants[] = { { .time_ns = 10, .name = (char *)"a" },
				      { .time_ns = 40, .name = (char *)"z" } };
	struct timeline timeline = { .trigger_ns = 40 };
	struct output_filter filter = { .max_depth = 2 };
	char log[256] = "";
	struct walk walk = { .timeline = &timeline,
			     .origin_ns = 40,
			     .ctx = log,
			     .begin = log_begin,
			     .end = log_end,
			     .gap = log_gap,
			     .instant = log_instant };
	struct thread_timeline thread = { .tid = 1 };

	thread.slices.data = slices;
	thread.slices.len = 5;
	thread.gaps.data = gaps;
	thread.gaps.len = 2;
	thread.instants.data = instants;
	thread.instants.len = 2;
	CHECK_EQ(walk_thread(&walk, &thread), 0);
	CHECK_STR(log, "B0 B1 E1 B2 Ia@2 B3 E3 E2 G1@1 B4 Iz@2 E4 E0 G2@0 ");
	log[0] = '\0';
	walk.filter = &filter;
	filter.has_from = true;
	filter.from_ns = -15; /* from 25 on */
	CHECK_EQ(walk_thread(&walk, &thread), 0);
	CHECK_STR(log, "B0 G1@1 B4 Iz@2 E4 E0 G2@0 ");
}

UNIT_MAIN("unit/output")
