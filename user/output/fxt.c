// SPDX-License-Identifier: GPL-2.0-only
/*
 * trace.fxt, the Fuchsia trace format: begin and end events only, both tables recycled when they
 * are full. Layout: fuchsia docs/reference/tracing/trace-format.md.
 */
#include "output/formats.h"

#include <string.h>

#include "base/mem.h"
#include "output/utf8.h"
#include "output/walk.h"

#define MAGIC 0x0016547846040010ull
#define N_STRINGS 0x7fffu /* indices 1 to this */
#define MAX_STRING 32000  /* bytes */
#define NS_PER_SECOND 1000000000ull

enum { RECORD_INIT = 1, RECORD_STRING = 2, RECORD_THREAD = 3, RECORD_EVENT = 4, RECORD_OBJECT = 7 };
enum { EVENT_INSTANT = 0, EVENT_BEGIN = 2, EVENT_END = 3 };
enum { OBJECT_PROCESS = 1, OBJECT_THREAD = 2, ARG_STRING = 6, ARG_KOID = 8 };

/* Strings that are always there, at fixed indices; names take turns in the rest. */
enum {
	STRING_PROCESS = 1,
	STRING_GAP,
	STRING_PTBPF,
	STRING_CALL,
	STRING_EDGE,
	STRING_EDGES,
	FIRST_NAME = STRING_EDGES + EDGE_SWITCHED,
};
static const char *const fixed_strings[] = { "process", "gap",      "ptbpf",   "call",
					     "edge",    "inferred", "unwound", "switched" };

struct fxt {
	FILE *out;
	const struct timeline *timeline;
	pid_t pid;                     /* the process that was named last */
	uint32_t *slot_of;             /* by name: its index in the file's table, 0 none */
	uint32_t names[N_STRINGS + 1]; /* by index: the name + 1 that holds it, 0 none */
	uint32_t next;
	uint32_t thread; /* reference of the thread at hand */
	char text[MAX_STRING + 8];
};

static int put_words(struct fxt *fxt, const uint64_t *words, size_t n)
{
	/* Little-endian, as this machine is. */
	fwrite(words, sizeof(*words), n, fxt->out);
	return walk_write_error(fxt->out);
}

static int put_string(struct fxt *fxt, uint32_t index, const char *text)
{
	const size_t size = utf8_clean(text, fxt->text, MAX_STRING);
	const size_t words = (size + 7) / 8;
	const uint64_t head = RECORD_STRING | (uint64_t)(words + 1) << 4 | (uint64_t)index << 16 |
			      (uint64_t)size << 32;

	memset(fxt->text + size, 0, 8);
	fwrite(&head, sizeof(head), 1, fxt->out);
	fwrite(fxt->text, 8, words, fxt->out);
	return walk_write_error(fxt->out);
}

/* The name's index; a name that is pushed out by it is written again when it comes back. */
static int name_index(struct fxt *fxt, uint32_t name, uint32_t *index)
{
	*index = fxt->slot_of[name];
	if (*index)
		return 0;
	*index = fxt->next;
	fxt->next = fxt->next == N_STRINGS ? FIRST_NAME : fxt->next + 1;
	if (fxt->names[*index])
		fxt->slot_of[fxt->names[*index] - 1] = 0;
	fxt->names[*index] = name + 1;
	fxt->slot_of[name] = *index;
	return put_string(fxt, *index, fxt->timeline->names.data[name].function);
}

/* A text that is used once: it takes the next index and no name finds it there. */
static int text_index(struct fxt *fxt, const char *text, uint32_t *index)
{
	*index = fxt->next;
	fxt->next = fxt->next == N_STRINGS ? FIRST_NAME : fxt->next + 1;
	if (fxt->names[*index])
		fxt->slot_of[fxt->names[*index] - 1] = 0;
	fxt->names[*index] = 0;
	return put_string(fxt, *index, text);
}

static int put_event(struct fxt *fxt, uint32_t type, uint64_t time_ns, uint32_t category,
		     uint32_t name, uint32_t edge)
{
	const uint64_t words = edge ? 3 : 2, args = edge ? 1 : 0;
	const uint64_t record[] = {
		RECORD_EVENT | words << 4 | (uint64_t)type << 16 | args << 20 |
			(uint64_t)fxt->thread << 24 | (uint64_t)category << 32 |
			(uint64_t)name << 48,
		time_ns,
		ARG_STRING | 1ull << 4 | (uint64_t)STRING_EDGE << 16 | (uint64_t)edge << 32,
	};

	return put_words(fxt, record, words);
}

/* How the edge is known stands beside it, where it was not seen. */
static int put_edge(struct fxt *fxt, const struct slice *slice, uint32_t type, uint64_t time_ns,
		    uint8_t edge)
{
	const uint32_t how = edge == EDGE_SEEN ? 0 : STRING_EDGES + edge - 1u;
	uint32_t name;
	int err = name_index(fxt, slice->name, &name);

	return err ? err : put_event(fxt, type, time_ns, STRING_CALL, name, how);
}

