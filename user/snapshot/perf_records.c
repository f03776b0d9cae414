// SPDX-License-Identifier: GPL-2.0-only
#include "snapshot/perf_reader.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* The trailer's members have a fixed order. */
static int read_sample_id(const struct perf_reader *r, struct perf_reader_record *record)
{
	const size_t size = 8 * (size_t)__builtin_popcountll(r->sample_id);
	uint64_t words[6];
	size_t i = 0;

	if (record->size < sizeof(record->header) + size)
		return -EINVAL;
	record->size -= size;
	memcpy(words, record->bytes + record->size, size);
	if (r->sample_id & PERF_SAMPLE_TID) {
		record->pid = (pid_t)words[i];
		record->tid = (pid_t)(words[i++] >> 32);
	}
	if (r->sample_id & PERF_SAMPLE_TIME)
		record->time_ns = words[i++];
	if (r->sample_id & PERF_SAMPLE_ID)
		record->id = words[i++];
	if (r->sample_id & PERF_SAMPLE_STREAM_ID)
		i++;
	if (r->sample_id & PERF_SAMPLE_CPU)
		i++;
	if (r->sample_id & PERF_SAMPLE_IDENTIFIER)
		record->id = words[i++];
	return 0;
}

/* Copies the fixed part of a record; false when the record is shorter. */
static bool fixed_part(const struct perf_reader_record *record, void *out, size_t size)
{
	if (record->size < size)
		return false;
	memcpy(out, record->bytes, size);
	return true;
}

/* A NUL-terminated text at the end of a record, on the heap. */
static char *text_after(const struct perf_reader_record *record, size_t fixed)
{
	return strndup((const char *)record->bytes + fixed, record->size - fixed);
}

static int add_event(struct perf_reader *r, struct recording_event *event)
{
	return recording_add_event(r->recording, event);
}

static int read_comm(struct perf_reader *r, const struct perf_reader_record *record)
{
	struct recording_event event = { .kind = RECORDING_COMM, .time_ns = record->time_ns };
	struct {
		struct perf_event_header header;
		uint32_t pid, tid;
	} fixed;

	if (!fixed_part(record, &fixed, sizeof(fixed)))
		return -EINVAL;
	event.pid = (pid_t)fixed.pid;
	event.tid = (pid_t)fixed.tid;
	event.comm.exec = record->header.misc & PERF_RECORD_MISC_COMM_EXEC;
	snprintf(event.comm.name, sizeof(event.comm.name), "%.*s",
		 (int)(record->size - sizeof(fixed)), (const char *)record->bytes + sizeof(fixed));
	return add_event(r, &event);
}

static bool is_user_code(const struct perf_reader_record *record)
{
	return (record->header.misc & PERF_RECORD_MISC_CPUMODE_MASK) != PERF_RECORD_MISC_KERNEL &&
	       (record->header.misc & PERF_RECORD_MISC_CPUMODE_MASK) !=
		       PERF_RECORD_MISC_GUEST_KERNEL;
}

static int add_map(struct perf_reader *r, const struct perf_reader_record *record,
		   struct recording_event *event, size_t fixed)
{
	int err;

	event->kind = RECORDING_MAP;
	event->time_ns = record->time_ns;
	event->map.path = text_after(record, fixed);
	if (!event->map.path)
		return -ENOMEM;
	err = add_event(r, event);
	if (err)
		free(event->map.path);
	return err;
}

static int read_mmap(struct perf_reader *r, const struct perf_reader_record *record)
{
	struct recording_event event = { 0 };
	struct perf_format_mmap fixed;

	if (!fixed_part(record, &fixed, sizeof(fixed)))
		return -EINVAL;
	if (!is_user_code(record) || record->header.misc & PERF_RECORD_MISC_MMAP_DATA)
		return 0;
	event.pid = (pid_t)fixed.pid;
	event.tid = (pid_t)fixed.tid;
	event.map = (struct recording_map){ .addr = fixed.addr,
					    .len = fixed.len,
					    .pgoff = fixed.pgoff,
					    .prot = PROT_READ | PROT_EXEC };
	return add_map(r, record, &event, sizeof(fixed));
}

static int read_mmap2(struct perf_reader *r, const struct perf_reader_record *record)
{
	struct recording_event event = { 0 };
	struct perf_format_mmap2 fixed;

	if (!fixed_part(record, &fixed, sizeof(fixed)))
		return -EINVAL;
	if (!is_user_code(record) || !(fixed.prot & PROT_EXEC))
		return 0;
	event.pid = (pid_t)fixed.pid;
	event.tid = (pid_t)fixed.tid;
	event.map = (struct recording_map){ .addr = fixed.addr,
					    .len = fixed.len,
					    .pgoff = fixed.pgoff,
					    .prot = fixed.prot,
					    .flags = fixed.flags };
	if (record->header.misc & PERF_RECORD_MISC_MMAP_BUILD_ID) {
		event.map.build_id_size =
			fixed.build_id_size <= sizeof(fixed.build_id) ? fixed.build_id_size : 0;
		memcpy(event.map.build_id, fixed.build_id, event.map.build_id_size);
	} else {
		event.map.maj = fixed.maj;
		event.map.min = fixed.min;
		event.map.ino = fixed.ino;
		event.map.ino_generation = fixed.ino_generation;
	}
	return add_map(r, record, &event, sizeof(fixed));
}

