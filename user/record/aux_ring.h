/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * One thread's PT bytes in memory shared between the writer (the stepper) and the session: a page
 * of counters, then the data. Overwrite mode: the writer never waits; the newest SIZE bytes are
 * there.
 */
#ifndef PTBPF_RECORD_AUX_RING_H
#define PTBPF_RECORD_AUX_RING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define AUX_RING_HEADER 4096u

struct aux_ring_header {
	uint64_t head;         /* bytes ever written; byte k is at data[k % size] */
	uint64_t size;         /* power of two */
	uint64_t instructions; /* executed while tracing into this ring */
	uint64_t branches;
	uint64_t stops;       /* of the stepper */
	uint64_t psb_head;    /* head just after the newest complete PSB+ */
	uint64_t write_error; /* spool: errno of the first failed write, 0 */
	uint64_t spooled;     /* spool: bytes that the file has */
};

struct aux_ring {
	int fd; /* memfd: AUX_RING_HEADER + size bytes */
	uint64_t size;
	struct aux_ring_header *header;
	uint8_t *data;
	int spool_fd; /* -1, or the file that gets every byte (--full-execution): data is then a
			 buffer */
};

/* A new zeroed ring of @size bytes (a power of two of pages). 0 or -errno. */
int aux_ring_new(uint64_t size, struct aux_ring *ring);
/*
 * --full-execution: nothing is overwritten. The ring's data is the writer's buffer, appended to the
 * file @spool_fd (which the ring then owns) whenever it is full and at aux_ring_flush(). Both fds
 * go to the writer. A failed write sets write_error and stops further output.
 */
int aux_ring_new_spool(int spool_fd, struct aux_ring *ring);
int aux_ring_flush(struct aux_ring *ring);
/* Maps the ring behind @fd, which the ring then owns. 0 or -errno; -EINVAL if it is not one. */
int aux_ring_map(int fd, struct aux_ring *ring);
void aux_ring_free(struct aux_ring *ring);

/*
 * Gives back the memory of all but the newest @keep bytes, so that a copy of those and what is left
 * of the ring never take more than the ring did (for keep <= size / 2). The writer is stopped for
 * good; the ring may only be read, @keep bytes at most, and freed.
 */
void aux_ring_discard(struct aux_ring *ring, uint64_t keep);

/* The writer's side: appends @n bytes, n <= size. Publishes head with release order. */
void aux_ring_write(struct aux_ring *ring, const void *bytes, size_t n);

/*
 * The newest min(head, size, max) bytes in order into @out (room for as many). Returns the count;
 * *wrapped tells whether older bytes were lost. The writer must be stopped.
 */
size_t aux_ring_read(const struct aux_ring *ring, uint64_t max, uint8_t *out, bool *wrapped);

#endif
