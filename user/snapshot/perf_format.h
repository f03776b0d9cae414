/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The perf.data file format in so far as ptbpf writes or reads it: tools/perf/Documentation/
 * perf.data-file-format.txt of the kernel, and include/uapi/linux/perf_event.h for the records that
 * the kernel makes. All little-endian.
 */
#ifndef PTBPF_SNAPSHOT_PERF_FORMAT_H
#define PTBPF_SNAPSHOT_PERF_FORMAT_H

#include <linux/perf_event.h>
#include <stdint.h>

#define PERF_FORMAT_MAGIC 0x32454c4946524550ull /* "PERFILE2" */
#define PERF_FORMAT_FEATURE_WORDS 4

struct perf_format_section {
	uint64_t offset, size;
};

struct perf_format_header {
	uint64_t magic;
	uint64_t size;      /* of this header; 16 in a pipe */
	uint64_t attr_size; /* of one entry of attrs: an attribute and the section of its ids */
	struct perf_format_section attrs, data, event_types;
	uint64_t features[PERF_FORMAT_FEATURE_WORDS]; /* one section each, after data */
};
_Static_assert(sizeof(struct perf_format_header) == 104, "perf.data");

enum perf_format_feature {
	PERF_FEATURE_BUILD_ID = 2,
	PERF_FEATURE_HOSTNAME = 3,
	PERF_FEATURE_OSRELEASE = 4,
	PERF_FEATURE_VERSION = 5,
	PERF_FEATURE_ARCH = 6,
	PERF_FEATURE_NRCPUS = 7,
	PERF_FEATURE_CPUDESC = 8,
	PERF_FEATURE_CPUID = 9,
	PERF_FEATURE_CMDLINE = 11,
	PERF_FEATURE_EVENT_DESC = 12,
	PERF_FEATURE_PMU_MAPPINGS = 16,
	PERF_FEATURE_AUXTRACE = 18,
	PERF_FEATURE_CLOCKID = 23,
	PERF_FEATURE_DIR_FORMAT = 24,
	PERF_FEATURE_COMPRESSED = 27,
};

/* The kernel's records, without the sample_id trailer. */
struct perf_format_comm {
	struct perf_event_header header;
	uint32_t pid, tid;
	char comm[16]; /* others: as long as it is, padded to 8 */
};

struct perf_format_mmap { /* PERF_RECORD_MMAP; a file name follows */
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
};

struct perf_format_mmap2 { /* a file name follows */
	struct perf_event_header header;
	uint32_t pid, tid;
	uint64_t addr, len, pgoff;
	union {
		struct {
			uint32_t maj, min;
			uint64_t ino, ino_generation;
		};
		struct { /* with PERF_RECORD_MISC_MMAP_BUILD_ID */
			uint8_t build_id_size, reserved[3];
			uint8_t build_id[20];
		};
	};
	uint32_t prot, flags;
};
_Static_assert(sizeof(struct perf_format_mmap2) == 72, "perf.data");

struct perf_format_task { /* FORK and EXIT */
	struct perf_event_header header;
	uint32_t pid, parent_pid, tid, parent_tid;
	uint64_t time;
};

struct perf_format_itrace_start {
	struct perf_event_header header;
	uint32_t pid, tid;
};

struct perf_format_aux {
	struct perf_event_header header;
	uint64_t offset, size, flags;
};

/* Records that perf itself makes; they follow the kernel's numbers. */
enum perf_format_record {
	PERF_FORMAT_ID_INDEX = 69,
	PERF_FORMAT_AUXTRACE_INFO = 70,
	PERF_FORMAT_AUXTRACE = 71,
	PERF_FORMAT_TIME_CONV = 79,
	PERF_FORMAT_COMPRESSED = 81,
};

struct perf_format_id_index {
	struct perf_event_header header;
	uint64_t n;
};

struct perf_format_id_entry {
	uint64_t id, idx, cpu, tid;
};

#define PERF_FORMAT_TYPE_INTEL_PT 1

struct perf_format_auxtrace_info {
	struct perf_event_header header;
	uint32_t type;
	uint32_t reserved;
	/* priv */
};

/* Bits of the PT attribute's config, which is RTIT_CTL. */
#define PT_CONFIG_ENABLE (1u << 0)
#define PT_CONFIG_CYC (1u << 1)
#define PT_CONFIG_MTC (1u << 9)
#define PT_CONFIG_TSC (1u << 10)
#define PT_CONFIG_NORETCOMP (1u << 11)
#define PT_CONFIG_BRANCH (1u << 13)
#define PT_CONFIG_MTC_PERIOD_SHIFT 14
#define PT_CONFIG_MTC_PERIOD (0xfu << PT_CONFIG_MTC_PERIOD_SHIFT)

/* Members of AUXTRACE_INFO's priv array for Intel PT; older perf writes fewer. */
enum perf_format_pt_info {
	PT_INFO_PMU_TYPE,
	PT_INFO_TIME_SHIFT,
	PT_INFO_TIME_MULT,
	PT_INFO_TIME_ZERO,
	PT_INFO_CAP_USER_TIME_ZERO,
	PT_INFO_TSC_BIT,
	PT_INFO_NORETCOMP_BIT,
	PT_INFO_HAVE_SCHED_SWITCH,
	PT_INFO_SNAPSHOT_MODE,
	PT_INFO_PER_CPU_MMAPS,
	PT_INFO_MTC_BIT,
	PT_INFO_MTC_FREQ_BITS,
	PT_INFO_TSC_CTC_N,
	PT_INFO_TSC_CTC_D,
	PT_INFO_CYC_BIT,
	PT_INFO_MAX_NONTURBO_RATIO,
	PT_INFO_FILTER_STR_LEN,
	PT_INFO_COUNT,
};

struct perf_format_auxtrace {
	struct perf_event_header header;
	uint64_t size; /* of the trace that follows the record */
	uint64_t offset;
	uint64_t reference;
	uint32_t idx;
	uint32_t tid;
	uint32_t cpu;
	uint32_t reserved;
};
_Static_assert(sizeof(struct perf_format_auxtrace) == 48, "perf.data");

struct perf_format_time_conv {
	struct perf_event_header header;
	uint64_t shift, mult, zero, cycles, mask;
	uint8_t cap_user_time_zero, cap_user_time_short, reserved[6];
};

/* sample_id_all's trailer in our own files: TID | TIME | IDENTIFIER. */
struct perf_format_sample_id {
	uint32_t pid, tid;
	uint64_t time, id;
};

/*
 * What our AUXTRACE.reserved holds: perf writes 0 there and reads it never. (The reference is
 * taken: perf's decoder completes the 56 bits of TSC packets from it.)
 */
#define PERF_OURS_MARK 0x5b7fu
#define PERF_OURS_MARK_SHIFT 16
#define PERF_OURS_PADDING_SHIFT 8 /* zero bytes appended to the trace, up to 7 */
#define PERF_OURS_JOIN_MASK 0xffu /* enum recording_join */

#endif
