// SPDX-License-Identifier: GPL-2.0-only
#include "record/aux_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/size.h"

#define SPOOL_BUFFER (256u * 1024)

static int map_fd(int fd, uint64_t size, struct aux_ring *ring)
{
	void *base = mmap(NULL, AUX_RING_HEADER + size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	if (base == MAP_FAILED)
		return -errno;
	ring->fd = fd;
	ring->size = size;
	ring->header = base;
	ring->data = (uint8_t *)base + AUX_RING_HEADER;
	ring->spool_fd = -1;
	return 0;
}

int aux_ring_new(uint64_t size, struct aux_ring *ring)
{
	scoped_fd int fd = -1;
	int err;

	if (!size_is_pow2(size) || size < 4096 || size > 1ull << 48)
		return -EINVAL;
	fd = memfd_create("ptbpf-aux", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* Reserved now: a ring that meets a full memory later would kill the writer by SIGBUS. */
	err = fallocate(fd, 0, 0, (off_t)(AUX_RING_HEADER + size));
	if (err)
		return -errno;
	err = map_fd(fd, size, ring);
	if (err)
		return err;
	ring->header->size = size;
	TAKE_FD(fd);
	return 0;
}

int aux_ring_new_spool(int spool_fd, struct aux_ring *ring)
{
	int err = aux_ring_new(SPOOL_BUFFER, ring);

	if (!err)
		ring->spool_fd = spool_fd;
	return err;
}

int aux_ring_map(int fd, struct aux_ring *ring)
{
	struct stat st;
	uint64_t size;
	int err;

	if (fstat(fd, &st))
		return -errno;
	if (st.st_size <= (off_t)AUX_RING_HEADER)
		return -EINVAL;
	size = (uint64_t)st.st_size - AUX_RING_HEADER;
	if (!size_is_pow2(size) || size < 4096)
		return -EINVAL;
	err = map_fd(fd, size, ring);
	if (err)
		return err;
	if (ring->header->size == size)
		return 0;
	munmap(ring->header, AUX_RING_HEADER + size);
	return -EINVAL;
}

void aux_ring_free(struct aux_ring *ring)
{
	if (!ring->header)
		return;
	munmap(ring->header, AUX_RING_HEADER + ring->size);
	close(ring->fd);
	if (ring->spool_fd >= 0)
		close(ring->spool_fd);
	memset(ring, 0, sizeof(*ring));
	ring->fd = ring->spool_fd = -1;
}

/* Whole pages inside [from, to) of the data; a file system that cannot leaves them. */
static void punch(const struct aux_ring *ring, uint64_t from, uint64_t to)
{
	const uint64_t page = 4096, begin = (from + page - 1) & ~(page - 1), end = to & ~(page - 1);

	if (begin < end && fallocate(ring->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				     (off_t)(AUX_RING_HEADER + begin), (off_t)(end - begin)))
		return;
}

void aux_ring_discard(struct aux_ring *ring, uint64_t keep)
{
	const uint64_t end = ring->header->head & (ring->size - 1);
	const uint64_t begin = (end - keep) & (ring->size - 1);

	if (keep >= ring->size || ring->spool_fd >= 0)
		return;
	if (!keep) {
		punch(ring, 0, ring->size);
	} else if (begin < end) {
		punch(ring, 0, begin);
		punch(ring, end, ring->size);
	} else {
		punch(ring, end, begin);
	}
}

static void copy_in(struct aux_ring *ring, uint64_t head, const uint8_t *bytes, size_t n)
{
	const uint64_t at = head & (ring->size - 1);
	const size_t first = n < ring->size - at ? n : (size_t)(ring->size - at);

	memcpy(ring->data + at, bytes, first);
	memcpy(ring->data, bytes + first, n - first);
}

int aux_ring_flush(struct aux_ring *ring)
{
	struct aux_ring_header *header = ring->header;

	if (ring->spool_fd < 0)
		return 0;
	while (header->spooled < header->head && !header->write_error) {
		const uint64_t at = header->spooled & (ring->size - 1);
		uint64_t n = header->head - header->spooled;
		ssize_t done;

		if (n > ring->size - at)
			n = ring->size - at;
		done = write(ring->spool_fd, ring->data + at, (size_t)n);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			header->write_error = done < 0 ? (uint64_t)errno : ENOSPC;
		else
			header->spooled += (uint64_t)done;
	}
	return -(int)header->write_error;
}

void aux_ring_write(struct aux_ring *ring, const void *bytes, size_t n)
{
	struct aux_ring_header *header = ring->header;
	const uint64_t head = header->head;

	if (ring->spool_fd >= 0) {
		if (head + n - header->spooled > ring->size && aux_ring_flush(ring))
			return; /* output stopped; the session sees write_error */
	}
	copy_in(ring, head, bytes, n);
	__atomic_store_n(&header->head, head + n, __ATOMIC_RELEASE);
}

size_t aux_ring_read(const struct aux_ring *ring, uint64_t max, uint8_t *out, bool *wrapped)
{
	const uint64_t head = __atomic_load_n(&ring->header->head, __ATOMIC_ACQUIRE);
	uint64_t n = head < ring->size ? head : ring->size;
	uint64_t at;
	size_t first;

	if (n > max)
		n = max;
	*wrapped = n < head;
	at = (head - n) & (ring->size - 1);
	first = n < ring->size - at ? (size_t)n : (size_t)(ring->size - at);
	memcpy(out, ring->data + at, first);
	memcpy(out + first, ring->data, (size_t)n - first);
	return (size_t)n;
}