static int read_task(struct perf_reader *r, const struct perf_reader_record *record)
{
	struct perf_format_task fixed;
	struct recording_event event = {
		.kind = record->header.type == PERF_RECORD_FORK ? RECORDING_FORK : RECORDING_EXIT,
	};

	if (!fixed_part(record, &fixed, sizeof(fixed)))
		return -EINVAL;
	event.time_ns = fixed.time;
	event.pid = (pid_t)fixed.pid;
	event.tid = (pid_t)fixed.tid;
	event.parent.parent_pid = (pid_t)fixed.parent_pid;
	event.parent.parent_tid = (pid_t)fixed.parent_tid;
	return add_event(r, &event);
}

static int read_mark(struct perf_reader *r, const struct perf_reader_record *record)
{
	struct perf_mark mark = { .id = record->id,
				  .is_start = record->header.type == PERF_RECORD_ITRACE_START,
				  .pid = record->pid,
				  .tid = record->tid,
				  .time_ns = record->time_ns };

	if (mark.is_start) {
		struct perf_format_itrace_start fixed;

		if (!fixed_part(record, &fixed, sizeof(fixed)))
			return -EINVAL;
		mark.pid = (pid_t)fixed.pid;
		mark.tid = (pid_t)fixed.tid;
	} else {
		struct perf_format_aux fixed;

		if (!fixed_part(record, &fixed, sizeof(fixed)))
			return -EINVAL;
		mark.offset = fixed.offset;
		mark.size = fixed.size;
		mark.flags = fixed.flags;
	}
	return vec_push(&r->trace.marks, mark);
}

static int read_id_index(struct perf_reader *r, const struct perf_reader_record *record)
{
	struct perf_format_id_index fixed;
	int err = 0;

	if (!fixed_part(record, &fixed, sizeof(fixed)) ||
	    fixed.n > (record->size - sizeof(fixed)) / sizeof(struct perf_format_id_entry))
		return -EINVAL;
	for (uint64_t i = 0; !err && i < fixed.n; i++) {
		struct perf_format_id_entry entry;
		struct perf_id_queue id;

		memcpy(&entry, record->bytes + sizeof(fixed) + i * sizeof(entry), sizeof(entry));
		id = (struct perf_id_queue){ entry.id, (uint32_t)entry.idx };
		err = vec_push(&r->trace.ids, id);
	}
	return err;
}

static int read_auxtrace_info(struct perf_reader *r, const struct perf_reader_record *record)
{
	struct perf_format_auxtrace_info fixed;
	size_t size;

	if (!fixed_part(record, &fixed, sizeof(fixed)))
		return -EINVAL;
	if (fixed.type != PERF_FORMAT_TYPE_INTEL_PT)
		return 0;
	size = record->size - sizeof(fixed);
	if (size < (PT_INFO_PER_CPU_MMAPS + 1) * sizeof(r->priv[0]))
		return -EINVAL;
	memcpy(r->priv, record->bytes + sizeof(fixed),
	       size < sizeof(r->priv) ? size : sizeof(r->priv));
	r->has_info = true;
	return 0;
}

static int read_auxtrace(struct perf_reader *r, const struct perf_reader_record *record,
			 uint64_t end, uint64_t *next)
{
	struct perf_format_auxtrace fixed;
	struct perf_piece piece;

	if (!fixed_part(record, &fixed, sizeof(fixed)))
		return -EINVAL;
	if (fixed.size > end - *next) {
		*next = end;
		*r->truncated = true;
		return 0;
	}
	piece = (struct perf_piece){ .idx = fixed.idx,
				     .tid = (pid_t)fixed.tid,
				     .offset = fixed.offset,
				     .ours = fixed.reserved,
				     .data = r->file + *next,
				     .size = fixed.size,
				     .file_offset = *next };
	*next += fixed.size;
	if (fixed.size == 0)
		return 0;
	if (fixed.tid == UINT32_MAX)
		return perf_reader_fail(
			r, -ENOTSUP,
			"recorded per CPU; ptbpf reads what was recorded per thread "
			"(perf record --per-thread)");
	return vec_push(&r->trace.pieces, piece);
}

static bool is_read_from_kernel(uint32_t type)
{
	return type == PERF_RECORD_COMM || type == PERF_RECORD_MMAP || type == PERF_RECORD_MMAP2 ||
	       type == PERF_RECORD_FORK || type == PERF_RECORD_EXIT ||
	       type == PERF_RECORD_ITRACE_START || type == PERF_RECORD_AUX;
}

int perf_reader_record(struct perf_reader *r, struct perf_reader_record *record, uint64_t end,
		       uint64_t *next)
{
	if (is_read_from_kernel(record->header.type) && read_sample_id(r, record))
		return -EINVAL;
	switch (record->header.type) {
	case PERF_RECORD_COMM:
		return read_comm(r, record);
	case PERF_RECORD_MMAP:
		return read_mmap(r, record);
	case PERF_RECORD_MMAP2:
		return read_mmap2(r, record);
	case PERF_RECORD_FORK:
	case PERF_RECORD_EXIT:
		return read_task(r, record);
	case PERF_RECORD_ITRACE_START:
	case PERF_RECORD_AUX:
		return read_mark(r, record);
	case PERF_FORMAT_ID_INDEX:
		return read_id_index(r, record);
	case PERF_FORMAT_AUXTRACE_INFO:
		return read_auxtrace_info(r, record);
	case PERF_FORMAT_AUXTRACE:
		return read_auxtrace(r, record, end, next);
	case PERF_FORMAT_COMPRESSED:
		return perf_reader_fail(r, -ENOTSUP, "compressed; record it without -z");
	}
	return 0;
}
