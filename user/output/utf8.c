// SPDX-License-Identifier: GPL-2.0-only
#include "output/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/mem.h"

static bool continues(char byte)
{
	return ((uint8_t)byte & 0xc0) == 0x80;
}

size_t utf8_length(const char *text, size_t size)
{
	/* The smallest value that needs so many bytes: longer forms are invalid. */
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const uint8_t first = size ? (uint8_t)*text : 0;
	size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
	uint32_t value = first & (0xffu >> (length + 1));

	if (!size)
		return 0;
	if (first < 0x80)
		return 1;
	if (length == 1 || first >= 0xf8 || length > size)
		return 0;
	for (size_t i = 1; i < length; i++) {
		if (!continues(text[i]))
			return 0;
		value = value << 6 | ((uint8_t)text[i] & 0x3f);
	}
	if (value < smallest[length] || value > 0x10ffff || (value >= 0xd800 && value < 0xe000))
		return 0;
	return length;
}

size_t utf8_clean(const char *text, char *out, size_t out_size)
{
	const size_t size = strlen(text);
	size_t written = 0, cut = 0;

	for (size_t at = 0; at < size;) {
		size_t length = utf8_length(text + at, size - at);
		const char *from = text + at;

		at += length ? length : 1;
		if (!length) {
			from = UTF8_REPLACEMENT;
			length = strlen(UTF8_REPLACEMENT);
		} else if (length == 1 && ((uint8_t)*from < 0x20 || *from == 0x7f)) {
			from = " ";
		}
		if (written + length >= out_size) {
			memcpy(out + cut, "...", 3);
			written = cut + 3;
			break;
		}
		memcpy(out + written, from, length);
		written += length;
		if (written + 3 < out_size)
			cut = written;
	}
	out[written] = '\0';
	return written;
}
