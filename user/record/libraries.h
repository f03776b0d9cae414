/* SPDX-License-Identifier: GPL-2.0-only */
/* Which objects a command would map at start, without running it. */
#ifndef PTBPF_RECORD_LIBRARIES_H
#define PTBPF_RECORD_LIBRARIES_H

#include "base/vec.h"

typedef VEC(char *) library_paths;

/*
 * The program that @command (a path, or a name in $PATH) names, then the libraries that its dynamic
 * linker would load, by the linker's own --list. 0; -ENOENT: no such command; -errno.
 */
int libraries_of(const char *command, library_paths *paths);
void libraries_fini(library_paths *paths);

/* The file that execvp(3) would run. Heap; NULL: none. */
char *command_path(const char *command);

#endif
