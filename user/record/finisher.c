// SPDX-License-Identifier: GPL-2.0-only
#include "record/finisher.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "record/session_setup.h"
#include "snapshot/directory.h"
#include "snapshot/images.h"
#include "snapshot/perf_data.h"

/* Snapshots that may wait; each holds up to the budget in bytes. */
#define QUEUE_LENGTH 4

struct finisher {
	const struct session_options *options;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int event_fd;
	struct shot *queue[QUEUE_LENGTH];
	size_t n_queued;
	bool busy, closing, aborted;
	enum exit_code failure;
	VEC(char *) published; /* final paths */
};

void shot_free(struct shot *shot)
{
	struct shot_image *image;

	if (!shot)
		return;
	recording_fini(&shot->recording);
	meta_fini(&shot->meta);
	vec_for_each(image, &shot->images) {
		free(image->name);
		free(image->bytes);
	}
	vec_free(&shot->images);
	free(shot);
}

static bool is_unnamed(const struct recording_map *map)
{
	return !strcmp(map->path, "//anon") || map->path[0] == '[';
}

/* The mappings that an image holds the bytes of get its file as their path. */
static int point_maps(struct recording *recording, const struct shot_image *image,
		      const struct image_file *file, const char *path)
{
	struct recording_event *event;

	vec_for_each(event, &recording->events) {
		char *copy;

		if (event->kind != RECORDING_MAP || event->pid != image->pid ||
		    event->map.addr != image->addr || event->map.len != image->len ||
		    event->time_ns != image->map_ns || !is_unnamed(&event->map))
			continue;
		copy = strdup(path);
		if (!copy)
			return -ENOMEM;
		free(event->map.path);
		event->map.path = copy;
		event->map.pgoff = file->pgoff;
		memcpy(event->map.build_id, file->build_id, sizeof(event->map.build_id));
		event->map.build_id_size = file->build_id_size;
	}
	return 0;
}

