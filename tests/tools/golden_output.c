// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: output/output output/perfetto output/fxt output/text output/json output/walk output/utf8
 * links: output/units output/proto calls/timeline decode/branch
 *
 * golden_output CASE: writes a timeline from a file in one format.
 *
 *	[options]
 *	format text               depth N, min NS, from NS, to NS, thread TID
 *	[timeline]
 *	command ./prog            unit steps, trigger NS
 *	thread PID TID COMM [fired]
 *	slice DEPTH BEGIN END NAME [begin=EDGE] [end=EDGE] [signal] [spread] [assumed]
 *	gap BEGIN END REASON [error]
 *	instant NS NAME DETAIL...
 *
 * golden_output SEED FORMAT: a large random timeline with all that is difficult, in a format, or as
 * "truth": pid, tid, depth, begin, duration and the name in hex, one slice a line.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "output/output.h"
#include "output/utf8.h"

static void die(const char *what, const char *line)
{
	fprintf(stderr, "%s: %s\n", what, line);
	exit(1);
}

static struct thread_timeline *last_thread(struct timeline *timeline)
{
	if (!timeline->threads.len)
		die("no thread yet", "");
	return &timeline->threads.data[timeline->threads.len - 1];
}

static char *copy(const char *text, size_t size)
{
	char *copied = strndup(text, size);

	if (!copied)
		die("no memory", text);
	return copied;
}

static uint32_t add_name(struct timeline *timeline, const char *function, size_t size,
			 const char *object)
{
	struct timeline_name name = { .function = copy(function, size),
				      .object = copy(object, strlen(object)) };

	if (vec_push(&timeline->names, name))
		die("no memory", function);
	return (uint32_t)timeline->names.len - 1;
}

static uint32_t find_name(struct timeline *timeline, const char *function)
{
	for (uint32_t i = 0; i < timeline->names.len; i++) {
		if (!strcmp(timeline->names.data[i].function, function))
			return i;
	}
	return add_name(timeline, function, strlen(function), "prog");
}

/* Slices come in order; parent and self time follow from depth. */
static void add_slice(struct thread_timeline *thread, struct slice slice)
{
	slice.parent = UINT32_MAX;
	slice.self_ns = slice.end_ns - slice.begin_ns;
	for (uint32_t i = (uint32_t)thread->slices.len; slice.depth && i-- > 0;) {
		struct slice *parent = &thread->slices.data[i];

		if (parent->depth + 1 != slice.depth)
			continue;
		slice.parent = i;
		parent->self_ns -= slice.self_ns;
		break;
	}
	thread->inferred += slice.begin_edge == EDGE_INFERRED || slice.end_edge == EDGE_INFERRED;
	if (vec_push(&thread->slices, slice))
		die("no memory", "slice");
}

static void read_thread(struct timeline *timeline, const char *line)
{
	struct thread_timeline thread = { .pid = 0 };
	char word[16] = "";

	if (sscanf(line, "%d %d %15s %15s", &thread.pid, &thread.tid, thread.comm, word) < 3)
		die("bad thread", line);
	thread.fired = !strcmp(word, "fired");
	thread.instructions = 1234567;
	thread.branches = 89012;
	if (vec_push(&timeline->threads, thread))
		die("no memory", line);
}

static uint8_t read_edge(const char *text)
{
	static const char *const names[] = { "seen", "inferred", "unwound", "switched" };

	for (uint8_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!strcmp(names[i], text))
			return i;
	}
	die("bad edge", text);
	return 0;
}

static void read_slice(struct timeline *timeline, char *line)
{
	struct slice slice = { .insns = 7, .address = 0x1000 };
	char *word, *name = NULL;

	for (int i = 0; (word = strtok(i ? NULL : line, " ")); i++) {
		if (i == 0)
			slice.depth = (uint32_t)strtoul(word, NULL, 10);
		else if (i == 1)
			slice.begin_ns = strtoull(word, NULL, 10);
		else if (i == 2)
			slice.end_ns = strtoull(word, NULL, 10);
		else if (i == 3)
			name = word;
		else if (!strncmp(word, "begin=", 6))
			slice.begin_edge = read_edge(word + 6);
		else if (!strncmp(word, "end=", 4))
			slice.end_edge = read_edge(word + 4);
		else if (!strcmp(word, "spread"))
			slice.flags |= SLICE_BEGIN_SPREAD;
		else if (!strcmp(word, "assumed"))
			slice.flags |= SLICE_ASSUMED;
		else if (!strcmp(word, "signal"))
			slice.signal_handler = true;
	}
	if (!name)
		die("slice without a name", line);
	slice.name = find_name(timeline, name);
	add_slice(last_thread(timeline), slice);
}

static void read_gap(struct timeline *timeline, const char *line)
{
	struct gap gap = { .offset = 16 };
	char reason[32] = "", word[16] = "";

	if (sscanf(line, "%" SCNu64 " %" SCNu64 " %31s %15s", &gap.begin_ns, &gap.end_ns, reason,
		   word) < 3)
		die("bad gap", line);
	gap.error = !strcmp(word, "error");
	for (int i = 0; i < GAP_COUNT; i++) {
		if (!strcmp(branch_gap_name((enum branch_gap)i), reason))
			gap.reason = (uint8_t)i;
	}
	if (vec_push(&last_thread(timeline)->gaps, gap))
		die("no memory", line);
}

