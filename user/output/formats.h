/* SPDX-License-Identifier: GPL-2.0-only */
/* The formats themselves; everyone else finds them by name. */
#ifndef PTBPF_OUTPUT_FORMATS_H
#define PTBPF_OUTPUT_FORMATS_H

#include "output/output.h"

extern const struct output_format output_perfetto;
extern const struct output_format output_fxt;
extern const struct output_format output_text;
extern const struct output_format output_json;

#endif
