// SPDX-License-Identifier: GPL-2.0-only
#include "snapshot/perf_data.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "snapshot/perf_features.h"

/* An ID_INDEX record's size has 16 bits. */
#define MAX_ID_ENTRIES 2000u

struct writer {
	struct sink sink;
	const struct recording *recording;
	perf_index index;
};

static size_t padded(size_t size)
{
	return (size + 7) & ~(size_t)7;
}

static struct perf_event_header header_of(uint32_t type, uint32_t misc, size_t size)
{
	return (struct perf_event_header){ type, (uint16_t)misc, (uint16_t)size };
}

/* Header of a record that has a sample_id trailer. */
static struct perf_event_header header_with_id(uint32_t type, uint32_t misc, size_t size)
{
	return header_of(type, misc | PERF_RECORD_MISC_USER,
			 size + sizeof(struct perf_format_sample_id));
}

static void put_sample_id(struct writer *w, pid_t pid, pid_t tid, uint64_t time, uint64_t id)
{
	const struct perf_format_sample_id sample_id = { (uint32_t)pid, (uint32_t)tid, time, id };

	sink_write(&w->sink, &sample_id, sizeof(sample_id));
}

static void put_comm(struct writer *w, const struct recording_event *event)
{
	struct perf_format_comm record = { .pid = (uint32_t)event->pid,
					   .tid = (uint32_t)event->tid };

	record.header =
		header_with_id(PERF_RECORD_COMM, event->comm.exec ? PERF_RECORD_MISC_COMM_EXEC : 0,
			       sizeof(record));
	memcpy(record.comm, event->comm.name, sizeof(record.comm) - 1);
	sink_write(&w->sink, &record, sizeof(record));
}

/* With a build-id the record has no room for the inode. */
static void put_map(struct writer *w, const struct recording_event *event)
{
	const struct recording_map *map = &event->map;
	const char *path = map->path ? map->path : "//anon";
	const size_t len = strnlen(path, PATH_MAX - 1);
	struct perf_format_mmap2 record = {
		.pid = (uint32_t)event->pid,
		.tid = (uint32_t)event->tid,
		.addr = map->addr,
		.len = map->len,
		.pgoff = map->pgoff,
		.prot = map->prot ? map->prot : PROT_READ | PROT_EXEC,
		.flags = map->flags,
	};
	uint32_t misc = 0;

	if (map->build_id_size) {
		misc = PERF_RECORD_MISC_MMAP_BUILD_ID;
		record.build_id_size = map->build_id_size;
		memcpy(record.build_id, map->build_id, sizeof(record.build_id));
	} else {
		record.maj = map->maj;
		record.min = map->min;
		record.ino = map->ino;
		record.ino_generation = map->ino_generation;
	}
	record.header = header_with_id(PERF_RECORD_MMAP2, misc, sizeof(record) + padded(len + 1));
	sink_write(&w->sink, &record, sizeof(record));
	sink_write(&w->sink, path, len);
	sink_write(&w->sink, "", 1);
	sink_align(&w->sink, 8);
}

static void put_task(struct writer *w, const struct recording_event *event)
{
	const uint32_t type = event->kind == RECORDING_FORK ? PERF_RECORD_FORK : PERF_RECORD_EXIT;
	const struct perf_format_task record = {
		.header = header_with_id(type, 0, sizeof(record)),
		.pid = (uint32_t)event->pid,
		.parent_pid = (uint32_t)event->parent.parent_pid,
		.tid = (uint32_t)event->tid,
		.parent_tid = (uint32_t)event->parent.parent_tid,
		.time = event->time_ns,
	};

	sink_write(&w->sink, &record, sizeof(record));
}

static void put_event(struct writer *w, const struct recording_event *event)
{
	switch (event->kind) {
	case RECORDING_COMM:
		put_comm(w, event);
		break;
	case RECORDING_MAP:
		put_map(w, event);
		break;
	case RECORDING_FORK:
	case RECORDING_EXIT:
		put_task(w, event);
		break;
	}
	put_sample_id(w, event->pid, event->tid, event->time_ns, PERF_ID_SIDEBAND);
}