static void add_instant(struct timeline *timeline, uint64_t time_ns, const char *name,
			const char *detail)
{
	const struct instant instant = { .time_ns = time_ns,
					 .name = copy(name, strlen(name)),
					 .detail = detail ? copy(detail, strlen(detail)) : NULL };

	if (vec_push(&last_thread(timeline)->instants, instant))
		die("no memory", name);
}

static void read_instant(struct timeline *timeline, const char *line)
{
	uint64_t time_ns;
	char name[32];
	int at = 0;

	if (sscanf(line, "%" SCNu64 " %31s %n", &time_ns, name, &at) < 2)
		die("bad instant", line);
	add_instant(timeline, time_ns, name, line[at] ? line + at : NULL);
}

static bool read_option(struct output_filter *filter, const char *line)
{
	long long value = 0;

	if (sscanf(line, "depth %u", &filter->max_depth) == 1 ||
	    sscanf(line, "min %" SCNu64, &filter->min_duration_ns) == 1 ||
	    sscanf(line, "thread %d", &filter->tid) == 1)
		return true;
	if (sscanf(line, "from %lld", &value) == 1) {
		filter->has_from = true;
		filter->from_ns = value;
	} else if (sscanf(line, "to %lld", &value) == 1) {
		filter->has_to = true;
		filter->to_ns = value;
	} else {
		return false;
	}
	return true;
}

static bool read_line(struct timeline *timeline, char *line)
{
	if (!strncmp(line, "command ", 8))
		timeline->command = copy(line + 8, strlen(line + 8));
	else if (!strncmp(line, "unit ", 5))
		timeline->unit = copy(line + 5, strlen(line + 5));
	else if (!strncmp(line, "trigger ", 8))
		timeline->trigger_ns = strtoull(line + 8, NULL, 10);
	else if (!strncmp(line, "thread ", 7))
		read_thread(timeline, line + 7);
	else if (!strncmp(line, "slice ", 6))
		read_slice(timeline, line + 6);
	else if (!strncmp(line, "gap ", 4))
		read_gap(timeline, line + 4);
	else if (!strncmp(line, "instant ", 8))
		read_instant(timeline, line + 8);
	else
		return false;
	return true;
}

static const struct output_format *read_case(const char *path, struct timeline *timeline,
					     struct output_filter *filter)
{
	scoped_file FILE *file = fopen(path, "r");
	const struct output_format *format = NULL;
	char line[512], section[32] = "", name[32];

	if (!file)
		die("cannot read", path);
	while (fgets(line, sizeof(line), file) && strcmp(line, "[expect]\n")) {
		line[strcspn(line, "\n")] = '\0';
		if (sscanf(line, "[%31[a-z]]", section) == 1 || !*line || *line == ';')
			continue;
		if (!strcmp(section, "timeline") ? read_line(timeline, line) :
						   read_option(filter, line))
			continue;
		if (sscanf(line, "format %31s", name) != 1 || !(format = output_format_find(name)))
			die("bad line", line);
	}
	if (!format)
		die("no format", path);
	return format;
}

static uint32_t draw(uint64_t *state, uint32_t below)
{
	*state = *state * 6364136223846793005ull + 1442695040888963407ull;
	return (uint32_t)(*state >> 33) % below;
}

/* More names than a string table holds; some of them long, or not text at all. */
static void add_stress_names(struct timeline *timeline, uint64_t *state)
{
	static const char *const awkward[] = {
		"a\"b",
		"back\\slash",
		"<T>::f<a&, b>;",
		"tab\there",
		"line\nbreak",
		"\xff\xfe bad",
		"\xc3\xa4\xe2\x82\xac\xf0\x9f\x99\x82",
		"\xed\xa0\x80",
		"\xc0\x80",
		"cut\xe2\x82",
		"",
		"\x01\x7f",
		"</script>",
		"it's",
	};
	char name[10001];

	for (size_t i = 0; i < ARRAY_SIZE(awkward); i++)
		add_name(timeline, awkward[i], strlen(awkward[i]), i % 2 ? "odd \"object\"" : "");
	for (int i = 0; i < 20; i++) {
		memset(name, 'a' + i, sizeof(name));
		add_name(timeline, name, sizeof(name) - 1 - (size_t)i, "long.so");
	}
	for (int i = 0; i < 40000; i++) {
		snprintf(name, sizeof(name), "ns%u::function_%d(int)", draw(state, 100), i);
		add_name(timeline, name, strlen(name), i % 3 ? "libone.so" : "libtwo.so");
	}
}

static uint64_t last_turn(const struct timeline *timeline)
{
	const struct thread_timeline *thread;
	uint64_t turn = 0;

	vec_for_each(thread, &timeline->threads)
		turn += thread->slices.len;
	return turn;
}

