// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "base/mem.h"
#include "snapshot/perf_data.h"
#include "snapshot/perf_reader.h"

#define SAMPLE_ID_BITS                                                                 \
	(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_ID | PERF_SAMPLE_STREAM_ID | \
	 PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

int perf_reader_fail(const struct perf_reader *r, int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(r->why, r->why_size, fmt, args);
	va_end(args);
	return err;
}

static bool inside(const struct perf_reader *r, uint64_t offset, uint64_t size)
{
	return offset <= r->size && size <= r->size - offset;
}

static int read_header(struct perf_reader *r)
{
	static const char swapped[8] = "2ELIFREP";

	if (r->size >= 8 && !memcmp(r->file, swapped, 8))
		return perf_reader_fail(r, -ENOTSUP,
					"recorded on a machine of the other byte order");
	if (r->size >= 16 && !memcmp(r->file, "PERFILE2\x10\0\0\0\0\0\0\0", 16))
		return perf_reader_fail(
			r, -ENOTSUP,
			"written to a pipe; convert it: perf inject -i FILE -o perf.data");
	if (r->size < sizeof(r->header))
		return perf_reader_fail(r, -EINVAL, "not a perf.data file: %" PRIu64 " bytes",
					r->size);
	memcpy(&r->header, r->file, sizeof(r->header));
	if (r->header.magic == 0 && r->header.size == sizeof(r->header))
		return perf_reader_fail(r, -EINVAL,
					"incomplete: its writer was stopped while writing it");
	if (r->header.magic != PERF_FORMAT_MAGIC || r->header.size < sizeof(r->header))
		return perf_reader_fail(r, -EINVAL, "not a perf.data file");
	return 0;
}

static bool has_feature(const struct perf_reader *r, unsigned int feature)
{
	return r->header.features[feature / 64] >> (feature % 64) & 1;
}

static int read_attr(struct perf_reader *r, uint64_t offset)
{
	struct perf_event_attr attr = { 0 };
	struct perf_reader_attr kept;
	uint64_t size = r->header.attr_size - sizeof(struct perf_format_section);
	int err;

	if (size > sizeof(attr))
		size = sizeof(attr);
	memcpy(&attr, r->file + offset, size);
	kept = (struct perf_reader_attr){ .type = attr.type, .config = attr.config };
	if (attr.sample_id_all)
		kept.sample_id = attr.sample_type & SAMPLE_ID_BITS;
	if (r->attrs.len && kept.sample_id != r->sample_id)
		return perf_reader_fail(r, -ENOTSUP,
					"its events do not share one sample_id layout");
	r->sample_id = kept.sample_id;
	err = vec_push(&r->attrs, kept);
	return err ? perf_reader_fail(r, err, "out of memory") : 0;
}

static int read_attrs(struct perf_reader *r)
{
	const struct perf_format_section *attrs = &r->header.attrs;
	const uint64_t entry = r->header.attr_size;
	int err = 0;

	if (entry < PERF_ATTR_SIZE_VER0 + sizeof(*attrs) || entry > 4096)
		return perf_reader_fail(
			r, -EINVAL, "entries of %" PRIu64 " bytes in its table of events", entry);
	if (!inside(r, attrs->offset, attrs->size) || attrs->size < entry)
		return perf_reader_fail(r, -EINVAL,
					"its table of events, at %" PRIu64 ", is cut off",
					attrs->offset);
	for (uint64_t i = 0; !err && i < attrs->size / entry; i++)
		err = read_attr(r, attrs->offset + i * entry);
	return err;
}

/* A text of a feature section, or NULL. */
static const char *feature_text(const struct perf_reader *r,
				const struct perf_format_section *section)
{
	uint32_t len;

	if (!inside(r, section->offset, section->size) || section->size < sizeof(len))
		return NULL;
	memcpy(&len, r->file + section->offset, sizeof(len));
	if (len == 0 || len > section->size - sizeof(len) ||
	    !memchr(r->file + section->offset + sizeof(len), '\0', len))
		return NULL;
	return (const char *)r->file + section->offset + sizeof(len);
}

/* "GenuineIntel,6,85,7": errata of the decoder hang on it. */
static void read_cpuid(struct perf_reader *r, const char *text)
{
	unsigned int family, model, stepping;

	if (!text || sscanf(text, "GenuineIntel,%u,%u,%u", &family, &model, &stepping) != 3)
		return;
	r->recording->cpu =
		(struct recording_cpu){ true, (uint16_t)family, (uint8_t)model, (uint8_t)stepping };
}

static void read_features(struct perf_reader *r)
{
	uint64_t at = r->header.data.offset + r->header.data.size;

	for (unsigned int feature = 0; feature < 64 * PERF_FORMAT_FEATURE_WORDS; feature++) {
		struct perf_format_section section;

		if (!has_feature(r, feature))
			continue;
		if (!inside(r, at, sizeof(section)))
			return;
		memcpy(&section, r->file + at, sizeof(section));
		at += sizeof(section);
		if (feature == PERF_FEATURE_CPUID)
			read_cpuid(r, feature_text(r, &section));
	}
}

/* Where the data ends; perf leaves a size of 0 when it is killed. */
static int data_end(struct perf_reader *r, uint64_t *end)
{
	const struct perf_format_section *data = &r->header.data;

	if (data->offset > r->size)
		return perf_reader_fail(r, -EINVAL, "cut off before its data, at %" PRIu64,
					r->size);
	*end = data->offset + data->size;
	if (data->size == 0 || data->size > r->size - data->offset) {
		*end = r->size;
		*r->truncated = true;
	}
	return 0;
}

static int read_data(struct perf_reader *r)
{
	uint64_t at = r->header.data.offset, end = 0, next;
	int err = data_end(r, &end);

	for (; !err && at < end; at = next) {
		struct perf_reader_record record = { .bytes = r->file + at, .offset = at };

		if (end - at < sizeof(record.header)) {
			*r->truncated = true;
			break;
		}
		memcpy(&record.header, record.bytes, sizeof(record.header));
		record.size = record.header.size;
		if (record.size < sizeof(record.header))
			return perf_reader_fail(r, -EINVAL,
						"record at %" PRIu64 " has a size of %zu", at,
						record.size);
		if (record.size > end - at) {
			*r->truncated = true;
			break;
		}
		next = at + record.size;
		r->why[0] = '\0';
		err = perf_reader_record(r, &record, end, &next);
		if (err == -EINVAL)
			return perf_reader_fail(r, err,
						"record at %" PRIu64 ", of type %u, is too short",
						at, record.header.type);
		if (err && !r->why[0])
			return perf_reader_fail(r, err, "%s", strerror(-err));
	}
	return err;
}

/* A timeless trace: everything is in force from the start. */
static void forget_times(struct perf_reader *r)
{
	struct recording_event *event;
	struct perf_mark *mark;

	vec_for_each(event, &r->recording->events)
		event->time_ns = 0;
	vec_for_each(mark, &r->trace.marks)
		mark->time_ns = 0;
}

static int read_clock(struct perf_reader *r)
{
	const uint64_t shift = r->priv[PT_INFO_TIME_SHIFT], mult = r->priv[PT_INFO_TIME_MULT];

	if (!r->priv[PT_INFO_CAP_USER_TIME_ZERO] || !mult ||
	    !(r->recording->pt.config & r->priv[PT_INFO_TSC_BIT])) {
		forget_times(r);
		return 0;
	}
	if (shift > 63 || mult > UINT32_MAX)
		return perf_reader_fail(r, -EINVAL,
					"impossible time conversion (shift %" PRIu64 ")", shift);
	r->recording->clock = (struct clock_conv){ .mult = (uint32_t)mult,
						   .shift = (uint16_t)shift,
						   .zero = r->priv[PT_INFO_TIME_ZERO] };
	return 0;
}

static int read_pt(struct perf_reader *r)
{
	struct recording_pt *pt = &r->recording->pt;
	const uint64_t freq_bits = r->priv[PT_INFO_MTC_FREQ_BITS];
	const struct perf_reader_attr *attr;

	if (!r->has_info)
		return perf_reader_fail(r, -EINVAL, "no Intel PT in it");
	vec_for_each(attr, &r->attrs) {
		if (attr->type == r->priv[PT_INFO_PMU_TYPE]) {
			pt->config = attr->config;
			break;
		}
	}
	if (pt->config & r->priv[PT_INFO_MTC_BIT] && freq_bits)
		pt->mtc_freq = (uint32_t)((pt->config & freq_bits) >> __builtin_ctzll(freq_bits));
	pt->tsc_ctc_n = (uint32_t)r->priv[PT_INFO_TSC_CTC_N];
	pt->tsc_ctc_d = (uint32_t)r->priv[PT_INFO_TSC_CTC_D];
	pt->max_nonturbo_ratio = (uint8_t)r->priv[PT_INFO_MAX_NONTURBO_RATIO];
	pt->snapshot_mode = r->priv[PT_INFO_SNAPSHOT_MODE];
	return read_clock(r);
}

static int read_file(struct perf_reader *r)
{
	int err = read_header(r);

	if (!err && has_feature(r, PERF_FEATURE_DIR_FORMAT))
		return perf_reader_fail(r, -ENOTSUP,
					"one file of a perf.data directory; record it without "
					"--threads");
	if (!err && has_feature(r, PERF_FEATURE_COMPRESSED))
		return perf_reader_fail(r, -ENOTSUP, "compressed; record it without -z");
	if (!err)
		err = read_attrs(r);
	if (!err)
		err = read_data(r);
	if (!err)
		err = read_pt(r);
	if (err)
		return err;
	read_features(r);
	err = perf_trace_chunks(&r->trace, r->recording);
	if (!err)
		err = recording_sort(r->recording);
	return err ? perf_reader_fail(r, err, "%s", strerror(-err)) : 0;
}

int perf_data_read(const char *path, struct recording *recording, bool *truncated, char *why,
		   size_t why_size)
{
	struct perf_reader r = {
		.recording = recording, .truncated = truncated, .why = why, .why_size = why_size
	};
	scoped_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	int err;

	memset(recording, 0, sizeof(*recording));
	*truncated = false;
	if (fd < 0)
		return perf_reader_fail(&r, -errno, "%s", strerror(errno));
	err = recording_map_file(recording, fd, &r.file, &r.size);
	if (err == -EINVAL)
		perf_reader_fail(&r, err, "not a regular file");
	else if (err)
		perf_reader_fail(&r, err, "%s", strerror(-err));
	else
		err = read_file(&r);
	vec_free(&r.attrs);
	perf_trace_fini(&r.trace);
	if (err)
		recording_fini(recording);
	return err;
}
