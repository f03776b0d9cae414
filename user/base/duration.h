/* SPDX-License-Identifier: GPL-2.0-only */
/* Lengths of time as people write and read them. */
#ifndef PTBPF_BASE_DURATION_H
#define PTBPF_BASE_DURATION_H

#include <stddef.h>
#include <stdint.h>

/*
 * "500ns", "1.5us", "10ms", "2s", "5m", "1h", with a sign ("-50us", "+1ms"); a bare number is
 * refused except 0. 0; -EINVAL; -ERANGE beyond 63 bits of ns.
 */
int duration_parse(const char *text, int64_t *ns);

/* Three or four digits and a unit: "980ns", "1.50us", "12.3ms", "4.21s". @buf of 32 is enough. */
const char *duration_format(uint64_t ns, char *buf, size_t buf_size);

#endif
