/* SPDX-License-Identifier: GPL-2.0-only */
/* Writes protocol buffers' wire format, as much as a Perfetto trace needs. */
#ifndef PTBPF_OUTPUT_PROTO_H
#define PTBPF_OUTPUT_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

#define PROTO_DEPTH 8

/* A message being built. Zeroed is empty; a failed allocation sets @failed and drops the rest. */
struct proto {
	VEC(uint8_t) bytes;
	size_t open[PROTO_DEPTH]; /* where the lengths of nested messages stand */
	unsigned int depth;
	bool failed;
};

void proto_uint(struct proto *proto, uint32_t field, uint64_t value);
void proto_bytes(struct proto *proto, uint32_t field, const char *data, size_t size);
/* A nested message; begin and end pair up, at most PROTO_DEPTH deep. */
void proto_begin(struct proto *proto, uint32_t field);
void proto_end(struct proto *proto);
void proto_clear(struct proto *proto);
void proto_fini(struct proto *proto);

#endif
