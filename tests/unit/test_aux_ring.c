// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: record/aux_ring base/size
 */
#include "unit.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "record/aux_ring.h"

static void fill(uint8_t *bytes, size_t n, uint64_t from)
{
	for (size_t i = 0; i < n; i++)
		bytes[i] = (uint8_t)((from + i) * 167 + ((from + i) >> 8));
}

static void write_stream(struct aux_ring *ring, uint64_t total, unsigned int seed)
{
	uint8_t bytes[777];

	for (uint64_t done = 0; done < total;) {
		size_t n = (size_t)rand_r(&seed) % sizeof(bytes) + 1;

		if (n > total - done)
			n = (size_t)(total - done);
		fill(bytes, n, done);
		aux_ring_write(ring, bytes, n);
		done += n;
	}
}

static void check_newest(const struct aux_ring *ring, uint64_t total, uint64_t max)
{
	uint8_t *out = malloc(ring->size), *want = malloc(ring->size);
	bool wrapped;
	const size_t n = aux_ring_read(ring, max, out, &wrapped);
	const uint64_t expect = total < ring->size ? total : ring->size;

	CHECK_EQ(n, expect < max ? expect : max);
	CHECK_EQ(wrapped, n < total);
	fill(want, n, total - n);
	CHECK(!memcmp(out, want, n));
	free(out);
	free(want);
}

TEST(keeps_the_newest_bytes_in_order)
{
	const uint64_t totals[] = { 0, 1, 4095, 4096, 16383, 16384, 16385, 100000 };

	for (size_t i = 0; i < sizeof(totals) / sizeof(*totals); i++) {
		struct aux_ring ring;

		CHECK_EQ(aux_ring_new(16384, &ring), 0);
		write_stream(&ring, totals[i], (unsigned int)i + 1);
		CHECK_EQ(ring.header->head, totals[i]);
		check_newest(&ring, totals[i], UINT64_MAX);
		check_newest(&ring, totals[i], 1000);
		aux_ring_free(&ring);
	}
}

TEST(another_mapping_sees_what_was_written)
{
	struct aux_ring ring, other;

	CHECK_EQ(aux_ring_new(8192, &ring), 0);
	write_stream(&ring, 20000, 3);
	CHECK_EQ(aux_ring_map(dup(ring.fd), &other), 0);
	check_newest(&other, 20000, UINT64_MAX);
	write_stream(&other, 0, 1);
	aux_ring_free(&other);
	aux_ring_free(&ring);
}

TEST(refuses_sizes_that_are_no_power_of_two)
{
	struct aux_ring ring;

	CHECK_EQ(aux_ring_new(0, &ring), -EINVAL);
	CHECK_EQ(aux_ring_new(4095, &ring), -EINVAL);
	CHECK_EQ(aux_ring_new(12288, &ring), -EINVAL);
	CHECK(aux_ring_new(1ull << 49, &ring) < 0);
}

TEST(refuses_a_file_that_is_no_ring)
{
	struct aux_ring ring;
	int fd = memfd_create("no-ring", 0);

	CHECK_EQ(aux_ring_map(fd, &ring), -EINVAL);
	CHECK_EQ(ftruncate(fd, AUX_RING_HEADER + 8192), 0);
	CHECK_EQ(aux_ring_map(fd, &ring), -EINVAL); /* its header names no size */
	CHECK_EQ(ftruncate(fd, AUX_RING_HEADER + 5000), 0);
	CHECK_EQ(aux_ring_map(fd, &ring), -EINVAL);
	CHECK_EQ(aux_ring_map(-1, &ring), -EBADF);
	close(fd);
}

TEST(a_spool_keeps_every_byte)
{
	char path[] = "/tmp/ptbpf-spool.XXXXXX";
	const int fd = mkstemp(path), keep = dup(fd);
	const uint64_t total = 3000000;
	struct aux_ring ring;
	uint8_t *got = malloc(total), *want = malloc(total);

	CHECK_EQ(aux_ring_new_spool(fd, &ring), 0);
	write_stream(&ring, total, 9);
	CHECK_EQ(aux_ring_flush(&ring), 0);
	CHECK_EQ(ring.header->spooled, total);
	CHECK_EQ(pread(keep, got, total, 0), total);
	fill(want, total, 0);
	CHECK(!memcmp(got, want, total));
	aux_ring_free(&ring);
	unlink(path);
	free(got);
	free(want);
}

TEST(a_full_disk_stops_the_spool_and_is_told)
{
	struct aux_ring ring;

	CHECK_EQ(aux_ring_new_spool(open("/dev/full", O_WRONLY), &ring), 0);
	write_stream(&ring, 1000000, 4);
	CHECK_EQ(aux_ring_flush(&ring), -ENOSPC);
	CHECK_EQ(ring.header->write_error, ENOSPC);
	CHECK_EQ(ring.header->spooled, 0);
	aux_ring_free(&ring);
}

UNIT_MAIN("unit/aux_ring")
