/* SPDX-License-Identifier: GPL-2.0-only */
/* Recorded paths -> opened objects, each once; what cannot be had is listed. Internal to image/. */
#ifndef PTBPF_IMAGE_FILES_H
#define PTBPF_IMAGE_FILES_H

#include "base/vec.h"
#include "image/object.h"
#include "image/space.h"

#define FILE_BUCKETS 1024

struct file_entry {
	struct file_entry *next; /* in its bucket */
	char *path;              /* as recorded */
	uint8_t build_id[64];
	size_t build_id_size;
	struct object *object; /* NULL: see reason */
	char *reason;
	uint32_t index; /* in files.entries */
};

struct files {
	char *snapshot_dir, *symfs; /* or NULL */
	VEC(struct file_entry *) entries;
	struct file_entry *buckets[FILE_BUCKETS]; /* by path */
};

int files_init(struct files *files, const struct space_options *options);
void files_fini(struct files *files);

/* The entry of (path, build-id), new or known; nothing is opened yet. 0, -ENOMEM. */
int files_add(struct files *files, const char *path, const uint8_t *build_id, size_t build_id_size,
	      struct file_entry **entry);
/* Opens all. 0, -ENOMEM. */
int files_open(struct files *files);

#endif
