// SPDX-License-Identifier: GPL-2.0-only
/*
 * decode_walk INSTRUCTIONS BYTES CODE TRACE: a random program of so many instructions to the file
 * CODE, and so many bytes of a random walk through it to TRACE; the code is at 7f0000401000.
 * links: base/log
 */
#include <stdio.h>
#include <stdlib.h>

#include "walker.h"

static int put(const char *path, const uint8_t *data, size_t size)
{
	FILE *file = fopen(path, "w");

	if (!file || fwrite(data, 1, size, file) != size)
		return 1;
	return fclose(file);
}

int main(int argc, char **argv)
{
	struct walker walker = { .seed = 1,
				 .base = 0x7f0000401000,
				 .psb_period = 4096,
				 .max_bits = 6,
				 .tsc = 1000,
				 .no_events = true };

	if (argc != 5)
		return 2;
	if (!walker_make_program(&walker, strtoul(argv[1], NULL, 0)) ||
	    !walker_walk(&walker, strtoul(argv[2], NULL, 0), 0))
		return 1;
	return put(argv[3], walker.code, walker.code_size) ||
	       put(argv[4], walker.trace, walker.trace_size);
}
