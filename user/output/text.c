// SPDX-License-Identifier: GPL-2.0-only
/*
 * trace.txt: a call tree per thread, newest last; the thread that fired comes at the very end, so
 * that the trigger stands at the bottom of the terminal.
 */
#include "output/formats.h"

#include <inttypes.h>
#include <string.h>

#include "output/units.h"
#include "output/utf8.h"
#include "output/walk.h"

#define NAME_SIZE 200 /* longer names are cut */
#define MAX_INDENT 60 /* levels; deeper ones say how deep they are */

struct text {
	FILE *out;
	const struct timeline *timeline;
	const struct thread_timeline *thread;
	uint64_t origin_ns, last_ns;
	bool steps, shown;
};

static const char *gap_text(uint8_t reason)
{
	static const char *const texts[GAP_COUNT] = {
		[GAP_NONE] = "unknown",
		[GAP_OVERFLOW] = "the processor lost packets",
		[GAP_LOST] = "trace was lost",
		[GAP_RESIZE] = "the ring changed size",
		[GAP_UNTRACED] = "the thread had no ring",
		[GAP_NO_IMAGE] = "no code bytes for this address",
		[GAP_BAD_PACKET] = "unknown or impossible packet",
		[GAP_MISMATCH] = "the trace does not fit the code",
		[GAP_ATOMIC] = "restartable section or transaction, not stepped",
		[GAP_START] = "older trace was overwritten",
	};

	return reason < GAP_COUNT ? texts[reason] : texts[GAP_NONE];
}

/* "-12.345 us", "0", "+0.004 us": against the trigger, to the nanosecond, points in one column. */
static const char *relative(const struct text *text, uint64_t time_ns, char *buf)
{
	const bool before = time_ns < text->origin_ns;
	const uint64_t distance = before ? text->origin_ns - time_ns : time_ns - text->origin_ns;
	const char sign = before ? '-' : distance ? '+' : ' ';

	if (text->steps)
		snprintf(buf, UNITS_SIZE, "%c%" PRIu64, sign, distance);
	else
		snprintf(buf, UNITS_SIZE, "%c%" PRIu64 ".%03" PRIu64 " us", sign, distance / 1000,
			 distance % 1000);
	return buf;
}

static const char *clean(const char *name, char *buf)
{
	utf8_clean(name, buf, NAME_SIZE);
	return buf;
}

static void indent(FILE *out, uint32_t depth)
{
	const uint32_t levels = depth < MAX_INDENT ? depth : MAX_INDENT;

	fprintf(out, "%*s", (int)levels * 2, "");
	if (depth > MAX_INDENT)
		fprintf(out, "(%" PRIu32 ") ", depth);
}

static void put_notes(struct text *text, const struct slice *slice)
{
	FILE *out = text->out;
	const bool at_end = slice->end_ns >= text->last_ns;

	if (slice->signal_handler)
		fputs("  [signal handler]", out);
	if (slice->begin_edge == EDGE_INFERRED)
		fputs("  [begin not seen]", out);
	if (slice->begin_edge == EDGE_SWITCHED)
		fputs("  [resumed]", out);
	if (slice->end_edge == EDGE_INFERRED)
		fputs(at_end ? "  [open]" : "  [end not seen]", out);
	if (slice->end_edge == EDGE_UNWOUND)
		fputs("  [unwound]", out);
	if (slice->end_edge == EDGE_SWITCHED)
		fputs("  [suspended]", out);
	if (slice->flags & SLICE_ASSUMED)
		fputs("  [gap inside, not proven]", out);
}

/* ~ marks a time between two timestamps, > a duration that is at least so long. */
static int put_slice(void *ctx, const struct slice *slice)
{
	struct text *text = ctx;
	const bool inferred =
		slice->begin_edge == EDGE_INFERRED || slice->end_edge == EDGE_INFERRED;
	char begin[UNITS_SIZE], total[UNITS_SIZE], self[UNITS_SIZE], name[NAME_SIZE];

	text->shown = true;
	fprintf(text->out, "%c%17s %c%10s %11s  ", slice->flags & SLICE_BEGIN_SPREAD ? '~' : ' ',
		relative(text, slice->begin_ns, begin), inferred ? '>' : ' ',
		units_duration(slice->end_ns - slice->begin_ns, text->steps, total),
		units_duration(slice->self_ns, text->steps, self));
	indent(text->out, slice->depth);
	fputs(clean(text->timeline->names.data[slice->name].function, name), text->out);
	put_notes(text, slice);
	putc('\n', text->out);
	return walk_write_error(text->out);
}

static int put_gap(void *ctx, const struct gap *gap, uint32_t depth)
{
	struct text *text = ctx;
	char begin[UNITS_SIZE], total[UNITS_SIZE];

	text->shown = true;
	fprintf(text->out, " %17s  %10s %11s  ", relative(text, gap->begin_ns, begin),
		units_duration(gap->end_ns - gap->begin_ns, text->steps, total), "");
	indent(text->out, depth);
	fprintf(text->out, "--- gap: %s%s ---\n", gap_text(gap->reason),
		gap->error ? " (error)" : "");
	return walk_write_error(text->out);
}