static void put_id_index(struct writer *w)
{
	const recording_chunks *chunks = &w->recording->chunks;

	for (size_t begin = 0; begin < chunks->len; begin += MAX_ID_ENTRIES) {
		const size_t left = chunks->len - begin;
		const size_t n = left < MAX_ID_ENTRIES ? left : MAX_ID_ENTRIES;
		const struct perf_format_id_index record = {
			.header =
				header_of(PERF_FORMAT_ID_INDEX, 0,
					  sizeof(record) + n * sizeof(struct perf_format_id_entry)),
			.n = n,
		};

		sink_write(&w->sink, &record, sizeof(record));
		for (size_t i = begin; i < begin + n; i++) {
			const struct perf_format_id_entry entry = { PERF_ID_CHUNK(i), i, UINT64_MAX,
								    (uint64_t)chunks->data[i].tid };

			sink_write(&w->sink, &entry, sizeof(entry));
		}
	}
}

/*
 * One stretch of trace is one queue of perf's (its own idx): perf takes what follows in the same
 * queue for contiguous and would invent branches across the gap.
 */
static void put_auxtrace_info(struct writer *w)
{
	const struct recording *recording = w->recording;
	const uint64_t priv[PT_INFO_COUNT] = {
		[PT_INFO_PMU_TYPE] = PERF_PMU_TYPE,
		[PT_INFO_TIME_SHIFT] = recording->clock.shift,
		[PT_INFO_TIME_MULT] = recording->clock.mult,
		[PT_INFO_TIME_ZERO] = recording->clock.zero,
		[PT_INFO_CAP_USER_TIME_ZERO] = recording->clock.mult != 0,
		[PT_INFO_TSC_BIT] = PT_CONFIG_TSC,
		[PT_INFO_NORETCOMP_BIT] = PT_CONFIG_NORETCOMP,
		[PT_INFO_MTC_BIT] = PT_CONFIG_MTC,
		[PT_INFO_MTC_FREQ_BITS] = PT_CONFIG_MTC_PERIOD,
		[PT_INFO_TSC_CTC_N] = recording->pt.tsc_ctc_n,
		[PT_INFO_TSC_CTC_D] = recording->pt.tsc_ctc_d,
		[PT_INFO_CYC_BIT] = PT_CONFIG_CYC,
		[PT_INFO_MAX_NONTURBO_RATIO] = recording->pt.max_nonturbo_ratio,
	};
	const struct perf_format_auxtrace_info record = {
		.header = header_of(PERF_FORMAT_AUXTRACE_INFO, 0, sizeof(record) + sizeof(priv)),
		.type = PERF_FORMAT_TYPE_INTEL_PT,
	};

	sink_write(&w->sink, &record, sizeof(record));
	sink_write(&w->sink, priv, sizeof(priv));
}

static void put_time_conv(struct writer *w)
{
	const struct perf_format_time_conv record = {
		.header = header_of(PERF_FORMAT_TIME_CONV, 0, sizeof(record)),
		.shift = w->recording->clock.shift,
		.mult = w->recording->clock.mult,
		.zero = w->recording->clock.zero,
		.mask = UINT64_MAX,
		.cap_user_time_zero = 1,
	};

	if (record.mult)
		sink_write(&w->sink, &record, sizeof(record));
}

static void put_aux(struct writer *w, const struct recording_chunk *chunk, uint64_t id,
		    const struct perf_format_aux *values, uint64_t time)
{
	struct perf_format_aux record = *values;

	record.header = header_with_id(PERF_RECORD_AUX, 0, sizeof(record));
	sink_write(&w->sink, &record, sizeof(record));
	put_sample_id(w, chunk->pid, chunk->tid, time, id);
}

/* When and where the stretch was recorded, as the kernel would have said it. */
static void put_chunk_records(struct writer *w, const struct recording_chunk *chunk, uint64_t id,
			      uint64_t offset)
{
	const struct perf_format_itrace_start start = {
		.header = header_with_id(PERF_RECORD_ITRACE_START, 0, sizeof(start)),
		.pid = (uint32_t)chunk->pid,
		.tid = (uint32_t)chunk->tid,
	};
	const uint64_t gap = chunk->gap_ns < chunk->start_ns ? chunk->gap_ns : 0;
	/* An empty record where the gap begins; perf reports those that are marked. */
	const struct perf_format_aux before = {
		.offset = offset, .flags = chunk->data_lost ? PERF_AUX_FLAG_TRUNCATED : 0
	};
	const struct perf_format_aux aux = { .offset = offset, .size = padded(chunk->size) };

	sink_write(&w->sink, &start, sizeof(start));
	put_sample_id(w, chunk->pid, chunk->tid, chunk->start_ns, id);
	if (chunk->data_lost || gap)
		put_aux(w, chunk, id, &before, chunk->start_ns - gap);
	put_aux(w, chunk, id, &aux, chunk->end_ns);
}

