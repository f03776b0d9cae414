// SPDX-License-Identifier: GPL-2.0-only
/*
 * trace.pftrace: begin and end events only, one packet sequence a thread with names interned at
 * first use and times as differences. Field numbers are Perfetto's
 * (protos/perfetto/trace: trace_packet.proto, track_event/track_event.proto).
 */
#include "output/formats.h"

#include <string.h>

#include "base/mem.h"
#include "output/proto.h"
#include "output/utf8.h"
#include "output/walk.h"

enum {
	TRACE_PACKET = 1,

	PACKET_CLOCK_SNAPSHOT = 6,
	PACKET_TIMESTAMP = 8,
	PACKET_SEQUENCE = 10,
	PACKET_TRACK_EVENT = 11,
	PACKET_INTERNED_DATA = 12,
	PACKET_SEQUENCE_FLAGS = 13,
	PACKET_DEFAULTS = 59,
	PACKET_CLOCK_ID = 58,
	PACKET_TRACK_DESCRIPTOR = 60,

	CLOCKS = 1,
	CLOCK_ID = 1,
	CLOCK_TIMESTAMP = 2,
	CLOCK_INCREMENTAL = 3,

	DEFAULTS_TRACK_EVENT = 11,

	TRACK_UUID = 1,
	TRACK_PROCESS = 3,
	TRACK_THREAD = 4,
	TRACK_PARENT = 5,
	PROCESS_PID = 1,
	PROCESS_CMDLINE = 2,
	PROCESS_NAME = 6,
	THREAD_PID = 1,
	THREAD_TID = 2,
	THREAD_NAME = 5,

	EVENT_CATEGORY_IID = 3,
	EVENT_ANNOTATION = 4,
	EVENT_TYPE = 9,
	EVENT_NAME_IID = 10,
	EVENT_TRACK = 11,
	EVENT_NAME = 23,
	EVENT_CATEGORY = 22,

	INTERNED_CATEGORY = 1,
	INTERNED_NAME = 2,
	INTERNED_ANNOTATION = 3,
	INTERNED_IID = 1,
	INTERNED_TEXT = 2,

	ANNOTATION_NAME_IID = 1,
	ANNOTATION_BOOL = 2,
	ANNOTATION_UINT = 3,
	ANNOTATION_STRING = 6,
	ANNOTATION_NAME = 10,

	TYPE_BEGIN = 1,
	TYPE_END = 2,
	TYPE_INSTANT = 3,
	CLEARED = 1, /* the sequence's interned data begins here */
	NEEDS_STATE = 2,
	BUILTIN_BOOTTIME = 6,
	CLOCK_DELTA = 64,
};

/* What may stand beside a slice; also their interned ids, from 1. */
static const char *const annotations[] = {
	"begin", "end", "spread", "signal_handler", "across_gap", "insns", "error",
};
enum {
	NOTE_BEGIN = 1,
	NOTE_END,
	NOTE_SPREAD,
	NOTE_SIGNAL,
	NOTE_ACROSS_GAP,
	NOTE_INSNS,
	NOTE_ERROR
};

#define NAME_SIZE 16384 /* the UI shows no more */

struct perfetto {
	FILE *out;
	const struct timeline *timeline;
	struct proto packet;
	uint32_t sequence;   /* of the thread at hand; 1 for descriptions */
	uint32_t *interned;  /* by name: the sequence that knows it */
	uint32_t *by_object; /* by name: the first name of the same object, its category */
	uint32_t *category;  /* by name: the sequence that knows it as a category */
	uint64_t last_ns;
	char text[NAME_SIZE];
};

static int send(struct perfetto *perfetto)
{
	struct proto *packet = &perfetto->packet;

	proto_end(packet);
	if (packet->failed)
		return -ENOMEM;
	fwrite(packet->bytes.data, 1, packet->bytes.len, perfetto->out);
	return walk_write_error(perfetto->out);
}

static void begin_packet(struct perfetto *perfetto, uint32_t flags)
{
	struct proto *packet = &perfetto->packet;

	proto_clear(packet);
	proto_begin(packet, TRACE_PACKET);
	proto_uint(packet, PACKET_SEQUENCE, perfetto->sequence);
	if (flags)
		proto_uint(packet, PACKET_SEQUENCE_FLAGS, flags);
}

static void put_text(struct perfetto *perfetto, uint32_t field, const char *text)
{
	const size_t size = utf8_clean(text, perfetto->text, sizeof(perfetto->text));

	proto_bytes(&perfetto->packet, field, perfetto->text, size);
}

