// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: cmd/summary base/size base/duration
 */
#include "cmd/summary.h"

#include "base/mem.h"
#include "unit.h"

static char *printed(const struct summary *summary)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);

	CHECK(out);
	summary_print(out, summary);
	fclose(out);
	return text;
}

static struct meta_thread threads[] = {
	{ .tid = 101,
	  .comm = "main",
	  .ring = 65536,
	  .bytes = 1000,
	  .lookback_ns = 1234567,
	  .instructions = 20100 },
	{ .tid = 102,
	  .comm = "worker-1",
	  .ring = 131072,
	  .bytes = 131072,
	  .wrapped = true,
	  .lookback_ns = 98765432,
	  .instructions = 1234567,
	  .exited = true },
	{ .tid = 103,
	  .comm = "worker-2",
	  .fired = true,
	  .ring = 32768,
	  .bytes = 2560,
	  .lookback_ns = 4210,
	  .instructions = 987 },
	{ .tid = 104, .comm = "late", .untraced = true },
};

static struct meta_count counts[] = {
	{ .spec = (char *)"sym:slow", .hits = 5, .fires = 1, .drops = 2 }
};

static struct meta meta(void)
{
	struct meta meta = {
		.sequence = 1,
		.trigger = { .kind = (char *)"sym",
			     .spec = (char *)"sym:slow",
			     .symbol = (char *)"slow",
			     .tid = 103,
			     .comm = "worker-2",
			     .args = { 1, 0xabc },
			     .hit = 3,
			     .time_ns = 9 },
		.budget_bytes = 262144,
		.budget_used = 229376,
		.balance = (char *)"activity",
		.source = (char *)"soft",
		.soft_step = (char *)"block",
		.instructions = 1255654,
		.stops = 250000,
		.slow_down = 312.4,
	};

	meta.counts.data = counts;
	meta.counts.len = ARRAY_SIZE(counts);
	meta.threads.data = threads;
	meta.threads.len = ARRAY_SIZE(threads);
	return meta;
}

TEST(a_fire_as_a_first_user_sees_it)
{
	const struct meta m = meta();
	const struct timeline_totals totals = { .threads = 3, .slices = 4321, .inferred = 43 };
	const struct summary summary = {
		&m, &totals, "./prog-1", "trace.pftrace", "main > serve > slow", true
	};
	scoped_free char *text = printed(&summary);

	CHECK_STR(
		text,
		"snapshot 1: sym:slow fired in worker-2 (tid 103) at hit 3\n"
		"  at slow(0x1, 0xabc, 0x0, ...)\n"
		"  in main > serve > slow\n"
		"    thread               tid    ring    kept look-back instructions\n"
		"  * worker-2             103     32K   2.50K    4.21us          987  fired\n"
		"    worker-1             102    128K    128K    98.8ms        1.23M  exited  (older overwritten)\n"
		"    main                 101     64K   1000B    1.23ms        20.1k\n"
		"    late                 104       -   not traced: more threads than rings\n"
		"  trigger sym:slow: 5 hits, 1 fire, 2 more after it was disarmed\n"
		"  buffer 256K, 224K of it in rings, shared by activity\n"
		"  decoded 4.32k calls in 3 threads, 0.995% with a begin or end that was not seen\n"
		"  software tracer (block): 1.26M instructions in 250k stops; the target ran about 310 times slower\n"
		"  to see it: drop this file on https://ui.perfetto.dev (it is not uploaded)\n"
		"    ./prog-1/trace.pftrace\n"
		"  as text: ptbpf decode --format text ./prog-1\n");
}

TEST(no_fire_says_so)
{
	struct meta m = meta();
	const struct summary summary = { .meta = &m, .path = "./prog-1" };
	scoped_free char *text = NULL;

	m.trigger = (struct meta_trigger){ .kind = (char *)"interrupt" };
	threads[0].untraced = true;
	threads[0].bytes = 0;
	text = printed(&summary);
	CHECK(strstr(text, "snapshot 1: at Ctrl-C; no trigger had fired\n"));
	CHECK(strstr(text, "    2 other threads were not recorded; --multi-thread records all\n"));
	CHECK(!strstr(text, "perfetto"));
}

TEST(many_threads_are_cut_to_a_screen)
{
	static struct meta_thread many[200];
	struct meta m = meta();
	const struct summary summary = { .meta = &m, .path = "./prog-1", .multi_thread = true };
	scoped_free char *text = NULL;
	int lines = 0;

	for (int i = 0; i < 200; i++)
		many[i] = (struct meta_thread){ .tid = i + 1,
						.comm = "t",
						.untraced = i % 2,
						.fired = i == 150,
						.ring = 16384 };
	m.threads.data = many;
	m.threads.len = ARRAY_SIZE(many);
	text = printed(&summary);
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	CHECK(lines < 26);
	CHECK(strstr(text, "  * t                    151     16K"));
	CHECK(strstr(text, "and 185 more threads, 100 of them not traced"));
}

TEST(the_chain_of_the_firing_thread)
{
	struct timeline_name names[12];
	struct slice slices[13] = { 0 };
	struct thread_timeline thread = { .fired = true, .last_ns = 100 };
	struct timeline timeline = { 0 };
	char text[12][4];
	char *chain;

	/* f0 > f1 (ended) and f0 > f2 > ... > f11 */
	for (uint32_t i = 0; i < 12; i++) {
		snprintf(text[i], sizeof(text[i]), "f%u", i);
		names[i] = (struct timeline_name){ .function = text[i] };
		slices[i] = (struct slice){ .begin_ns = i,
					    .end_ns = i == 1 ? 2 : 100,
					    .name = i,
					    .parent = i == 0 ? UINT32_MAX :
						      i < 3  ? 0 :
							       i - 1,
					    .end_edge = i == 1 ? EDGE_SEEN : EDGE_INFERRED };
	}
	thread.slices.data = slices;
	thread.slices.len = 4;
	timeline.threads.data = &thread;
	timeline.threads.len = 1;
	timeline.names.data = names;
	timeline.names.len = 12;
	chain = summary_chain(&timeline);
	CHECK_STR(chain, "f0 > f2 > f3");
	free(chain);
	thread.slices.len = 12;
	chain = summary_chain(&timeline);
	CHECK_STR(chain, "... > f4 > f5 > f6 > f7 > f8 > f9 > f10 > f11");
	free(chain);
	thread.fired = false;
	CHECK(!summary_chain(&timeline));
}

TEST(statuses)
{
	char buf[64];

	CHECK_STR(summary_status(3 << 8, buf, sizeof(buf)), "exited with status 3");
	CHECK_STR(summary_status(9, buf, sizeof(buf)), "was killed by SIGKILL");
	CHECK_STR(summary_status(6 | 0x80, buf, sizeof(buf)),
		  "was killed by SIGABRT (core dumped)");
}

UNIT_MAIN("unit/summary")
