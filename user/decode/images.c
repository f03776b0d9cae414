// SPDX-License-Identifier: GPL-2.0-only
#include "decode/images.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Code rewritten more often than this is decoded with the later bytes. */
#define MAX_EPOCHS 4096

int images_init(struct images *images, const struct space *space)
{
	*images = (struct images){ .space = space, .cache = pt_iscache_alloc(NULL) };
	return images->cache ? 0 : -ENOMEM;
}

static void free_process(struct image_process *process)
{
	struct image_epoch *epoch;

	vec_for_each(epoch, &process->epochs)
		pt_image_free(epoch->image);
	vec_free(&process->epochs);
	free(process);
}

void images_fini(struct images *images)
{
	struct image_process **process;

	vec_for_each(process, &images->processes)
		free_process(*process);
	vec_free(&images->processes);
	pt_iscache_free(images->cache);
}

typedef VEC(const struct space_mapping *) mapping_list;

static size_t first_ending_after(const mapping_list *list, uint64_t addr)
{
	size_t low = 0, high = list->len;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (list->data[mid]->addr + list->data[mid]->len <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static bool same_bytes(const struct space_mapping *a, const struct space_mapping *b)
{
	return a->id == b->id && a->pgoff - a->addr == b->pgoff - b->addr;
}

/* Puts @mapping into @list, by address; false when it contradicts what is there. */
static bool list_join(mapping_list *list, const struct space_mapping *mapping, int *err)
{
	size_t at = first_ending_after(list, mapping->addr), last;

	for (last = at; last < list->len; last++) {
		if (list->data[last]->addr >= mapping->addr + mapping->len)
			break;
		if (!same_bytes(list->data[last], mapping))
			return false;
	}
	/* Pieces of one mapping overlap with the whole: the first that was there stands for it. */
	if (last > at && list->data[at]->addr <= mapping->addr &&
	    list->data[at]->len >= mapping->addr + mapping->len - list->data[at]->addr)
		return true;
	*err = vec_reserve(list, 1);
	if (*err)
		return true;
	memmove(list->data + at + 1, list->data + last, (list->len - last) * sizeof(*list->data));
	list->len += 1;
	list->len -= last - at;
	list->data[at] = mapping;
	return true;
}

/*
 * Mappings that come without taking another's place (libraries at start, dlopen) all belong to one
 * epoch: code runs only where it is mapped, so that having it early does no harm.
 */
static int find_epochs(struct image_process *process, const struct space_mapping **mappings,
		       size_t n)
{
	struct image_epoch epoch = { 0 };
	mapping_list list = { 0 };
	int err = vec_push(&process->epochs, epoch);

	for (size_t i = 0; i < n && !err && process->epochs.len < MAX_EPOCHS; i++) {
		if (list_join(&list, mappings[i], &err))
			continue;
		epoch.from_ns = mappings[i]->from_ns;
		err = vec_push(&process->epochs, epoch);
		list.len = 0;
		for (size_t j = 0; j <= i && !err; j++) {
			if (mappings[j]->to_ns > epoch.from_ns)
				list_join(&list, mappings[j], &err);
		}
	}
	vec_free(&list);
	return err;
}

int images_process(struct images *images, pid_t pid, struct image_process **out)
{
	const struct space_mapping **mappings;
	struct image_process **known, *process;
	size_t n;
	int err;

	vec_for_each(known, &images->processes) {
		if ((*known)->pid == pid) {
			*out = *known;
			return 0;
		}
	}
	process = calloc(1, sizeof(*process));
	if (!process)
		return -ENOMEM;
	process->pid = pid;
	n = space_mappings(images->space, pid, &mappings);
	err = find_epochs(process, mappings, n);
	if (!err)
		err = vec_push(&images->processes, process);
	if (err) {
		free_process(process);
		return err;
	}
	*out = process;
	return 0;
}

static int add_mapping(struct images *images, struct pt_image *image,
		       const struct space_mapping *mapping)
{
	int isid;

	if (!mapping->object)
		return 0;
	isid = pt_iscache_add_file(images->cache, object_path(mapping->object), mapping->pgoff,
				   mapping->len, mapping->addr);
	/* A file that is shorter than its mapping, or gone since: no bytes, a gap if code ran. */
	if (isid > 0)
		isid = pt_image_add_cached(image, images->cache, isid, NULL);
	return isid == -pte_nomem ? -ENOMEM : 0;
}

int images_of_epoch(struct images *images, struct image_process *process, size_t index,
		    struct pt_image **out)
{
	struct image_epoch *epoch = &process->epochs.data[index];
	uint64_t end = index + 1 < process->epochs.len ? epoch[1].from_ns : UINT64_MAX;
	const struct space_mapping **mappings;
	size_t n = space_mappings(images->space, process->pid, &mappings);

	*out = epoch->image;
	if (epoch->image)
		return 0;
	epoch->image = pt_image_alloc(NULL);
	if (!epoch->image)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		int err;

		if (mappings[i]->from_ns >= end && index + 1 < process->epochs.len)
			break;
		if (mappings[i]->to_ns <= epoch->from_ns)
			continue;
		err = add_mapping(images, epoch->image, mappings[i]);
		if (err)
			return err;
	}
	*out = epoch->image;
	return 0;
}

size_t images_epoch_at(const struct image_process *process, uint64_t time_ns)
{
	size_t low = 1, high = process->epochs.len;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (process->epochs.data[mid].from_ns <= time_ns)
			low = mid + 1;
		else
			high = mid;
	}
	return low - 1;
}