static int put_instant(void *ctx, const struct instant *instant, uint32_t depth)
{
	struct text *text = ctx;
	char time[UNITS_SIZE], name[NAME_SIZE], detail[4 * NAME_SIZE];

	text->shown = true;
	fprintf(text->out, " %17s  %10s %11s  ", relative(text, instant->time_ns, time), "", "");
	indent(text->out, depth);
	fprintf(text->out, "*** %s", clean(instant->name, name));
	if (instant->detail) {
		utf8_clean(instant->detail, detail, sizeof(detail));
		fprintf(text->out, ": %s", detail);
	}
	fputs(" ***\n", text->out);
	return walk_write_error(text->out);
}

static uint64_t last_time(const struct thread_timeline *thread)
{
	const struct slice *slice;
	uint64_t last_ns = thread->last_ns;

	vec_for_each(slice, &thread->slices) {
		if (!slice->depth && slice->end_ns > last_ns)
			last_ns = slice->end_ns;
	}
	return last_ns;
}

/* The calls that were open when the trace ended, outermost first. */
static void put_chain(struct text *text)
{
	const struct thread_timeline *thread = text->thread;
	uint32_t parent = UINT32_MAX;
	char name[NAME_SIZE];

	for (uint32_t i = 0; i < thread->slices.len; i++) {
		const struct slice *slice = &thread->slices.data[i];

		if (slice->end_edge != EDGE_INFERRED || slice->end_ns < text->last_ns ||
		    slice->parent != parent)
			continue;
		fprintf(text->out, "%s%s", parent == UINT32_MAX ? "  at the end in: " : " > ",
			clean(text->timeline->names.data[slice->name].function, name));
		parent = i;
	}
	if (parent != UINT32_MAX)
		putc('\n', text->out);
}

static void put_thread_head(struct text *text)
{
	const struct thread_timeline *thread = text->thread;
	const uint64_t first_ns = thread->slices.len ? thread->slices.data[0].begin_ns : 0;
	FILE *out = text->out;
	char comm[sizeof(thread->comm) * 3 + 4], count[3][UNITS_SIZE], time[UNITS_SIZE];

	utf8_clean(thread->comm, comm, sizeof(comm));
	fprintf(out, "%s%d %s", thread->fired ? ">>> thread " : "thread ", thread->tid, comm);
	if (thread->tid != thread->pid)
		fprintf(out, " (process %d)", thread->pid);
	fprintf(out, ": %s calls, %s branches, %s instructions",
		units_count(thread->slices.len, count[0]), units_count(thread->branches, count[1]),
		units_count(thread->instructions, count[2]));
	if (thread->slices.len)
		fprintf(out, " in %s%s",
			units_duration(last_time(thread) - first_ns, text->steps, time),
			text->steps ? " steps" : "");
	if (thread->gaps.len)
		fprintf(out, ", %zu gap%s", thread->gaps.len, thread->gaps.len == 1 ? "" : "s");
	if (thread->inferred)
		fprintf(out, ", %s inferred", units_count(thread->inferred, count[0]));
	fputs(thread->fired ? "  <<< fired\n" : "\n", out);
}

static int put_thread(struct text *text, const struct walk *walk,
		      const struct thread_timeline *thread)
{
	int err;

	text->thread = thread;
	text->last_ns = last_time(thread);
	text->shown = false;
	put_thread_head(text);
	fprintf(text->out, " %17s  %10s %11s  %s\n", "begin", "total", "self", "call");
	err = walk_thread(walk, thread);
	if (!text->shown)
		fputs(thread->slices.len ? "  (nothing that the filter shows)\n" :
					   "  (nothing decoded)\n",
		      text->out);
	put_chain(text);
	putc('\n', text->out);
	return err;
}

static void put_head(struct text *text)
{
	const struct timeline *timeline = text->timeline;
	char command[NAME_SIZE];

	if (timeline->command)
		fprintf(text->out, "%s\n", clean(timeline->command, command));
	fprintf(text->out,
		"Times are relative to the %s%s. ~: between two timestamps, shared out by "
		"instructions. >: at least.\n\n",
		timeline->trigger_ns ? "trigger" : "end",
		text->steps ? ", in steps (instructions)" : "");
}

static int write_text(FILE *out, const struct timeline *timeline,
		      const struct output_filter *filter)
{
	struct text text = {
		.out = out,
		.timeline = timeline,
		.origin_ns = walk_origin(timeline),
		.steps = timeline->unit && !strcmp(timeline->unit, "steps"),
	};
	const struct walk walk = {
		.timeline = timeline,
		.filter = filter,
		.origin_ns = text.origin_ns,
		.ctx = &text,
		.begin = put_slice,
		.gap = put_gap,
		.instant = put_instant,
	};
	const struct thread_timeline *thread;
	int err = 0;

	put_head(&text);
	for (int fired = 0; fired < 2; fired++) {
		vec_for_each(thread, &timeline->threads) {
			if (!err && thread->fired == !!fired && walk_has_thread(filter, thread))
				err = put_thread(&text, &walk, thread);
		}
	}
	return walk_flush(out, err);
}

const struct output_format output_text = {
	.name = "text",
	.file_name = "trace.txt",
	.write = write_text,
};
