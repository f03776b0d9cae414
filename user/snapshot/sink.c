// SPDX-License-Identifier: GPL-2.0-only
#include "snapshot/sink.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

void sink_init(struct sink *sink, int fd)
{
	sink->fd = fd;
	sink->err = 0;
	sink->offset = 0;
	sink->used = 0;
}

static void write_all(struct sink *sink, const uint8_t *data, size_t size)
{
	while (size && !sink->err) {
		const ssize_t n = write(sink->fd, data, size);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			sink->err = -errno;
			return;
		}
		data += n;
		size -= (size_t)n;
	}
}

int sink_flush(struct sink *sink)
{
	write_all(sink, sink->buf, sink->used);
	sink->used = 0;
	return sink->err;
}

void sink_write(struct sink *sink, const void *data, size_t size)
{
	sink->offset += size;
	if (size > sizeof(sink->buf) - sink->used)
		sink_flush(sink);
	if (size > sizeof(sink->buf)) {
		write_all(sink, data, size);
	} else if (size) {
		memcpy(sink->buf + sink->used, data, size);
		sink->used += size;
	}
}

void sink_align(struct sink *sink, size_t alignment)
{
	static const uint8_t zeros[SINK_MAX_ALIGNMENT];

	sink_write(sink, zeros, (size_t)(-sink->offset & (alignment - 1)));
}
