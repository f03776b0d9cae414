/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A growable array of one type. struct { T *data; size_t len, cap; } declared by VEC(T); zeroed is
 * empty. Elements move when it grows: keep indices, not pointers.
 */
#ifndef PTBPF_BASE_VEC_H
#define PTBPF_BASE_VEC_H

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#define VEC(type)                \
	struct {                 \
		type *data;      \
		size_t len, cap; \
	}

/* Room for @more further elements: 0 or -ENOMEM; on failure the array is unchanged. */
#define vec_reserve(v, more) \
	vec_grow((void **)&(v)->data, &(v)->cap, (v)->len, (more), sizeof(*(v)->data))

/* Appends @item: 0 or -ENOMEM. */
#define vec_push(v, item)                               \
	({                                              \
		int vec_err_ = vec_reserve((v), 1);     \
		if (!vec_err_)                          \
			(v)->data[(v)->len++] = (item); \
		vec_err_;                               \
	})

#define vec_for_each(it, v) for (it = (v)->data; it < (v)->data + (v)->len; it++)

#define vec_free(v)                      \
	do {                             \
		free((v)->data);         \
		(v)->data = NULL;        \
		(v)->len = (v)->cap = 0; \
	} while (0)

static inline int vec_grow(void **data, size_t *cap, size_t len, size_t more, size_t elem_size)
{
	size_t want, new_cap = *cap ? *cap : 8, bytes;
	void *grown;

	if (__builtin_add_overflow(len, more, &want))
		return -ENOMEM;
	if (want <= *cap)
		return 0;
	while (new_cap < want) {
		if (__builtin_mul_overflow(new_cap, (size_t)2, &new_cap))
			return -ENOMEM;
	}
	if (__builtin_mul_overflow(new_cap, elem_size, &bytes))
		return -ENOMEM;
	grown = realloc(*data, bytes);
	if (!grown)
		return -ENOMEM;
	*data = grown;
	*cap = new_cap;
	return 0;
}

#endif