/* Half of them in turn, so that all come up; half from anywhere, so that old ones come back. */
static uint32_t next_name(const struct timeline *timeline, uint64_t *state)
{
	const uint32_t n = (uint32_t)timeline->names.len;

	if (draw(state, 2))
		return draw(state, n);
	return (uint32_t)(last_turn(timeline) % n);
}

static uint64_t stress_slices(struct timeline *timeline, struct thread_timeline *thread,
			      uint64_t *state, uint64_t time_ns, uint32_t depth)
{
	const uint32_t n = draw(state, depth ? 4 : 12);

	for (uint32_t i = 0; i < n; i++) {
		struct slice slice = {
			.begin_ns = time_ns + draw(state, 3),
			.depth = depth,
			.name = next_name(timeline, state),
			.begin_edge = (uint8_t)(draw(state, 8) ? EDGE_SEEN : draw(state, 4)),
			.end_edge = (uint8_t)(draw(state, 8) ? EDGE_SEEN : draw(state, 4)),
			.flags = (uint8_t)draw(state, 16),
			.signal_handler = !draw(state, 50),
			.insns = draw(state, 1000),
		};
		const size_t at = thread->slices.len;

		slice.end_ns = slice.begin_ns;
		add_slice(thread, slice);
		if (depth < 40 && draw(state, 3))
			time_ns = stress_slices(timeline, thread, state, slice.begin_ns, depth + 1);
		else
			time_ns = slice.begin_ns;
		/* Many edges share one time, as they do between two timestamps. */
		time_ns += draw(state, 4) ? 0 : draw(state, 100);
		thread->slices.data[at].end_ns = time_ns;
		if (!draw(state, 30)) {
			const struct gap gap = { .begin_ns = time_ns,
						 .end_ns = time_ns + draw(state, 50),
						 .reason =
							 (uint8_t)(1 + draw(state, GAP_COUNT - 1)),
						 .error = draw(state, 2) };

			time_ns = gap.end_ns;
			if (vec_push(&thread->gaps, gap))
				die("no memory", "gap");
		}
	}
	return time_ns;
}

static void fix_self_times(struct thread_timeline *thread)
{
	struct slice *slice;

	vec_for_each(slice, &thread->slices)
		slice->self_ns = slice->end_ns - slice->begin_ns;
	vec_for_each(slice, &thread->slices) {
		if (slice->parent != UINT32_MAX)
			thread->slices.data[slice->parent].self_ns -=
				slice->end_ns - slice->begin_ns;
	}
}

static void make_stress(struct timeline *timeline, uint64_t seed)
{
	uint64_t state = seed * 0x9e3779b97f4a7c15ull;
	const uint64_t start = 1700000000000000000ull;

	timeline->command = copy("./stress \"a b\" \xff", 15);
	add_stress_names(timeline, &state);
	for (int i = 0; i < 300; i++) {
		struct thread_timeline thread = { .pid = 1000 + i / 100 * 1000,
						  .tid = 1000 + i / 100 * 1000 + i % 100 };
		uint64_t time_ns = start + draw(&state, 1000);

		snprintf(thread.comm, sizeof(thread.comm), "w%d\t\"%s", i, i % 7 ? "" : "\xff");
		if (vec_push(&timeline->threads, thread))
			die("no memory", "thread");
		for (int round = 0; round < (i % 10 ? 1 : 4); round++)
			time_ns =
				stress_slices(timeline, last_thread(timeline), &state, time_ns, 0);
		fix_self_times(last_thread(timeline));
		if (i == 42) {
			last_thread(timeline)->fired = true;
			timeline->trigger_ns = time_ns;
			add_instant(timeline, time_ns, "fire",
				    "trigger=sym:f,arg0=5 hit=1 note=two words");
		}
	}
}

static void write_truth(const struct timeline *timeline)
{
	const struct thread_timeline *thread;
	const struct slice *slice;

	vec_for_each(thread, &timeline->threads) {
		vec_for_each(slice, &thread->slices) {
			const char *name = timeline->names.data[slice->name].function;

			printf("%d %d %" PRIu32 " %" PRIu64 " %" PRIu64 " ", thread->pid,
			       thread->tid, slice->depth, slice->begin_ns,
			       slice->end_ns - slice->begin_ns);
			for (; *name; name++)
				printf("%02x", (unsigned char)*name);
			printf("\n");
		}
	}
}

int main(int argc, char **argv)
{
	struct timeline timeline = { .trigger_ns = 0 };
	struct output_filter filter = { .tid = 0 };
	const struct output_format *format = NULL;
	int err = 0;

	if (argc == 3) {
		make_stress(&timeline, strtoull(argv[1], NULL, 10));
		format = output_format_find(argv[2]);
	} else if (argc == 2) {
		format = read_case(argv[1], &timeline, &filter);
	} else {
		die("usage", "golden_output CASE | SEED FORMAT");
	}
	if (format)
		err = format->write(stdout, &timeline, &filter);
	else
		write_truth(&timeline);
	timeline_fini(&timeline);
	if (err)
		die("write", strerror(-err));
	return 0;
}
