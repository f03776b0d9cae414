// SPDX-License-Identifier: GPL-2.0-only
#include "output/formats.h"

#include <string.h>

static const struct output_format *const formats[] = {
	&output_perfetto, &output_fxt, &output_text, &output_json, NULL,
};

const struct output_format *output_format_find(const char *name)
{
	for (const struct output_format *const *it = formats; *it; it++) {
		if (!strcmp((*it)->name, name))
			return *it;
	}
	return NULL;
}

const struct output_format *const *output_formats(void)
{
	return formats;
}
