// SPDX-License-Identifier: GPL-2.0-only
/*
 * trace.json. The schema is in docs/formats.md; members that have their default are left out.
 * Written as it is walked, one slice a line.
 */
#include "output/formats.h"

#include <inttypes.h>
#include <string.h>

#include "output/utf8.h"
#include "output/walk.h"

#define JSON_VERSION 1

static void put_text(FILE *out, const char *text, size_t size)
{
	putc('"', out);
	for (size_t at = 0; at < size;) {
		const size_t length = utf8_length(text + at, size - at);
		const unsigned char first = (unsigned char)text[at];

		if (!length)
			fputs(UTF8_REPLACEMENT, out);
		else if (first == '"' || first == '\\')
			fprintf(out, "\\%c", first);
		else if (first < 0x20 || first == 0x7f)
			fprintf(out, "\\u%04x", first);
		else
			fwrite(text + at, 1, length, out);
		at += length ? length : 1;
	}
	putc('"', out);
}

static void put_string(FILE *out, const char *text)
{
	if (text)
		put_text(out, text, strlen(text));
	else
		fputs("null", out);
}

/* One thread's slices in one walk; gaps and instants come in walks of their own. */
struct json {
	FILE *out;
	const struct timeline *timeline;
	uint64_t start_ns;
	bool first;
};

static void separate(struct json *json)
{
	fputs(json->first ? "\n    " : ",\n    ", json->out);
	json->first = false;
}

static void put_edge(FILE *out, const char *name, uint8_t edge)
{
	static const char *const names[] = { "seen", "inferred", "unwound", "switched" };

	if (edge != EDGE_SEEN)
		fprintf(out, ",\"%s\":\"%s\"", name, names[edge & 3]);
}

static int put_slice(void *ctx, const struct slice *slice)
{
	struct json *json = ctx;
	FILE *out = json->out;
	const struct timeline_name *name = &json->timeline->names.data[slice->name];

	separate(json);
	fputs("{\"name\":", out);
	put_string(out, name->function);
	fputs(",\"object\":", out);
	put_string(out, name->object);
	fprintf(out,
		",\"depth\":%" PRIu32 ",\"begin_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64
		",\"self_ns\":%" PRIu64 ",\"insns\":%" PRIu64 ",\"address\":\"0x%" PRIx64 "\"",
		slice->depth, slice->begin_ns - json->start_ns, slice->end_ns - json->start_ns,
		slice->self_ns, slice->insns, slice->address);
	if (name->mangled) {
		fputs(",\"mangled\":", out);
		put_string(out, name->mangled);
	}
	put_edge(out, "begin_edge", slice->begin_edge);
	put_edge(out, "end_edge", slice->end_edge);
	if (slice->signal_handler)
		fputs(",\"signal_handler\":true", out);
	if (slice->flags & SLICE_BEGIN_SPREAD)
		fputs(",\"begin_spread\":true", out);
	if (slice->flags & SLICE_END_SPREAD)
		fputs(",\"end_spread\":true", out);
	if (slice->flags & SLICE_ACROSS_GAP)
		fputs(",\"across_gap\":true", out);
	if (slice->flags & SLICE_ASSUMED)
		fputs(",\"assumed\":true", out);
	putc('}', out);
	return walk_write_error(out);
}

static int put_gap(void *ctx, const struct gap *gap, uint32_t depth)
{
	struct json *json = ctx;

	separate(json);
	fprintf(json->out,
		"{\"reason\":\"%s\",\"begin_ns\":%" PRIu64 ",\"end_ns\":%" PRIu64
		",\"depth\":%" PRIu32 ",\"error\":%s,\"offset\":%" PRIu64 "}",
		branch_gap_name((enum branch_gap)gap->reason), gap->begin_ns - json->start_ns,
		gap->end_ns - json->start_ns, depth, gap->error ? "true" : "false", gap->offset);
	return walk_write_error(json->out);
}

static void put_detail(void *ctx, const char *key, size_t key_size, const char *value,
		       size_t value_size)
{
	struct json *json = ctx;

	fputs(json->first ? "" : ",", json->out);
	json->first = false;
	put_text(json->out, key, key_size);
	putc(':', json->out);
	put_text(json->out, value, value_size);
}

static int put_instant(void *ctx, const struct instant *instant, uint32_t depth)
{
	struct json *json = ctx;
	struct json detail = { .out = json->out, .first = true };

	separate(json);
	fputs("{\"name\":", json->out);
	put_string(json->out, instant->name);
	fprintf(json->out, ",\"time_ns\":%" PRIu64 ",\"depth\":%" PRIu32 ",\"detail\":{",
		instant->time_ns - json->start_ns, depth);
	walk_detail(instant->detail, put_detail, &detail);
	fputs("}}", json->out);
	return walk_write_error(json->out);
}

static int put_thread(const struct walk *base, struct json *json,
		      const struct thread_timeline *thread)
{
	FILE *out = json->out;
	struct walk walk = *base;
	int err;

	fprintf(out, "  {\"pid\":%d,\"tid\":%d,\"comm\":", thread->pid, thread->tid);
	put_text(out, thread->comm, strnlen(thread->comm, sizeof(thread->comm)));
	fprintf(out,
		",\"fired\":%s,\"instructions\":%" PRIu64 ",\"branches\":%" PRIu64
		",\"inferred\":%" PRIu64 ",\"bytes\":%" PRIu64 ",\n   \"slices\":[",
		thread->fired ? "true" : "false", thread->instructions, thread->branches,
		thread->inferred, thread->bytes);
	walk.ctx = json;
	walk.begin = put_slice;
	json->first = true;
	err = walk_thread(&walk, thread);
	fputs("],\n   \"gaps\":[", out);
	walk.begin = NULL;
	walk.gap = put_gap;
	json->first = true;
	if (!err)
		err = walk_thread(&walk, thread);
	fputs("],\n   \"instants\":[", out);
	walk.gap = NULL;
	walk.instant = put_instant;
	json->first = true;
	if (!err)
		err = walk_thread(&walk, thread);
	fputs("]}", out);
	return err;
}

static void put_head(FILE *out, const struct timeline *timeline, uint64_t start_ns)
{
	fprintf(out, "{\"format\":\"ptbpf-trace\",\"version\":%d,\n\"unit\":", JSON_VERSION);
	put_string(out, timeline->unit ? timeline->unit : "ns");
	fputs(",\"command\":", out);
	put_string(out, timeline->command);
	fprintf(out, ",\"start_ns\":%" PRIu64 ",\"trigger_ns\":", start_ns);
	if (timeline->trigger_ns)
		fprintf(out, "%" PRId64, (int64_t)(timeline->trigger_ns - start_ns));
	else
		fputs("null", out);
	fputs(",\n\"threads\":[", out);
}

static int write_json(FILE *out, const struct timeline *timeline,
		      const struct output_filter *filter)
{
	const struct walk walk = {
		.timeline = timeline,
		.filter = filter,
		.origin_ns = walk_origin(timeline),
	};
	struct json json = { .out = out, .timeline = timeline, .start_ns = walk_start(timeline) };
	const struct thread_timeline *thread;
	bool first = true;

	put_head(out, timeline, json.start_ns);
	vec_for_each(thread, &timeline->threads) {
		if (!walk_has_thread(filter, thread))
			continue;
		fputs(first ? "\n" : ",\n", out);
		first = false;
		const int err = put_thread(&walk, &json, thread);

		if (err)
			return err;
	}
	fputs("\n]}\n", out);
	return walk_flush(out, 0);
}

const struct output_format output_json = {
	.name = "json",
	.file_name = "trace.json",
	.write = write_json,
};