/* A TSC near the trace's, as perf record gives it: TSC packets lack the upper byte. */
static uint64_t reference_of(const struct writer *w, const struct recording_chunk *chunk)
{
	const struct clock_conv *clock = &w->recording->clock;

	return clock->mult && chunk->start_ns ? clock_ns_to_tsc(clock, chunk->start_ns) : 0;
}

static uint32_t ours_of(const struct recording_chunk *chunk)
{
	return PERF_OURS_MARK << PERF_OURS_MARK_SHIFT |
	       (uint32_t)(padded(chunk->size) - chunk->size) << PERF_OURS_PADDING_SHIFT |
	       (uint32_t)chunk->join;
}

static int put_trace(struct writer *w, const struct recording_chunk *chunk, size_t idx,
		     uint64_t offset)
{
	const struct perf_format_auxtrace record = {
		.header = header_of(PERF_FORMAT_AUXTRACE, 0, sizeof(record)),
		.size = padded(chunk->size),
		.offset = offset,
		.reference = reference_of(w, chunk),
		.idx = (uint32_t)idx,
		.tid = (uint32_t)chunk->tid,
		.cpu = UINT32_MAX,
		.reserved = ours_of(chunk),
	};
	const struct perf_index_entry entry = { w->sink.offset, sizeof(record) };
	const int err = vec_push(&w->index, entry);

	sink_write(&w->sink, &record, sizeof(record));
	sink_write(&w->sink, chunk->data, chunk->size);
	sink_align(&w->sink, 8);
	return err;
}

/* Offset of a stretch in its thread's trace, as if all of them lay in one buffer. */
static int chunk_offsets(const recording_chunks *chunks, uint64_t **out)
{
	uint64_t *offsets = calloc(chunks->len + 1, sizeof(*offsets));

	if (!offsets)
		return -ENOMEM;
	for (size_t i = 0; i < chunks->len; i++) {
		/* Chunks of a thread usually stand together; the one before is then near. */
		for (size_t k = i; k-- > 0;) {
			if (chunks->data[k].tid == chunks->data[i].tid) {
				offsets[i] = offsets[k] + padded(chunks->data[k].size);
				break;
			}
			if (i - k > 64)
				break;
		}
	}
	*out = offsets;
	return 0;
}

static int put_data(struct writer *w)
{
	const struct recording *recording = w->recording;
	const struct recording_event *event;
	scoped_free uint64_t *offsets = NULL;
	int err = chunk_offsets(&recording->chunks, &offsets);

	if (err)
		return err;
	put_id_index(w);
	put_auxtrace_info(w);
	put_time_conv(w);
	vec_for_each(event, &recording->events)
		put_event(w, event);
	for (size_t i = 0; i < recording->chunks.len; i++)
		put_chunk_records(w, &recording->chunks.data[i], PERF_ID_CHUNK(i), offsets[i]);
	for (size_t i = 0; !err && i < recording->chunks.len; i++)
		err = put_trace(w, &recording->chunks.data[i], i, offsets[i]);
	return err;
}

/* The header comes last: a file whose writer died is none. */
static int put_file(struct writer *w, const char *cmdline)
{
	struct perf_format_header header = { .size = sizeof(header) };
	int err;

	sink_write(&w->sink, &header, sizeof(header));
	header.attr_size = PERF_ATTR_SIZE_VER5 + sizeof(struct perf_format_section);
	header.attrs = perf_attrs_write(&w->sink, w->recording);
	header.data.offset = w->sink.offset;
	err = put_data(w);
	header.data.size = w->sink.offset - header.data.offset;
	if (!err)
		err = perf_features_write(&w->sink, w->recording, cmdline, &w->index, &header);
	if (!err)
		err = sink_flush(&w->sink);
	if (err)
		return err;
	header.magic = PERF_FORMAT_MAGIC;
	if (pwrite(w->sink.fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return errno ? -errno : -EIO;
	return 0;
}

int perf_data_write(const char *path, const struct recording *recording, const char *cmdline)
{
	scoped_free struct writer *w = calloc(1, sizeof(*w));
	scoped_fd int fd = -1;
	int err;

	if (!w)
		return -ENOMEM;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	sink_init(&w->sink, fd);
	w->recording = recording;
	err = put_file(w, cmdline);
	vec_free(&w->index);
	if (err)
		unlink(path);
	return err;
}
