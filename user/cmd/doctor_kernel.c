// SPDX-License-Identifier: GPL-2.0-only
/* What the kernel lets us do: BPF, uprobes, Intel PT. */
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cmd/doctor.h"
#include "record/evaluator.h"

#define PT_DIR "/sys/bus/event_source/devices/intel_pt"
#define RING_BYTES (64u * 1024)

/* The first number in a file; -1 when there is none. */
static long read_number(const char *path)
{
	scoped_file FILE *file = fopen(path, "re");
	long number = -1;

	if (file && fscanf(file, "%ld", &number) != 1)
		number = -1;
	return number;
}

/* The bit that the PMU's format file names ("config:13"), as a mask; 0 when it has none. */
static uint64_t format_bit(const char *name)
{
	char path[256];
	scoped_file FILE *file = NULL;
	unsigned int bit;

	snprintf(path, sizeof(path), PT_DIR "/format/%s", name);
	file = fopen(path, "re");
	if (!file || fscanf(file, "config:%u", &bit) != 1 || bit > 63)
		return 0;
	return 1ull << bit;
}

/* Opens the event on ourselves and maps its ring as a recording would. 0 or -errno. */
static int try_intel_pt(long type)
{
	struct perf_event_attr attr = {
		.type = (uint32_t)type,
		.size = sizeof(attr),
		.config = format_bit("pt") | format_bit("tsc") | format_bit("branch"),
		.disabled = 1,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	scoped_fd int fd =
		(int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	struct perf_event_mmap_page *page;
	const size_t base_size = 2 * (size_t)getpagesize();
	void *aux;
	int err;

	if (fd < 0)
		return -errno;
	page = mmap(NULL, base_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	page->aux_offset = RING_BYTES;
	page->aux_size = RING_BYTES;
	aux = mmap(NULL, RING_BYTES, PROT_READ, MAP_SHARED, fd, (off_t)page->aux_offset);
	err = aux == MAP_FAILED ? -errno : 0;
	if (!err)
		err = ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) ? -errno : 0;
	if (!err)
		ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
	if (aux != MAP_FAILED)
		munmap(aux, RING_BYTES);
	munmap(page, base_size);
	return err;
}

void doctor_intel_pt(struct doctor_finding *finding)
{
	const long type = read_number(PT_DIR "/type");
	int err;

	if (type < 0) {
		doctor_report(
			finding, DOCTOR_WARN,
			"the software tracer takes its place: exact, but hundreds of times "
			"slower",
			"use an Intel processor of 2015 or later without a virtual machine, or "
			"one that passes PT on",
			"no intel_pt event source (" PT_DIR " is not there)");
		return;
	}
	err = try_intel_pt(type);
	if (err)
		doctor_report(finding, DOCTOR_WARN, "the software tracer takes its place",
			      "run as root, or: sudo sysctl kernel.perf_event_paranoid=1",
			      "opening an intel_pt event and its ring: %s", strerror(-err));
	else
		doctor_report(
			finding, DOCTOR_PASS, "", "",
			"an event was opened and its ring mapped (this version records by the "
			"software tracer only)");
}

/* evaluator_open() logs what is odd; here the table says it. */
static int open_evaluator(struct evaluator **evaluator)
{
	static const struct ptbpf_trigger trigger;
	const struct evaluator_config config = { .triggers = &trigger, .n_triggers = 1 };
	const enum log_level level = log_get_level();
	int err;

	if (level < LOG_DEBUG)
		log_set_level(LOG_ERROR);
	err = evaluator_open(&config, evaluator);
	log_set_level(level);
	return err;
}

#define BPF_MEANING \
	"the software tracer evaluates sym: and addr: triggers itself and follows threads by ptrace"

void doctor_bpf(struct doctor_finding *finding)
{
	struct evaluator *evaluator = NULL;
	const int err = open_evaluator(&evaluator);

	if (!err) {
		evaluator_close(evaluator);
		doctor_report(finding, DOCTOR_PASS, "", "",
			      "the trigger and thread programs were loaded and attached");
	} else {
		doctor_report(finding, DOCTOR_WARN, BPF_MEANING,
			      "run as root, in a container with CAP_BPF and CAP_PERFMON",
			      "loading our BPF programs: %s", strerror(-err));
	}
}

static void __attribute__((noinline)) probed(void)
{
	__asm__ volatile("nop" ::: "memory");
}

struct own_offset {
	uint64_t addr, offset;
};

static int find_offset(struct dl_phdr_info *info, size_t size, void *ctx)
{
	struct own_offset *own = ctx;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *phdr = &info->dlpi_phdr[i];
		const uint64_t start = info->dlpi_addr + phdr->p_vaddr;

		if (phdr->p_type != PT_LOAD || own->addr < start ||
		    own->addr >= start + phdr->p_filesz)
			continue;
		own->offset = own->addr - start + phdr->p_offset;
		return 1;
	}
	return 0;
}

/* A uprobe on a function of ours, which is then called: the hit must be counted. */
static int try_uprobe(struct evaluator *evaluator, uint64_t *hits)
{
	struct own_offset own = { .addr = (uint64_t)(uintptr_t)probed };
	uint32_t attachment;
	int err;

	if (!dl_iterate_phdr(find_offset, &own))
		return -ENOENT;
	err = evaluator_add_thread(evaluator, getpid(), gettid());
	if (!err)
		err = evaluator_attach(evaluator, 0, getpid(), "/proc/self/exe", own.offset,
				       &attachment);
	if (err)
		return err;
	probed();
	*hits = __atomic_load_n(&evaluator_fire_page(evaluator)->stats[0].hits, __ATOMIC_ACQUIRE);
	evaluator_detach_probes(evaluator);
	return 0;
}

void doctor_uprobe(struct doctor_finding *finding)
{
	struct evaluator *evaluator = NULL;
	uint64_t hits = 0;
	int err = open_evaluator(&evaluator);

	if (!err) {
		err = try_uprobe(evaluator, &hits);
		evaluator_close(evaluator);
	}
	if (err)
		doctor_report(finding, DOCTOR_WARN, BPF_MEANING,
			      "run as root; the kernel needs CONFIG_UPROBES",
			      "attaching a uprobe to ourselves: %s", strerror(-err));
	else if (hits != 1)
		doctor_report(finding, DOCTOR_FAIL, "triggers would not fire",
			      "report this, with the kernel's version",
			      "a uprobe was attached, but counted %llu hits of one",
			      (unsigned long long)hits);
	else
		doctor_report(finding, DOCTOR_PASS, "", "",
			      "a uprobe on ourselves counted its hit in BPF");
}

void doctor_btf(struct doctor_finding *finding)
{
	if (!access("/sys/kernel/btf/vmlinux", R_OK))
		doctor_report(finding, DOCTOR_PASS, "", "", "/sys/kernel/btf/vmlinux is readable");
	else
		doctor_report(finding, DOCTOR_WARN, "our BPF programs cannot be loaded",
			      "use a kernel with CONFIG_DEBUG_INFO_BTF=y",
			      "/sys/kernel/btf/vmlinux: %s", strerror(errno));
}

void doctor_paranoid(struct doctor_finding *finding)
{
	const long paranoid = read_number("/proc/sys/kernel/perf_event_paranoid");
	struct perf_event_attr attr = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attr),
		.config = PERF_COUNT_SW_DUMMY,
		.exclude_kernel = 1,
		.exclude_hv = 1,
	};
	scoped_fd int fd =
		(int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0)
		doctor_report(finding, DOCTOR_PASS, "", "",
			      "a perf event was opened (kernel.perf_event_paranoid is %ld)",
			      paranoid);
	else
		doctor_report(
			finding, DOCTOR_WARN,
			"no hardware trace for this user; the software tracer is not affected",
			"run as root, or: sudo sysctl kernel.perf_event_paranoid=2",
			"opening a perf event: %s (kernel.perf_event_paranoid is %ld)",
			strerror(errno), paranoid);
}

void doctor_tracefs(struct doctor_finding *finding)
{
	if (!access("/sys/kernel/tracing/uprobe_events", R_OK | W_OK))
		doctor_report(finding, DOCTOR_PASS, "", "",
			      "/sys/kernel/tracing/uprobe_events is writable");
	else
		doctor_report(finding, DOCTOR_WARN,
			      "nothing now; hardware tracing will stop threads through it",
			      "run as root, and: mount -t tracefs none /sys/kernel/tracing",
			      "/sys/kernel/tracing/uprobe_events: %s", strerror(errno));
}
