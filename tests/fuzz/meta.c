// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any bytes as a snapshot.json; what is read can be written and is then read again.
 *
 * links: snapshot/meta snapshot/meta_read snapshot/meta_write snapshot/sink
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "snapshot/meta.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* /dev/shm: a name is needed to replace, and no disk. */
static void write_and_read(const struct meta *meta)
{
	struct meta again;
	char name[64], why[256];
	const int dir_fd = open("/dev/shm", O_RDONLY | O_DIRECTORY);

	snprintf(name, sizeof(name), "ptbpf-fuzz-%d.json", getpid());
	if (dir_fd < 0 || meta_write(dir_fd, name, meta) ||
	    meta_read(dir_fd, name, &again, why, sizeof(why)))
		abort();
	if (again.threads.len != meta->threads.len || again.counts.len != meta->counts.len ||
	    again.warnings.len != meta->warnings.len || again.trigger.ip != meta->trigger.ip)
		abort();
	unlinkat(dir_fd, name, 0);
	close(dir_fd);
	meta_fini(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct meta meta;
	char path[64], why[256] = "";
	const int fd = memfd_create("fuzz", 0);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	if (meta_read(AT_FDCWD, path, &meta, why, sizeof(why)) == 0)
		write_and_read(&meta);
	else if (!why[0])
		abort();
	meta_fini(&meta);
	close(fd);
	return 0;
}
