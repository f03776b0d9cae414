/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The session clock is CLOCK_MONOTONIC; PT packets carry TSC. A fit over (TSC, ns) pairs maps one
 * to the other in perf's form: ns = zero + ((tsc >> shift) * mult) + (((tsc & mask) * mult) >>
 * shift), as struct perf_event_mmap_page's time_mult/time_shift/time_zero
 * (include/uapi/linux/perf_event.h).
 */
#ifndef PTBPF_BASE_CLOCK_H
#define PTBPF_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

struct clock_pair {
	uint64_t tsc;
	uint64_t ns;
	uint64_t width_ns; /* the pair is true within this */
};

struct clock_conv {
	uint32_t mult;
	uint16_t shift;
	uint64_t zero;
	uint64_t max_error_ns; /* the largest distance of a pair from the line */
};

uint64_t clock_now_ns(void);
uint64_t clock_tsc(void);

/* The narrowest of a few tries to read both clocks at once. */
struct clock_pair clock_read_pair(void);

/*
 * Least-squares line through the pairs (n >= 1; with one pair, or too short a span, the slope is
 * measured for 10 ms first). 0; -EINVAL for n == 0 or a span that makes no sense.
 */
int clock_fit(const struct clock_pair *pairs, size_t n, struct clock_conv *conv);

uint64_t clock_tsc_to_ns(const struct clock_conv *conv, uint64_t tsc);
/* The inverse; exact to one tick. */
uint64_t clock_ns_to_tsc(const struct clock_conv *conv, uint64_t ns);

#endif
