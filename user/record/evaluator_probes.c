// SPDX-License-Identifier: GPL-2.0-only
#include "record/evaluator_probes.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/libbpf.h>

#include "base/mem.h"

/* The PMU's number, or -errno. */
static int uprobe_pmu(void)
{
	scoped_file FILE *file = fopen("/sys/bus/event_source/devices/uprobe/type", "re");
	int type;

	if (!file)
		return -errno;
	return fscanf(file, "%d", &type) == 1 ? type : -EINVAL;
}

int probes_allowed(void)
{
	const int type = uprobe_pmu();
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = (uint32_t)type,
		.config1 = (uintptr_t) "/", /* never a file: refused after the rights are checked */
	};
	scoped_fd int fd = -1;

	if (type < 0)
		return type;
	fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
	return fd < 0 && (errno == EACCES || errno == EPERM) ? -errno : 0;
}

static int open_probe(const struct bpf_program *program, struct probe *probe, pid_t tid)
{
	LIBBPF_OPTS(bpf_uprobe_opts, opts,
		    .bpf_cookie = (uint64_t)probe->attachment << 32 | probe->trigger);

	probe->link =
		bpf_program__attach_uprobe_opts(program, tid, probe->path, probe->offset, &opts);
	if (!probe->link)
		return -errno;
	probe->tid = tid;
	return 0;
}

static int open_on_first(const struct bpf_program *program, struct probe *probe, const pid_t *tids,
			 size_t n_tids)
{
	for (size_t i = 0; i < n_tids; i++) {
		const int err = open_probe(program, probe, tids[i]);

		if (err != -ESRCH)
			return err;
	}
	return -ESRCH;
}

static void close_probe(struct probe *probe)
{
	bpf_link__destroy(probe->link);
	free(probe->path);
}

static int identify_file(struct probe *probe)
{
	struct stat info;

	if (stat(probe->path, &info))
		return -errno;
	probe->device = info.st_dev;
	probe->inode = info.st_ino;
	return 0;
}

static bool find_same(const struct probes *probes, const struct probe *wanted, uint32_t *attachment)
{
	const struct probe *probe;

	vec_for_each(probe, &probes->list) {
		if (probe->pid != wanted->pid || probe->trigger != wanted->trigger ||
		    probe->offset != wanted->offset || probe->device != wanted->device ||
		    probe->inode != wanted->inode || !probe->link)
			continue;
		*attachment = probe->attachment;
		return true;
	}
	return false;
}

int probes_add(struct probes *probes, const struct probe *probe, const pid_t *tids, size_t n_tids,
	       uint32_t *attachment)
{
	struct probe fresh = *probe;
	int err;

	err = identify_file(&fresh);
	if (err)
		return err;
	if (find_same(probes, &fresh, attachment))
		return 0;
	fresh.attachment = probes->next_attachment;
	fresh.path = strdup(probe->path);
	if (!fresh.path)
		return -ENOMEM;
	err = open_on_first(probes->program, &fresh, tids, n_tids);
	if (!err)
		err = vec_push(&probes->list, fresh);
	if (err) {
		close_probe(&fresh);
		return err;
	}
	probes->next_attachment++;
	*attachment = fresh.attachment;
	return 0;
}

void probes_rename(struct probes *probes, pid_t old_tid, pid_t tid)
{
	struct probe *probe;

	vec_for_each(probe, &probes->list) {
		if (probe->tid == old_tid)
			probe->tid = tid;
	}
}

bool probes_on_thread(const struct probes *probes, pid_t tid)
{
	const struct probe *probe;

	vec_for_each(probe, &probes->list) {
		if (probe->tid == tid && probe->link)
			return true;
	}
	return false;
}

void probes_move(struct probes *probes, pid_t tid, const pid_t *tids, size_t n_tids)
{
	struct probe *probe;

	vec_for_each(probe, &probes->list) {
		struct bpf_link *const dead = probe->link;

		if (probe->tid != tid || !dead)
			continue;
		probe->link = NULL;
		open_on_first(probes->program, probe, tids, n_tids);
		bpf_link__destroy(dead);
	}
}

void probes_close(struct probes *probes, pid_t pid)
{
	size_t kept = 0;

	for (size_t i = 0; i < probes->list.len; i++) {
		if (pid && probes->list.data[i].pid != pid)
			probes->list.data[kept++] = probes->list.data[i];
		else
			close_probe(&probes->list.data[i]);
	}
	probes->list.len = kept;
	if (!pid)
		vec_free(&probes->list);
}
