/* SPDX-License-Identifier: GPL-2.0-only */
/* Names come from symbol tables and may hold any bytes; viewers want UTF-8. Pure. */
#ifndef PTBPF_OUTPUT_UTF8_H
#define PTBPF_OUTPUT_UTF8_H

#include <stddef.h>

#define UTF8_REPLACEMENT "\xef\xbf\xbd"

/* Length of the valid UTF-8 character at @text (1 to 4), or 0: its first byte begins none. */
size_t utf8_length(const char *text, size_t size);

/*
 * Copies @text as valid UTF-8 into @out, NUL-terminated: what is invalid becomes U+FFFD, control
 * characters become a space. Cuts at a character; with "..." at the end when it had to. The length
 * written.
 */
size_t utf8_clean(const char *text, char *out, size_t out_size);

#endif
