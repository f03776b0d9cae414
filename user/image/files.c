// SPDX-License-Identifier: GPL-2.0-only
#include "image/files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

#define IMAGES "/images/"

int files_init(struct files *files, const struct space_options *options)
{
	memset(files, 0, sizeof(*files));
	if (options && options->snapshot_dir) {
		files->snapshot_dir = strdup(options->snapshot_dir);
		if (!files->snapshot_dir)
			return -ENOMEM;
	}
	if (options && options->symfs) {
		files->symfs = strdup(options->symfs);
		if (!files->symfs)
			return -ENOMEM;
	}
	return 0;
}

static void free_entry(struct file_entry *entry)
{
	if (!entry)
		return;
	object_close(entry->object);
	free(entry->path);
	free(entry->reason);
	free(entry);
}

void files_fini(struct files *files)
{
	struct file_entry **entry;

	vec_for_each(entry, &files->entries)
		free_entry(*entry);
	vec_free(&files->entries);
	free(files->snapshot_dir);
	free(files->symfs);
}

static size_t bucket_of(const char *path)
{
	size_t hash = 5381;

	while (*path)
		hash = hash * 33 + (unsigned char)*path++;
	return hash % FILE_BUCKETS;
}

int files_add(struct files *files, const char *path, const uint8_t *build_id, size_t build_id_size,
	      struct file_entry **out)
{
	struct file_entry **bucket = &files->buckets[bucket_of(path)], *entry;

	if (build_id_size > sizeof(entry->build_id))
		build_id_size = 0;
	for (entry = *bucket; entry; entry = entry->next) {
		if (entry->build_id_size == build_id_size && !strcmp(entry->path, path) &&
		    (!build_id_size || !memcmp(entry->build_id, build_id, build_id_size))) {
			*out = entry;
			return 0;
		}
	}
	entry = calloc(1, sizeof(*entry));
	if (!entry)
		return -ENOMEM;
	if (build_id_size)
		memcpy(entry->build_id, build_id, build_id_size);
	entry->build_id_size = build_id_size;
	entry->index = (uint32_t)files->entries.len;
	entry->path = strdup(path);
	if (!entry->path || vec_push(&files->entries, entry)) {
		free_entry(entry);
		return -ENOMEM;
	}
	entry->next = *bucket;
	*bucket = entry;
	*out = entry;
	return 0;
}

/* Where the file may lie now; NULL: no memory. */
static char *place_in_snapshot(const struct files *files, const char *path)
{
	const char *name = strrchr(path, '/');
	size_t len = strlen(IMAGES);
	char *place;

	name = name ? name + 1 : path;
	if (!files->snapshot_dir || !*name || (size_t)(name - path) < len ||
	    strncmp(name - len, IMAGES, len))
		return strdup("");
	return asprintf(&place, "%s" IMAGES "%s", files->snapshot_dir, name) < 0 ? NULL : place;
}

/* Opens as ELF, or as plain bytes: other formats' code is mapped from files as well. */
static int open_either(const char *path, struct object **object)
{
	int err = object_open(path, object);

	return err == -ENOEXEC ? object_open_flat(path, object) : err;
}

static int open_entry(const struct files *files, struct file_entry *entry)
{
	scoped_free char *place = place_in_snapshot(files, entry->path), *under = NULL;
	int err;

	if (!place)
		return -ENOMEM;
	err = *place ? open_either(place, &entry->object) : -ENOENT;
	if (err != -ENOENT)
		return err;
	if (entry->path[0] != '/' || entry->path[1] == '/')
		return -ENOENT;
	if (!files->symfs)
		return open_either(entry->path, &entry->object);
	if (asprintf(&under, "%s%s", files->symfs, entry->path) < 0) {
		under = NULL;
		return -ENOMEM;
	}
	return open_either(under, &entry->object);
}

static void format_id(const uint8_t *id, size_t size, char *text)
{
	for (size_t i = 0; i < size; i++)
		sprintf(text + 2 * i, "%02x", id[i]);
}

/* Gives entry->reason when the opened file is not the recorded one. 0, -ENOMEM. */
static int compare_build_id(struct file_entry *entry)
{
	char have[2 * 64 + 1] = "", want[2 * sizeof(entry->build_id) + 1] = "";
	const uint8_t *id;
	size_t size = object_build_id(entry->object, &id);
	int len;

	if (!entry->build_id_size ||
	    (size == entry->build_id_size && !memcmp(id, entry->build_id, size)))
		return 0;
	format_id(id, size, have);
	format_id(entry->build_id, entry->build_id_size, want);
	if (size)
		len = asprintf(&entry->reason, "build-id differs: file %s, recorded %s", have,
			       want);
	else
		len = asprintf(&entry->reason, "file has no build-id, recorded %s", want);
	if (len < 0)
		entry->reason = NULL;
	object_close(entry->object);
	entry->object = NULL;
	return len < 0 ? -ENOMEM : 0;
}

static const char *reason_of(const struct file_entry *entry, int err)
{
	static const char deleted[] = " (deleted)";
	size_t len = strlen(entry->path);

	if (err == -ENOEXEC)
		return "not a regular file";
	if (err != -ENOENT && err != -ENOTDIR)
		return strerror(-err);
	if (!strcmp(entry->path, "[vdso]"))
		return "the vdso was not saved in the snapshot";
	if (entry->path[0] != '/' || entry->path[1] == '/')
		return "anonymous code that was not saved in the snapshot";
	if (len > strlen(deleted) && !strcmp(entry->path + len - strlen(deleted), deleted))
		return "file was deleted before it could be read";
	return "no such file";
}

int files_open(struct files *files)
{
	struct file_entry **it;

	vec_for_each(it, &files->entries) {
		struct file_entry *entry = *it;
		int err = open_entry(files, entry);

		if (err == -ENOMEM)
			return err;
		if (err) {
			entry->reason = strdup(reason_of(entry, err));
			if (!entry->reason)
				return -ENOMEM;
			continue;
		}
		if (compare_build_id(entry))
			return -ENOMEM;
	}
	return 0;
}