/* Threads and processes may share a number; tracks may not. */
static uint64_t process_uuid(pid_t pid)
{
	return 1ull << 40 | (uint32_t)pid;
}

static uint64_t thread_uuid(pid_t tid)
{
	return 2ull << 40 | (uint32_t)tid;
}

static int describe_process(struct perfetto *perfetto, pid_t pid, const char *comm)
{
	struct proto *packet = &perfetto->packet;

	begin_packet(perfetto, 0);
	proto_begin(packet, PACKET_TRACK_DESCRIPTOR);
	proto_uint(packet, TRACK_UUID, process_uuid(pid));
	proto_begin(packet, TRACK_PROCESS);
	proto_uint(packet, PROCESS_PID, (uint32_t)pid);
	if (perfetto->timeline->command)
		put_text(perfetto, PROCESS_CMDLINE, perfetto->timeline->command);
	put_text(perfetto, PROCESS_NAME, comm);
	proto_end(packet);
	proto_end(packet);
	return send(perfetto);
}

static int describe_thread(struct perfetto *perfetto, const struct thread_timeline *thread)
{
	struct proto *packet = &perfetto->packet;

	begin_packet(perfetto, 0);
	proto_begin(packet, PACKET_TRACK_DESCRIPTOR);
	proto_uint(packet, TRACK_UUID, thread_uuid(thread->tid));
	proto_uint(packet, TRACK_PARENT, process_uuid(thread->pid));
	proto_begin(packet, TRACK_THREAD);
	proto_uint(packet, THREAD_PID, (uint32_t)thread->pid);
	proto_uint(packet, THREAD_TID, (uint32_t)thread->tid);
	put_text(perfetto, THREAD_NAME, thread->comm);
	proto_end(packet);
	proto_end(packet);
	return send(perfetto);
}

static void intern_text(struct perfetto *perfetto, uint32_t kind, uint64_t iid, const char *text)
{
	proto_begin(&perfetto->packet, kind);
	proto_uint(&perfetto->packet, INTERNED_IID, iid);
	put_text(perfetto, INTERNED_TEXT, text);
	proto_end(&perfetto->packet);
}

/* The first packet of a thread's sequence: its clock, its track, the words it always uses. */
static int begin_sequence(struct perfetto *perfetto, const struct thread_timeline *thread,
			  uint64_t start_ns)
{
	struct proto *packet = &perfetto->packet;

	begin_packet(perfetto, CLEARED | NEEDS_STATE);
	proto_begin(packet, PACKET_CLOCK_SNAPSHOT);
	proto_begin(packet, CLOCKS);
	proto_uint(packet, CLOCK_ID, BUILTIN_BOOTTIME);
	proto_uint(packet, CLOCK_TIMESTAMP, start_ns);
	proto_end(packet);
	proto_begin(packet, CLOCKS);
	proto_uint(packet, CLOCK_ID, CLOCK_DELTA);
	proto_uint(packet, CLOCK_TIMESTAMP, 0);
	proto_uint(packet, CLOCK_INCREMENTAL, 1);
	proto_end(packet);
	proto_end(packet);
	proto_begin(packet, PACKET_DEFAULTS);
	proto_uint(packet, PACKET_CLOCK_ID, CLOCK_DELTA);
	proto_begin(packet, DEFAULTS_TRACK_EVENT);
	proto_uint(packet, EVENT_TRACK, thread_uuid(thread->tid));
	proto_end(packet);
	proto_end(packet);
	proto_begin(packet, PACKET_INTERNED_DATA);
	for (size_t i = 0; i < ARRAY_SIZE(annotations); i++)
		intern_text(perfetto, INTERNED_ANNOTATION, i + 1, annotations[i]);
	proto_end(packet);
	perfetto->last_ns = start_ns;
	return send(perfetto);
}

static void begin_event(struct perfetto *perfetto, uint64_t time_ns)
{
	/* An instant may lie inside a gap that has been written. */
	if (time_ns < perfetto->last_ns)
		time_ns = perfetto->last_ns;
	begin_packet(perfetto, NEEDS_STATE);
	proto_uint(&perfetto->packet, PACKET_TIMESTAMP, time_ns - perfetto->last_ns);
	perfetto->last_ns = time_ns;
}