static int write_images(const struct snapshot_directory *dir, struct shot *shot)
{
	scoped_fd int images_fd = openat(dir->fd, "images", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct shot_image *image;

	if (images_fd < 0)
		return -errno;
	vec_for_each(image, &shot->images) {
		scoped_free char *path = NULL;
		struct image_file file;
		int err = image_file_write(images_fd, image->name, image->bytes, image->len, &file);

		if (!err && asprintf(&path, "%s/images/%s", dir->final_path, image->name) < 0)
			err = -ENOMEM;
		if (!err)
			err = point_maps(&shot->recording, image, &file, path);
		if (err)
			return err;
	}
	return 0;
}

static int write_files(struct finisher *finisher, struct shot *shot, struct snapshot_directory *dir)
{
	const struct session_options *options = finisher->options;
	scoped_free char *perf_path = NULL;
	int err = write_images(dir, shot);

	if (err)
		return err;
	err = recording_sort(&shot->recording);
	if (err)
		return err;
	if (asprintf(&perf_path, "%s/perf.data", dir->part_path) < 0)
		return -ENOMEM;
	err = perf_data_write(perf_path, &shot->recording, shot->meta.command);
	if (!err)
		err = meta_write(dir->fd, "snapshot.json", &shot->meta);
	if (!err && options->complete)
		err = options->complete(options->ctx, dir->part_path, dir->final_path);
	return err;
}

static bool is_aborted(struct finisher *finisher)
{
	bool aborted;

	pthread_mutex_lock(&finisher->lock);
	aborted = finisher->aborted;
	pthread_mutex_unlock(&finisher->lock);
	return aborted;
}

/* 0, or -errno (logged). */
static int finish(struct finisher *finisher, struct shot *shot)
{
	const struct session_options *options = finisher->options;
	struct snapshot_directory dir = SNAPSHOT_DIRECTORY_NONE;
	char *path;
	int err = directory_create(options->output, options->name, shot->meta.sequence,
				   options->owner_uid, options->owner_gid, &dir);

	if (err)
		return log_errno(err, "create a snapshot below %s", options->output);
	err = write_files(finisher, shot, &dir);
	if (!err && is_aborted(finisher))
		err = -ECANCELED;
	if (!err)
		err = directory_publish(&dir);
	if (err) {
		directory_abandon(&dir);
		return err == -ECANCELED ?
			       err :
			       log_errno(err, "write the snapshot below %s", options->output);
	}
	path = strdup(dir.final_path);
	if (options->published)
		options->published(options->ctx, dir.final_path);
	directory_close(&dir);
	pthread_mutex_lock(&finisher->lock);
	if (!path || vec_push(&finisher->published, path))
		free(path);
	pthread_mutex_unlock(&finisher->lock);
	return 0;
}

static void *work(void *arg)
{
	struct finisher *finisher = arg;

	pthread_mutex_lock(&finisher->lock);
	for (;;) {
		struct shot *shot;
		int err;

		while (!finisher->n_queued && !finisher->closing)
			pthread_cond_wait(&finisher->changed, &finisher->lock);
		if (!finisher->n_queued)
			break;
		shot = finisher->queue[0];
		memmove(finisher->queue, finisher->queue + 1,
			--finisher->n_queued * sizeof(finisher->queue[0]));
		finisher->busy = true;
		pthread_cond_broadcast(&finisher->changed);
		pthread_mutex_unlock(&finisher->lock);

		err = finish(finisher, shot);
		shot_free(shot);

		pthread_mutex_lock(&finisher->lock);
		if (err && finisher->failure == EXIT_DONE)
			finisher->failure = session_exit_code(err);
		finisher->busy = false;
		pthread_cond_broadcast(&finisher->changed);
		eventfd_write(finisher->event_fd, 1);
	}
	pthread_mutex_unlock(&finisher->lock);
	return NULL;
}

int finisher_new(const struct session_options *options, struct finisher **out)
{
	struct finisher *finisher = calloc(1, sizeof(*finisher));
	int err;

	if (!finisher)
		return -ENOMEM;
	finisher->options = options;
	finisher->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	pthread_mutex_init(&finisher->lock, NULL);
	pthread_cond_init(&finisher->changed, NULL);
	err = finisher->event_fd < 0 ? errno :
				       pthread_create(&finisher->thread, NULL, work, finisher);
	if (err) {
		mem_close_fd(&finisher->event_fd);
		free(finisher);
		return -err;
	}
	*out = finisher;
	return 0;
}

void finisher_push(struct finisher *finisher, struct shot *shot)
{
	pthread_mutex_lock(&finisher->lock);
	while (finisher->n_queued == QUEUE_LENGTH)
		pthread_cond_wait(&finisher->changed, &finisher->lock);
	finisher->queue[finisher->n_queued++] = shot;
	pthread_cond_broadcast(&finisher->changed);
	pthread_mutex_unlock(&finisher->lock);
}

int finisher_fd(const struct finisher *finisher)
{
	return finisher->event_fd;
}

bool finisher_is_idle(struct finisher *finisher)
{
	eventfd_t count;
	bool idle;

	eventfd_read(finisher->event_fd, &count);
	pthread_mutex_lock(&finisher->lock);
	idle = !finisher->busy && !finisher->n_queued;
	pthread_mutex_unlock(&finisher->lock);
	return idle;
}

void finisher_abort(struct finisher *finisher)
{
	pthread_mutex_lock(&finisher->lock);
	finisher->aborted = true;
	while (finisher->n_queued)
		shot_free(finisher->queue[--finisher->n_queued]);
	pthread_mutex_unlock(&finisher->lock);
}

uint64_t finisher_drain(struct finisher *finisher, enum exit_code *failure)
{
	uint64_t published;

	pthread_mutex_lock(&finisher->lock);
	while (finisher->busy || finisher->n_queued)
		pthread_cond_wait(&finisher->changed, &finisher->lock);
	*failure = finisher->aborted ? EXIT_DONE : finisher->failure;
	published = finisher->published.len;
	pthread_mutex_unlock(&finisher->lock);
	return published;
}

/* snapshot.json is replaced, never half written. */
static int set_status(const struct finisher *finisher, const char *path, int status)
{
	scoped_fd int dir_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	scoped(meta_fini) struct meta meta = { 0 };
	char why[256];
	int err;

	if (dir_fd < 0)
		return -errno;
	err = meta_read(dir_fd, "snapshot.json", &meta, why, sizeof(why));
	if (err)
		return err;
	if (meta.target_exited)
		return 0;
	meta.target_exited = true;
	meta.target_status = status;
	err = meta_write(dir_fd, "snapshot.json.part", &meta);
	if (err)
		return err;
	if (finisher->options->owner_uid != (uid_t)-1 &&
	    fchownat(dir_fd, "snapshot.json.part", finisher->options->owner_uid,
		     finisher->options->owner_gid, AT_SYMLINK_NOFOLLOW))
		return -errno;
	return renameat(dir_fd, "snapshot.json.part", dir_fd, "snapshot.json") ? -errno : 0;
}

void finisher_set_status(struct finisher *finisher, int status)
{
	char **path;

	vec_for_each(path, &finisher->published) {
		int err = set_status(finisher, *path, status);

		if (err)
			log_debug("the command's status is not in %s: %s", *path, strerror(-err));
	}
}

void finisher_free(struct finisher *finisher)
{
	char **path;

	pthread_mutex_lock(&finisher->lock);
	finisher->closing = true;
	pthread_cond_broadcast(&finisher->changed);
	pthread_mutex_unlock(&finisher->lock);
	pthread_join(finisher->thread, NULL);
	while (finisher->n_queued)
		shot_free(finisher->queue[--finisher->n_queued]);
	vec_for_each(path, &finisher->published)
		free(*path);
	vec_free(&finisher->published);
	close(finisher->event_fd);
	pthread_mutex_destroy(&finisher->lock);
	pthread_cond_destroy(&finisher->changed);
	free(finisher);
}
