/* SPDX-License-Identifier: GPL-2.0-only */
/* A buffered file being written. The first error sticks; what follows it is dropped. */
#ifndef PTBPF_SNAPSHOT_SINK_H
#define PTBPF_SNAPSHOT_SINK_H

#include <stddef.h>
#include <stdint.h>

struct sink {
	int fd;
	int err;         /* 0 or -errno of the first failure */
	uint64_t offset; /* of the next byte */
	size_t used;
	uint8_t buf[1 << 16];
};

void sink_init(struct sink *sink, int fd);
void sink_write(struct sink *sink, const void *data, size_t size);
/* Zero bytes up to the next multiple of @alignment, a power of two up to the maximum. */
#define SINK_MAX_ALIGNMENT 4096
void sink_align(struct sink *sink, size_t alignment);
/* 0 or the first error. */
int sink_flush(struct sink *sink);

#endif
