// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: snapshot/recording
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>

#include "snapshot/recording.h"

static struct recording_event comm_at(uint64_t time_ns, pid_t tid)
{
	return (struct recording_event){ .kind = RECORDING_COMM, .time_ns = time_ns, .tid = tid };
}

TEST(sort_orders_by_time_and_keeps_equal_times_in_order)
{
	struct recording recording = { 0 };
	unsigned int seed = 7;

	for (int i = 0; i < 1000; i++) {
		struct recording_event event;

		seed = seed * 1103515245u + 12345u;
		event = comm_at((seed >> 16) % 50, i);
		CHECK_EQ(recording_add_event(&recording, &event), 0);
	}
	CHECK_EQ(recording_sort(&recording), 0);
	CHECK_EQ(recording.events.len, 1000);
	for (size_t i = 1; i < recording.events.len; i++) {
		const struct recording_event *a = &recording.events.data[i - 1];
		const struct recording_event *b = &recording.events.data[i];

		CHECK(a->time_ns < b->time_ns || (a->time_ns == b->time_ns && a->tid < b->tid));
	}
	recording_fini(&recording);
}

TEST(sort_of_none_and_one)
{
	struct recording recording = { 0 };
	const struct recording_event event = comm_at(5, 1);

	CHECK_EQ(recording_sort(&recording), 0);
	CHECK_EQ(recording_add_event(&recording, &event), 0);
	CHECK_EQ(recording_sort(&recording), 0);
	CHECK_EQ(recording.events.data[0].tid, 1);
	recording_fini(&recording);
}

TEST(fini_frees_what_is_owned_and_nothing_borrowed)
{
	struct recording recording = { 0 };
	struct recording_event map = { .kind = RECORDING_MAP };
	static uint8_t borrowed[4];
	struct recording_chunk heap = { .data = calloc(1, 8), .size = 8 };
	const struct recording_chunk lent = { .data = borrowed, .size = 4, .borrowed = true };

	map.map.path = strdup("/bin/true");
	CHECK_EQ(recording_add_event(&recording, &map), 0);
	CHECK_EQ(recording_add_chunk(&recording, &heap), 0);
	CHECK_EQ(recording_add_chunk(&recording, &lent), 0);
	recording_fini(&recording);
	CHECK_EQ(recording.events.len, 0);
	CHECK_EQ(recording.chunks.len, 0);
}

TEST(map_file_gives_the_bytes_and_refuses_what_is_no_file)
{
	struct recording recording = { 0 };
	char path[] = "/tmp/ptbpf-recording.XXXXXX";
	const int fd = mkstemp(path);
	const int dir = open("/tmp", O_RDONLY);
	uint8_t *start;
	uint64_t size;

	CHECK(fd >= 0 && dir >= 0);
	CHECK_EQ(recording_map_file(&recording, fd, &start, &size), 0);
	CHECK(!start && size == 0);
	CHECK_EQ(write(fd, "hello", 5), 5);
	CHECK_EQ(recording_map_file(&recording, fd, &start, &size), 0);
	CHECK_EQ(size, 5);
	CHECK(!memcmp(start, "hello", 5));
	CHECK_EQ(recording_map_file(&recording, dir, &start, &size), -EINVAL);
	CHECK_EQ(recording_map_file(&recording, -1, &start, &size), -EBADF);
	recording_fini(&recording);
	unlink(path);
	close(fd);
	close(dir);
}

UNIT_MAIN("unit/recording")
