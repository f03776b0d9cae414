// SPDX-License-Identifier: GPL-2.0-only
#include "output/proto.h"

#include <string.h>

#define WIRE_VARINT 0u
#define WIRE_BYTES 2u

static void put(struct proto *proto, const void *data, size_t size)
{
	if (proto->failed || vec_reserve(&proto->bytes, size)) {
		proto->failed = true;
		return;
	}
	memcpy(proto->bytes.data + proto->bytes.len, data, size);
	proto->bytes.len += size;
}

static void put_varint(struct proto *proto, uint64_t value)
{
	uint8_t bytes[10];
	size_t n = 0;

	for (; value >= 0x80; value >>= 7)
		bytes[n++] = (uint8_t)(value | 0x80);
	bytes[n++] = (uint8_t)value;
	put(proto, bytes, n);
}

void proto_uint(struct proto *proto, uint32_t field, uint64_t value)
{
	put_varint(proto, (uint64_t)field << 3 | WIRE_VARINT);
	put_varint(proto, value);
}

void proto_bytes(struct proto *proto, uint32_t field, const char *data, size_t size)
{
	put_varint(proto, (uint64_t)field << 3 | WIRE_BYTES);
	put_varint(proto, size);
	put(proto, data, size);
}

void proto_begin(struct proto *proto, uint32_t field)
{
	put_varint(proto, (uint64_t)field << 3 | WIRE_BYTES);
	proto->open[proto->depth++ % PROTO_DEPTH] = proto->bytes.len;
}

/* The length goes in front, as short as it can be: messages are small, moving them is cheap. */
void proto_end(struct proto *proto)
{
	const size_t begin = proto->open[--proto->depth % PROTO_DEPTH];
	const size_t size = proto->bytes.len - begin;
	const size_t before = proto->bytes.len;
	uint8_t length[10];
	size_t n;

	put_varint(proto, size);
	if (proto->failed)
		return;
	n = proto->bytes.len - before;
	memcpy(length, proto->bytes.data + before, n);
	memmove(proto->bytes.data + begin + n, proto->bytes.data + begin, size);
	memcpy(proto->bytes.data + begin, length, n);
}

void proto_clear(struct proto *proto)
{
	proto->bytes.len = 0;
	proto->depth = 0;
}

void proto_fini(struct proto *proto)
{
	vec_free(&proto->bytes);
	proto->depth = 0;
}
