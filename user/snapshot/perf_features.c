// SPDX-License-Identifier: GPL-2.0-only
#include "snapshot/perf_features.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"

#define NAME_ALIGN 64 /* of texts in feature sections */
/* IP: of the samples that perf makes out of the trace. The others are the records' sample_id. */
#define SAMPLE_TYPE (PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_IDENTIFIER)

uint64_t perf_pt_config(const struct recording *recording)
{
	uint64_t config = recording->pt.config | PT_CONFIG_ENABLE | PT_CONFIG_BRANCH;

	/* Without a clock perf has to decode without times. */
	return recording->clock.mult ? config | PT_CONFIG_TSC : config & ~(uint64_t)PT_CONFIG_TSC;
}

static void fill_attrs(const struct recording *recording, struct perf_event_attr attrs[PERF_ATTRS])
{
	attrs[0] = (struct perf_event_attr){
		.type = PERF_PMU_TYPE,
		.config = perf_pt_config(recording),
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	attrs[1] = (struct perf_event_attr){
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_DUMMY,
		.exclude_kernel = 1,
		.exclude_hv = 1,
		.mmap = 1,
		.comm = 1,
		.task = 1,
		.mmap2 = 1,
		.comm_exec = 1,
		.build_id = 1,
	};
	for (size_t i = 0; i < PERF_ATTRS; i++) {
		attrs[i].size = PERF_ATTR_SIZE_VER5;
		attrs[i].sample_period = 1;
		attrs[i].sample_type = SAMPLE_TYPE;
		attrs[i].read_format = PERF_FORMAT_ID;
		attrs[i].sample_id_all = 1;
		attrs[i].use_clockid = 1;
		attrs[i].clockid = CLOCK_MONOTONIC;
	}
}

/* perf looks for the PT attribute by its ids: there is at least one. */
static size_t count_ids(const struct recording *recording, size_t attr)
{
	return attr == 0 && recording->chunks.len ? recording->chunks.len : 1;
}

static void put_ids(struct sink *sink, const struct recording *recording, size_t attr)
{
	for (size_t i = 0; i < count_ids(recording, attr); i++) {
		const uint64_t id = attr == 0 ? PERF_ID_CHUNK(i) : PERF_ID_SIDEBAND;

		sink_write(sink, &id, sizeof(id));
	}
}

struct perf_format_section perf_attrs_write(struct sink *sink, const struct recording *recording)
{
	struct perf_format_section ids[PERF_ATTRS], attrs_at;
	struct perf_event_attr attrs[PERF_ATTRS];

	fill_attrs(recording, attrs);
	for (size_t i = 0; i < PERF_ATTRS; i++) {
		ids[i].offset = sink->offset;
		put_ids(sink, recording, i);
		ids[i].size = sink->offset - ids[i].offset;
	}
	attrs_at.offset = sink->offset;
	for (size_t i = 0; i < PERF_ATTRS; i++) {
		sink_write(sink, &attrs[i], PERF_ATTR_SIZE_VER5);
		sink_write(sink, &ids[i], sizeof(ids[i]));
	}
	attrs_at.size = sink->offset - attrs_at.offset;
	return attrs_at;
}

static void put_u32(struct sink *sink, uint32_t value)
{
	sink_write(sink, &value, sizeof(value));
}

static void put_text(struct sink *sink, const char *text)
{
	static const char zeros[NAME_ALIGN];
	const size_t len = strlen(text) + 1;
	const size_t size = (len + NAME_ALIGN - 1) / NAME_ALIGN * NAME_ALIGN;

	put_u32(sink, (uint32_t)size);
	sink_write(sink, text, len);
	sink_write(sink, zeros, size - len);
}

static void put_event_desc(struct sink *sink, const struct recording *recording)
{
	static const char *const names[PERF_ATTRS] = { "intel_pt//u", "dummy:u" };
	struct perf_event_attr attrs[PERF_ATTRS];

	fill_attrs(recording, attrs);
	put_u32(sink, PERF_ATTRS);
	put_u32(sink, PERF_ATTR_SIZE_VER5);
	for (size_t i = 0; i < PERF_ATTRS; i++) {
		sink_write(sink, &attrs[i], PERF_ATTR_SIZE_VER5);
		put_u32(sink, (uint32_t)count_ids(recording, i));
		put_text(sink, names[i]);
		put_ids(sink, recording, i);
	}
}

static void put_pmu_mappings(struct sink *sink)
{
	put_u32(sink, 2);
	put_u32(sink, PERF_TYPE_SOFTWARE);
	put_text(sink, "software");
	put_u32(sink, PERF_PMU_TYPE);
	put_text(sink, "intel_pt");
}

static void put_cpuid(struct sink *sink, const struct recording_cpu *cpu)
{
	char text[80];

	snprintf(text, sizeof(text), "%s,%u,%u,%u", cpu->intel ? "GenuineIntel" : "Unknown",
		 cpu->family, cpu->model, cpu->stepping);
	put_text(sink, text);
}

/* "model name" of the machine that writes; the recording one, as both are the same run. */
static void put_cpu_description(struct sink *sink)
{
	scoped_file FILE *file = fopen("/proc/cpuinfo", "re");
	char line[512], text[512] = "unknown";

	while (file && fgets(line, sizeof(line), file)) {
		if (sscanf(line, "model name : %511[^\n]", text) == 1)
			break;
	}
	put_text(sink, text);
}

static void put_cpu_counts(struct sink *sink)
{
	put_u32(sink, (uint32_t)sysconf(_SC_NPROCESSORS_CONF));
	put_u32(sink, (uint32_t)sysconf(_SC_NPROCESSORS_ONLN));
}

static void put_command(struct sink *sink, const char *cmdline)
{
	put_u32(sink, 1);
	put_text(sink, cmdline ? cmdline : "ptbpf");
}

static void put_index(struct sink *sink, const perf_index *index)
{
	const uint64_t n = index->len;

	sink_write(sink, &n, sizeof(n));
	sink_write(sink, index->data, index->len * sizeof(*index->data));
}

static int compare_build_ids(const void *a, const void *b)
{
	const struct recording_map *const *left = a, *const *right = b;
	const int by_path = strcmp((*left)->path, (*right)->path);

	return by_path ? by_path :
			 memcmp((*left)->build_id, (*right)->build_id, sizeof((*left)->build_id));
}

static void put_build_id(struct sink *sink, const struct recording_map *map)
{
	const size_t len = strlen(map->path) + 1;
	struct {
		struct perf_event_header header;
		int32_t pid;
		uint8_t build_id[20], size, reserved[3];
	} record = { .header = { .misc = PERF_RECORD_MISC_USER | 1u << 15 }, .pid = -1 };
	const size_t padded = (len + NAME_ALIGN - 1) / NAME_ALIGN * NAME_ALIGN;
	static const char zeros[NAME_ALIGN];

	record.header.size = (uint16_t)(sizeof(record) + padded);
	memcpy(record.build_id, map->build_id, sizeof(record.build_id));
	record.size = map->build_id_size;
	sink_write(sink, &record, sizeof(record));
	sink_write(sink, map->path, len);
	sink_write(sink, zeros, padded - len);
}

static int put_build_ids(struct sink *sink, const struct recording *recording)
{
	VEC(const struct recording_map *) maps = { 0 };
	const struct recording_event *event;
	int err = 0;

	vec_for_each(event, &recording->events) {
		if (!err && event->kind == RECORDING_MAP && event->map.build_id_size &&
		    event->map.path && strlen(event->map.path) < 4096)
			err = vec_push(&maps, &event->map);
	}
	if (maps.len)
		qsort(maps.data, maps.len, sizeof(*maps.data), compare_build_ids);
	for (size_t i = 0; !err && i < maps.len; i++) {
		if (i == 0 || compare_build_ids(&maps.data[i - 1], &maps.data[i]))
			put_build_id(sink, maps.data[i]);
	}
	vec_free(&maps);
	return err;
}

static const uint8_t feature_order[] = {
	PERF_FEATURE_BUILD_ID,   PERF_FEATURE_HOSTNAME,     PERF_FEATURE_OSRELEASE,
	PERF_FEATURE_VERSION,    PERF_FEATURE_ARCH,         PERF_FEATURE_NRCPUS,
	PERF_FEATURE_CPUDESC,    PERF_FEATURE_CPUID,        PERF_FEATURE_CMDLINE,
	PERF_FEATURE_EVENT_DESC, PERF_FEATURE_PMU_MAPPINGS, PERF_FEATURE_AUXTRACE,
	PERF_FEATURE_CLOCKID,
};

static int put_feature(struct sink *sink, uint8_t feature, const struct recording *recording,
		       const char *cmdline, const perf_index *index)
{
	const uint64_t clock_resolution_ns = 1;
	struct utsname uts;

	uname(&uts);
	switch (feature) {
	case PERF_FEATURE_BUILD_ID:
		return put_build_ids(sink, recording);
	case PERF_FEATURE_HOSTNAME:
		put_text(sink, uts.nodename);
		break;
	case PERF_FEATURE_OSRELEASE:
		put_text(sink, uts.release);
		break;
	case PERF_FEATURE_VERSION:
		put_text(sink, "ptbpf " PTBPF_VERSION);
		break;
	case PERF_FEATURE_ARCH:
		put_text(sink, uts.machine);
		break;
	case PERF_FEATURE_NRCPUS:
		put_cpu_counts(sink);
		break;
	case PERF_FEATURE_CPUDESC:
		put_cpu_description(sink);
		break;
	case PERF_FEATURE_CPUID:
		put_cpuid(sink, &recording->cpu);
		break;
	case PERF_FEATURE_CMDLINE:
		put_command(sink, cmdline);
		break;
	case PERF_FEATURE_EVENT_DESC:
		put_event_desc(sink, recording);
		break;
	case PERF_FEATURE_PMU_MAPPINGS:
		put_pmu_mappings(sink);
		break;
	case PERF_FEATURE_AUXTRACE:
		put_index(sink, index);
		break;
	case PERF_FEATURE_CLOCKID:
		sink_write(sink, &clock_resolution_ns, sizeof(clock_resolution_ns));
		break;
	}
	return 0;
}

int perf_features_write(struct sink *sink, const struct recording *recording, const char *cmdline,
			const perf_index *index, struct perf_format_header *header)
{
	struct perf_format_section sections[ARRAY_SIZE(feature_order)] = { 0 };
	const uint64_t table = sink->offset;
	int err = 0;

	sink_write(sink, sections, sizeof(sections));
	for (size_t i = 0; !err && i < ARRAY_SIZE(feature_order); i++) {
		header->features[feature_order[i] / 64] |= 1ull << (feature_order[i] % 64);
		sections[i].offset = sink->offset;
		err = put_feature(sink, feature_order[i], recording, cmdline, index);
		sections[i].size = sink->offset - sections[i].offset;
	}
	if (!err)
		err = sink_flush(sink);
	if (!err &&
	    pwrite(sink->fd, sections, sizeof(sections), (off_t)table) != (ssize_t)sizeof(sections))
		err = errno ? -errno : -EIO;
	return err;
}
