// SPDX-License-Identifier: GPL-2.0-only
/* Memory, disk, clocks and libraries. */
#include <errno.h>
#include <fcntl.h>
#include <intel-pt.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/size.h"
#include "cmd/doctor.h"
#include "record/aux_ring.h"

#define RING_BYTES (4ull << 20)
#define MEMORY_BYTES (256ull << 20)
#define DISK_BYTES (1ull << 30)
#define GOOD_CLOCK_NS 10000

void doctor_ring(struct doctor_finding *finding)
{
	static const uint8_t bytes[] = "ptbpf";
	struct aux_ring ring = { .fd = -1, .spool_fd = -1 };
	uint8_t back[sizeof(bytes)];
	bool wrapped, same;
	const int err = aux_ring_new(RING_BYTES, &ring);

	if (err) {
		doctor_report(
			finding, DOCTOR_FAIL, "there is nowhere to record to",
			"free some memory; check 'ulimit -v' and the container's memory limit",
			"a ring of 4M: %s", strerror(-err));
		return;
	}
	aux_ring_write(&ring, bytes, sizeof(bytes));
	same = aux_ring_read(&ring, RING_BYTES, back, &wrapped) == sizeof(bytes) &&
	       !memcmp(bytes, back, sizeof(bytes));
	aux_ring_free(&ring);
	if (same)
		doctor_report(finding, DOCTOR_PASS, "", "",
			      "a ring of 4M was mapped, written and read back");
	else
		doctor_report(finding, DOCTOR_FAIL, "there is nowhere to record to",
			      "report this, with the kernel's version",
			      "a ring of 4M did not give back what was written");
}

void doctor_memory(struct doctor_finding *finding)
{
	scoped_file FILE *file = fopen("/proc/meminfo", "re");
	unsigned long long kib = 0;
	char line[128];

	while (file && fgets(line, sizeof(line), file) &&
	       sscanf(line, "MemAvailable: %llu kB", &kib) != 1)
		;
	if (kib * 1024 >= MEMORY_BYTES)
		doctor_report(finding, DOCTOR_PASS, "", "", "%llu MiB are available", kib / 1024);
	else
		doctor_report(finding, DOCTOR_WARN, "large buffers and long traces will not fit",
			      "free some memory, or use a smaller --buffer",
			      "%llu MiB are available", kib / 1024);
}

void doctor_memlock(struct doctor_finding *finding)
{
	struct rlimit limit = { 0 };
	char text[32];

	if (getrlimit(RLIMIT_MEMLOCK, &limit) || limit.rlim_cur == RLIM_INFINITY || !geteuid())
		doctor_report(finding, DOCTOR_PASS, "", "",
			      "locked memory is not limited for this user");
	else if (limit.rlim_cur >= MEMORY_BYTES)
		doctor_report(finding, DOCTOR_PASS, "", "", "up to %s may be locked",
			      size_format(limit.rlim_cur, text, sizeof(text)));
	else
		doctor_report(finding, DOCTOR_WARN,
			      "nothing for the software tracer; hardware rings count against it",
			      "ulimit -l unlimited, or LimitMEMLOCK= in the service",
			      "up to %s may be locked",
			      size_format(limit.rlim_cur, text, sizeof(text)));
}

/* Writes a file where snapshots go by default. */
void doctor_disk(struct doctor_finding *finding)
{
	char path[] = "./.ptbpf-doctor.XXXXXX";
	scoped_fd int fd = mkostemp(path, O_CLOEXEC);
	struct statvfs fs;
	uint64_t free_bytes;

	if (fd < 0) {
		doctor_report(finding, DOCTOR_WARN, "snapshots cannot be written here",
			      "choose another directory with --output",
			      "creating a file in the working directory: %s", strerror(errno));
		return;
	}
	unlink(path);
	if (fstatvfs(fd, &fs)) {
		doctor_report(finding, DOCTOR_WARN, "", "", "the file system's size: %s",
			      strerror(errno));
		return;
	}
	free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
	if (free_bytes >= DISK_BYTES)
		doctor_report(finding, DOCTOR_PASS, "", "",
			      "the working directory is writable, %llu MiB are free",
			      (unsigned long long)(free_bytes >> 20));
	else
		doctor_report(finding, DOCTOR_WARN, "--full-execution may fill it",
			      "choose another directory with --output",
			      "the working directory is writable, but only %llu MiB are free",
			      (unsigned long long)(free_bytes >> 20));
}

void doctor_clock(struct doctor_finding *finding)
{
	struct clock_pair pairs[2];
	struct clock_conv conv;
	uint64_t here, there;
	int err;

	pairs[0] = clock_read_pair();
	usleep(20000);
	pairs[1] = clock_read_pair();
	err = clock_fit(pairs, 2, &conv);
	usleep(5000);
	here = clock_tsc_to_ns(&conv, clock_tsc());
	there = clock_now_ns();
	if (!err && (here > there ? here - there : there - here) < GOOD_CLOCK_NS)
		doctor_report(finding, DOCTOR_PASS, "", "",
			      "TSC and CLOCK_MONOTONIC agree within %llu ns",
			      (unsigned long long)(here > there ? here - there : there - here));
	else
		doctor_report(finding, DOCTOR_WARN,
			      "times in the trace are wrong; their order is right",
			      "choose the tsc clock source: see "
			      "/sys/devices/system/clocksource/clocksource0/",
			      "TSC and CLOCK_MONOTONIC do not run evenly");
}

void doctor_libipt(struct doctor_finding *finding)
{
	const struct pt_version version = pt_library_version();

	if (version.major >= 2)
		doctor_report(finding, DOCTOR_PASS, "", "", "version %u.%u.%u",
			      (unsigned int)version.major, (unsigned int)version.minor,
			      (unsigned int)version.build);
	else
		doctor_report(finding, DOCTOR_FAIL, "traces cannot be decoded",
			      "install libipt2 (Debian 12 or later)", "version %u.%u.%u",
			      (unsigned int)version.major, (unsigned int)version.minor,
			      (unsigned int)version.build);
}