static int end_event(struct perfetto *perfetto)
{
	proto_end(&perfetto->packet);
	return send(perfetto);
}

static void note_text(struct perfetto *perfetto, uint32_t note, const char *text)
{
	proto_begin(&perfetto->packet, EVENT_ANNOTATION);
	proto_uint(&perfetto->packet, ANNOTATION_NAME_IID, note);
	put_text(perfetto, ANNOTATION_STRING, text);
	proto_end(&perfetto->packet);
}

static void note_value(struct perfetto *perfetto, uint32_t note, uint32_t field, uint64_t value)
{
	proto_begin(&perfetto->packet, EVENT_ANNOTATION);
	proto_uint(&perfetto->packet, ANNOTATION_NAME_IID, note);
	proto_uint(&perfetto->packet, field, value);
	proto_end(&perfetto->packet);
}

static const char *edge_text(uint8_t edge)
{
	static const char *const texts[] = { "seen", "inferred", "unwound", "switched" };

	return texts[edge & 3];
}

/* The sequence learns the function's name and its object, the category, with the first slice. */
static void intern_slice(struct perfetto *perfetto, uint32_t name, uint32_t object)
{
	const struct timeline_name *names = perfetto->timeline->names.data;
	const bool knows_name = perfetto->interned[name] == perfetto->sequence;
	const bool knows_object = perfetto->category[object] == perfetto->sequence;

	if (knows_name && knows_object)
		return;
	proto_begin(&perfetto->packet, PACKET_INTERNED_DATA);
	if (!knows_name)
		intern_text(perfetto, INTERNED_NAME, name + 1ull, names[name].function);
	if (!knows_object)
		intern_text(perfetto, INTERNED_CATEGORY, object + 1ull,
			    *names[object].object ? names[object].object : "unknown");
	proto_end(&perfetto->packet);
	perfetto->interned[name] = perfetto->category[object] = perfetto->sequence;
}

static int put_begin(void *ctx, const struct slice *slice)
{
	struct perfetto *perfetto = ctx;
	struct proto *packet = &perfetto->packet;
	const uint32_t object = perfetto->by_object[slice->name];

	begin_event(perfetto, slice->begin_ns);
	intern_slice(perfetto, slice->name, object);
	proto_begin(packet, PACKET_TRACK_EVENT);
	proto_uint(packet, EVENT_TYPE, TYPE_BEGIN);
	proto_uint(packet, EVENT_NAME_IID, slice->name + 1ull);
	proto_uint(packet, EVENT_CATEGORY_IID, object + 1ull);
	if (slice->begin_edge != EDGE_SEEN)
		note_text(perfetto, NOTE_BEGIN, edge_text(slice->begin_edge));
	if (slice->end_edge != EDGE_SEEN)
		note_text(perfetto, NOTE_END, edge_text(slice->end_edge));
	if (slice->flags & (SLICE_BEGIN_SPREAD | SLICE_END_SPREAD))
		note_value(perfetto, NOTE_SPREAD, ANNOTATION_BOOL, 1);
	if (slice->signal_handler)
		note_value(perfetto, NOTE_SIGNAL, ANNOTATION_BOOL, 1);
	if (slice->flags & (SLICE_ACROSS_GAP | SLICE_ASSUMED))
		note_text(perfetto, NOTE_ACROSS_GAP,
			  slice->flags & SLICE_ASSUMED ? "assumed" : "proven");
	note_value(perfetto, NOTE_INSNS, ANNOTATION_UINT, slice->insns);
	return end_event(perfetto);
}

static int put_end_at(struct perfetto *perfetto, uint64_t time_ns)
{
	begin_event(perfetto, time_ns);
	proto_begin(&perfetto->packet, PACKET_TRACK_EVENT);
	proto_uint(&perfetto->packet, EVENT_TYPE, TYPE_END);
	return end_event(perfetto);
}

static int put_end(void *ctx, const struct slice *slice)
{
	return put_end_at(ctx, slice->end_ns);
}

static int put_gap(void *ctx, const struct gap *gap, uint32_t depth)
{
	struct perfetto *perfetto = ctx;
	struct proto *packet = &perfetto->packet;
	char name[48];
	int err;

	(void)depth;
	snprintf(name, sizeof(name), "gap: %s", branch_gap_name((enum branch_gap)gap->reason));
	begin_event(perfetto, gap->begin_ns);
	proto_begin(packet, PACKET_TRACK_EVENT);
	proto_uint(packet, EVENT_TYPE, TYPE_BEGIN);
	put_text(perfetto, EVENT_NAME, name);
	put_text(perfetto, EVENT_CATEGORY, "gap");
	if (gap->error)
		note_value(perfetto, NOTE_ERROR, ANNOTATION_BOOL, 1);
	err = end_event(perfetto);
	return err ? err : put_end_at(perfetto, gap->end_ns);
}

