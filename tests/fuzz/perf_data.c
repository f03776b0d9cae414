// SPDX-License-Identifier: GPL-2.0-only
/*
 * Any bytes as a perf.data file.
 *
 * links: snapshot/recording snapshot/perf_data_read snapshot/perf_records snapshot/perf_chunks
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "snapshot/perf_data.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a reader of a recording relies on. */
static void check(const struct recording *recording)
{
	const struct recording_event *event;
	const struct recording_chunk *chunk;
	volatile uint8_t sum = 0;
	uint64_t before = 0;

	vec_for_each(event, &recording->events) {
		if (event->time_ns < before || (event->kind == RECORDING_MAP && !event->map.path) ||
		    (event->kind == RECORDING_COMM && !memchr(event->comm.name, 0, 16)))
			abort();
		before = event->time_ns;
	}
	vec_for_each(chunk, &recording->chunks) {
		for (uint64_t i = 0; i < chunk->size; i++)
			sum ^= chunk->data[i];
	}
	if (recording->clock.shift > 63)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct recording recording;
	bool truncated;
	char path[64], why[256] = "";
	const int fd = memfd_create("fuzz", 0);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		abort();
	if (perf_data_read(path, &recording, &truncated, why, sizeof(why)) == 0)
		check(&recording);
	else if (!why[0])
		abort();
	recording_fini(&recording);
	close(fd);
	return 0;
}
