// SPDX-License-Identifier: GPL-2.0-only
/*
 * links: record/aux_ring
 */
#include "record/aux_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "unit.h"

#define SIZE 16384u

/* Byte k of the stream. */
static uint8_t byte_at(uint64_t k)
{
	return (uint8_t)(k * 7 + (k >> 8));
}

static void fill(struct aux_ring *ring, uint64_t n)
{
	uint8_t bytes[97];

	while (n) {
		const size_t part = n < sizeof(bytes) ? (size_t)n : sizeof(bytes);

		for (size_t i = 0; i < part; i++)
			bytes[i] = byte_at(ring->header->head + i);
		aux_ring_write(ring, bytes, part);
		n -= part;
	}
}

static void check_newest(const struct aux_ring *ring, uint64_t max, uint64_t expected)
{
	static uint8_t out[SIZE];
	bool wrapped;
	const size_t n = aux_ring_read(ring, max, out, &wrapped);

	CHECK_EQ(n, expected);
	CHECK_EQ(wrapped, n < ring->header->head);
	for (size_t i = 0; i < n; i++)
		CHECK_EQ(out[i], byte_at(ring->header->head - n + i));
}

TEST(keeps_the_newest_bytes)
{
	struct aux_ring ring;

	CHECK_EQ(aux_ring_new(SIZE, &ring), 0);
	fill(&ring, 1000);
	check_newest(&ring, SIZE, 1000);
	fill(&ring, SIZE + 333);
	check_newest(&ring, SIZE, SIZE);
	check_newest(&ring, 100, 100);
	aux_ring_free(&ring);
}

TEST(both_sides_see_one_memory)
{
	struct aux_ring ring, other;

	CHECK_EQ(aux_ring_new(SIZE, &ring), 0);
	CHECK_EQ(aux_ring_map(dup(ring.fd), &other), 0);
	fill(&other, 5000);
	check_newest(&ring, SIZE, 5000);
	aux_ring_free(&other);
	aux_ring_free(&ring);
}

TEST(refuses_what_is_no_ring)
{
	struct aux_ring ring;
	int fd = open("/dev/null", O_RDWR);

	CHECK_EQ(aux_ring_new(5000, &ring), -EINVAL);
	CHECK_EQ(aux_ring_new(1024, &ring), -EINVAL);
	CHECK_EQ(aux_ring_map(fd, &ring), -EINVAL);
}

/* Memory of a copy of the newest bytes and of the rest of the ring: never more than the ring had.
 */
TEST(discard_frees_all_but_the_newest)
{
	static const uint64_t heads[] = { 100, SIZE / 2, SIZE, SIZE + 100, 3 * SIZE - 4096 };

	for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
		struct aux_ring ring;
		struct stat st;
		uint64_t keep = SIZE / 4;

		CHECK_EQ(aux_ring_new(SIZE, &ring), 0);
		fill(&ring, heads[i]);
		aux_ring_discard(&ring, keep);
		check_newest(&ring, keep, keep < heads[i] ? keep : heads[i]);
		CHECK_EQ(fstat(ring.fd, &st), 0);
		CHECK((uint64_t)st.st_blocks * 512 <= AUX_RING_HEADER + keep + 2 * 4096);
		aux_ring_free(&ring);
	}
}

TEST(spool_gets_every_byte_in_order)
{
	char name[] = "/tmp/ptbpf-spool.XXXXXX";
	const int fd = mkstemp(name);
	const uint64_t size = 3000000;
	struct aux_ring ring;
	uint8_t *bytes = malloc(size);

	unlink(name);
	CHECK_EQ(aux_ring_new_spool(fd, &ring), 0);
	fill(&ring, size);
	CHECK_EQ(aux_ring_flush(&ring), 0);
	CHECK_EQ(ring.header->spooled, size);
	CHECK_EQ(pread(fd, bytes, size, 0), size);
	for (uint64_t k = 0; k < size; k++)
		CHECK_EQ(bytes[k], byte_at(k));
	free(bytes);
	aux_ring_free(&ring);
}

TEST(a_full_disk_is_kept_as_an_error)
{
	struct aux_ring ring;

	CHECK_EQ(aux_ring_new_spool(open("/dev/full", O_RDWR), &ring), 0);
	fill(&ring, 1000);
	CHECK_EQ(aux_ring_flush(&ring), -ENOSPC);
	CHECK_EQ(ring.header->write_error, ENOSPC);
	CHECK_EQ(ring.header->spooled, 0);
	fill(&ring, 1000000);
	aux_ring_free(&ring);
}

UNIT_MAIN("unit/aux_ring")