static void put_detail(void *ctx, const char *key, size_t key_size, const char *value,
		       size_t value_size)
{
	struct perfetto *perfetto = ctx;
	scoped_free char *key_text = strndup(key, key_size);
	scoped_free char *value_text = strndup(value, value_size);

	if (!key_text || !value_text) {
		perfetto->packet.failed = true;
		return;
	}
	proto_begin(&perfetto->packet, EVENT_ANNOTATION);
	put_text(perfetto, ANNOTATION_NAME, key_text);
	put_text(perfetto, ANNOTATION_STRING, value_text);
	proto_end(&perfetto->packet);
}

static int put_instant(void *ctx, const struct instant *instant, uint32_t depth)
{
	struct perfetto *perfetto = ctx;
	struct proto *packet = &perfetto->packet;

	(void)depth;
	begin_event(perfetto,
		    instant->time_ns > perfetto->last_ns ? instant->time_ns : perfetto->last_ns);
	proto_begin(packet, PACKET_TRACK_EVENT);
	proto_uint(packet, EVENT_TYPE, TYPE_INSTANT);
	put_text(perfetto, EVENT_NAME, instant->name);
	put_text(perfetto, EVENT_CATEGORY, "ptbpf");
	walk_detail(instant->detail, put_detail, perfetto);
	return end_event(perfetto);
}

/* Few objects, many names: each name's category is the first name with its object. */
static void find_objects(struct perfetto *perfetto)
{
	const struct timeline *timeline = perfetto->timeline;
	uint32_t firsts[64], n = 0;

	for (uint32_t i = 0; i < timeline->names.len; i++) {
		uint32_t seen = 0;

		while (seen < n && strcmp(timeline->names.data[firsts[seen]].object,
					  timeline->names.data[i].object))
			seen++;
		if (seen == n && n < ARRAY_SIZE(firsts))
			firsts[n++] = i;
		perfetto->by_object[i] = seen < n ? firsts[seen] : i;
	}
}

static int put_threads(struct perfetto *perfetto, const struct output_filter *filter)
{
	const struct timeline *timeline = perfetto->timeline;
	const uint64_t start_ns = walk_start(timeline);
	const struct walk walk = {
		.timeline = timeline,
		.filter = filter,
		.origin_ns = walk_origin(timeline),
		.ctx = perfetto,
		.begin = put_begin,
		.end = put_end,
		.gap = put_gap,
		.instant = put_instant,
	};
	const struct thread_timeline *thread;
	pid_t last_pid = -1;
	uint32_t sequence = 1;
	int err = 0;

	vec_for_each(thread, &timeline->threads) {
		if (!walk_has_thread(filter, thread))
			continue;
		perfetto->sequence = 1;
		if (thread->pid != last_pid)
			err = describe_process(perfetto, thread->pid,
					       walk_process_comm(timeline, thread->pid));
		last_pid = thread->pid;
		err = err ? err : describe_thread(perfetto, thread);
		perfetto->sequence = ++sequence;
		err = err ? err : begin_sequence(perfetto, thread, start_ns);
		err = err ? err : walk_thread(&walk, thread);
		if (err)
			return err;
	}
	return 0;
}

static int write_perfetto(FILE *out, const struct timeline *timeline,
			  const struct output_filter *filter)
{
	struct perfetto *perfetto = calloc(1, sizeof(*perfetto));
	const size_t n = timeline->names.len + 1;
	scoped_free uint32_t *known = calloc(n * 3, sizeof(*known));
	int err = -ENOMEM;

	if (perfetto && known) {
		perfetto->out = out;
		perfetto->timeline = timeline;
		perfetto->interned = known;
		perfetto->category = known + n;
		perfetto->by_object = known + 2 * n;
		find_objects(perfetto);
		err = put_threads(perfetto, filter);
		proto_fini(&perfetto->packet);
	}
	free(perfetto);
	return walk_flush(out, err);
}

const struct output_format output_perfetto = {
	.name = "perfetto",
	.file_name = "trace.pftrace",
	.write = write_perfetto,
};
