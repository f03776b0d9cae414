/* SPDX-License-Identifier: GPL-2.0-only */
/* Scope-bound ownership: a resource is released when its variable leaves scope, unless taken. */
#ifndef PTBPF_BASE_MEM_H
#define PTBPF_BASE_MEM_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* scoped_free char *name = strdup(x); */
#define scoped_free __attribute__((cleanup(mem_free_ptr)))
/* scoped_fd int fd = open(...); a negative value is left alone */
#define scoped_fd __attribute__((cleanup(mem_close_fd)))
/* scoped_file FILE *f = fopen(...); */
#define scoped_file __attribute__((cleanup(mem_close_file)))
/* scoped(session_free) struct session *s: fn takes a pointer to the variable */
#define scoped(fn) __attribute__((cleanup(fn)))

/* Hands the value over and leaves the scoped variable empty. */
#define TAKE_PTR(p)                         \
	({                                  \
		__typeof__(p) taken_ = (p); \
		(p) = NULL;                 \
		taken_;                     \
	})
#define TAKE_FD(fd)                \
	({                         \
		int taken_ = (fd); \
		(fd) = -1;         \
		taken_;            \
	})

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))

static inline void mem_free_ptr(void *p)
{
	free(*(void **)p);
}

static inline void mem_close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
}

static inline void mem_close_file(FILE **file)
{
	if (*file)
		fclose(*file);
}

#endif
