// SPDX-License-Identifier: GPL-2.0-only
#include "record/evaluator_probes.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/mem.h"
#include "record/evaluator_keeper.h"

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

static int open_on_first(struct keeper *keeper, struct probe *probe, const pid_t *tids,
			 size_t n_tids)
{
	const uint64_t cookie = (uint64_t)probe->attachment << 32 | probe->trigger;

	for (size_t i = 0; i < n_tids; i++) {
		const int err = keeper_attach(keeper, tids[i], probe->path, probe->offset, cookie,
					      &probe->handle);

		if (!err)
			probe->tid = tids[i];
		if (err != -ESRCH)
			return err;
	}
	return -ESRCH;
}

static void close_probe(struct keeper *keeper, struct probe *probe)
{
	if (probe->handle)
		keeper_detach(keeper, probe->handle);
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
		    probe->inode != wanted->inode || !probe->handle)
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
	err = open_on_first(probes->keeper, &fresh, tids, n_tids);
	if (!err)
		err = vec_push(&probes->list, fresh);
	if (err) {
		close_probe(probes->keeper, &fresh);
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
		if (probe->tid == tid && probe->handle)
			return true;
	}
	return false;
}

void probes_move(struct probes *probes, pid_t tid, const pid_t *tids, size_t n_tids)
{
	struct probe *probe;

	vec_for_each(probe, &probes->list) {
		const uint32_t dead = probe->handle;

		if (probe->tid != tid || !dead)
			continue;
		probe->handle = 0;
		open_on_first(probes->keeper, probe, tids, n_tids);
		keeper_detach(probes->keeper, dead);
	}
}

void probes_close(struct probes *probes, pid_t pid)
{
	size_t kept = 0;

	for (size_t i = 0; i < probes->list.len; i++) {
		if (pid && probes->list.data[i].pid != pid)
			probes->list.data[kept++] = probes->list.data[i];
		else
			close_probe(probes->keeper, &probes->list.data[i]);
	}
	probes->list.len = kept;
	if (!pid)
		vec_free(&probes->list);
}
