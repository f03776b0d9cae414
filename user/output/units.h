/* SPDX-License-Identifier: GPL-2.0-only */
/* Times as people read them. Pure. */
#ifndef PTBPF_OUTPUT_UNITS_H
#define PTBPF_OUTPUT_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNITS_SIZE 32

/*
 * Three digits and a unit: "0 ns", "837 ns", "1.24 us", "45.1 ms", "2.03 s", "75.3 s"; with @steps
 * the plain count. @buf of UNITS_SIZE.
 */
const char *units_duration(uint64_t ns, bool steps, char *buf);

/* "1,234,567". */
const char *units_count(uint64_t count, char *buf);

#endif