static int put_begin(void *ctx, const struct slice *slice)
{
	return put_edge(ctx, slice, EVENT_BEGIN, slice->begin_ns, slice->begin_edge);
}

static int put_end(void *ctx, const struct slice *slice)
{
	return put_edge(ctx, slice, EVENT_END, slice->end_ns, slice->end_edge);
}

static int put_gap(void *ctx, const struct gap *gap, uint32_t depth)
{
	struct fxt *fxt = ctx;
	uint32_t name;
	char text[48];
	int err;

	(void)depth;
	snprintf(text, sizeof(text), "gap: %s", branch_gap_name((enum branch_gap)gap->reason));
	err = text_index(fxt, text, &name);
	if (!err)
		err = put_event(fxt, EVENT_BEGIN, gap->begin_ns, STRING_GAP, name, 0);
	return err ? err : put_event(fxt, EVENT_END, gap->end_ns, STRING_GAP, name, 0);
}

static int put_instant(void *ctx, const struct instant *instant, uint32_t depth)
{
	struct fxt *fxt = ctx;
	scoped_free char *text = NULL;
	uint32_t name;
	int err;

	(void)depth;
	if (asprintf(&text, "%s%s%s", instant->name, instant->detail ? " " : "",
		     instant->detail ? instant->detail : "") < 0)
		return -ENOMEM;
	err = text_index(fxt, text, &name);
	return err ? err : put_event(fxt, EVENT_INSTANT, instant->time_ns, STRING_PTBPF, name, 0);
}

static int put_object(struct fxt *fxt, uint32_t kind, pid_t id, const char *text, pid_t pid)
{
	const bool is_thread = kind == OBJECT_THREAD;
	const uint64_t words = is_thread ? 4 : 2;
	uint32_t name;
	int err = text_index(fxt, text, &name);
	const uint64_t record[] = {
		RECORD_OBJECT | words << 4 | (uint64_t)kind << 16 | (uint64_t)name << 24 |
			(uint64_t)is_thread << 40,
		(uint32_t)id,
		ARG_KOID | 2ull << 4 | (uint64_t)STRING_PROCESS << 16,
		(uint32_t)pid,
	};

	return err ? err : put_words(fxt, record, words);
}

static int put_thread_head(struct fxt *fxt, const struct thread_timeline *thread)
{
	const uint64_t record[] = {
		RECORD_THREAD | 3ull << 4 | (uint64_t)fxt->thread << 16,
		(uint32_t)thread->pid,
		(uint32_t)thread->tid,
	};
	char comm[sizeof(thread->comm) * 3 + 4];
	int err = 0;

	utf8_clean(walk_process_comm(fxt->timeline, thread->pid), comm, sizeof(comm));
	if (thread->pid != fxt->pid)
		err = put_object(fxt, OBJECT_PROCESS, thread->pid, comm, 0);
	fxt->pid = thread->pid;
	utf8_clean(thread->comm, comm, sizeof(comm));
	err = err ? err : put_object(fxt, OBJECT_THREAD, thread->tid, comm, thread->pid);
	return err ? err : put_words(fxt, record, ARRAY_SIZE(record));
}

static int put_file(struct fxt *fxt, const struct output_filter *filter)
{
	const struct timeline *timeline = fxt->timeline;
	const uint64_t head[] = { MAGIC, RECORD_INIT | 2ull << 4, NS_PER_SECOND };
	const struct walk walk = {
		.timeline = timeline,
		.filter = filter,
		.origin_ns = walk_origin(timeline),
		.ctx = fxt,
		.begin = put_begin,
		.end = put_end,
		.gap = put_gap,
		.instant = put_instant,
	};
	const struct thread_timeline *thread;
	int err = put_words(fxt, head, ARRAY_SIZE(head));

	for (uint32_t i = 0; !err && i < ARRAY_SIZE(fixed_strings); i++)
		err = put_string(fxt, i + 1, fixed_strings[i]);
	fxt->next = FIRST_NAME;
	vec_for_each(thread, &timeline->threads) {
		if (err)
			break;
		if (!walk_has_thread(filter, thread))
			continue;
		fxt->thread = fxt->thread % 255 + 1;
		err = put_thread_head(fxt, thread);
		err = err ? err : walk_thread(&walk, thread);
	}
	return err;
}

static int write_fxt(FILE *out, const struct timeline *timeline, const struct output_filter *filter)
{
	struct fxt *fxt = calloc(1, sizeof(*fxt));
	scoped_free uint32_t *slots = calloc(timeline->names.len + 1, sizeof(*slots));
	int err = -ENOMEM;

	if (fxt && slots) {
		fxt->out = out;
		fxt->timeline = timeline;
		fxt->slot_of = slots;
		err = put_file(fxt, filter);
	}
	free(fxt);
	return walk_flush(out, err);
}

const struct output_format output_fxt = {
	.name = "fxt",
	.file_name = "trace.fxt",
	.write = write_fxt,
};
