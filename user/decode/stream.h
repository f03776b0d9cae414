/* SPDX-License-Identifier: GPL-2.0-only */
/* Branch events on their way out: batched, counted, in order of time. Internal to decode/. */
#ifndef PTBPF_DECODE_STREAM_H
#define PTBPF_DECODE_STREAM_H

#include "decode/decode.h"

#define STREAM_BATCH 256

struct stream {
	branch_fn fn;
	void *ctx;
	struct decode_thread_stats stats;
	int err; /* fn's; nothing is sent after it */
	uint64_t last_ns;
	size_t n;
	struct branch batch[STREAM_BATCH];
};

/* Takes the event; its time is moved up to the last one's if it is earlier. */
void stream_push(struct stream *stream, const struct branch *branch);
/* Sends what is left. fn's result or 0. */
int stream_flush(struct stream *stream);

#endif
