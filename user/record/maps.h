/* SPDX-License-Identifier: GPL-2.0-only */
/* /proc/PID/maps as data. */
#ifndef PTBPF_RECORD_MAPS_H
#define PTBPF_RECORD_MAPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/vec.h"

struct maps_entry {
	uint64_t start, end, pgoff, ino;
	uint32_t prot, flags; /* PROT_*, MAP_PRIVATE or MAP_SHARED */
	uint32_t maj, min;
	char *path;   /* without " (deleted)"; "" for anonymous memory */
	bool deleted; /* the file has no name any more */
};

typedef VEC(struct maps_entry) maps_entries;

/* Parses the text of a maps file; lines that do not fit its form are left out. 0, -ENOMEM. */
int maps_parse(const char *text, maps_entries *entries);
/* 0, -ENOENT or -ESRCH when @pid is gone, -ENOMEM, other -errno. */
int maps_read(pid_t pid, maps_entries *entries);
void maps_fini(maps_entries *entries);

/* Code that is in no file: its bytes must be saved from memory ("[vdso]" included). */
bool maps_is_unbacked(const struct maps_entry *entry);
/* Pages that hold no code of the target: [uprobes], [vsyscall], [vvar]. */
bool maps_is_special(const struct maps_entry *entry);

#endif
