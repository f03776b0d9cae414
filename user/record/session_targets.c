// SPDX-License-Identifier: GPL-2.0-only
#include "record/session_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "base/log.h"
#include "base/mem.h"
#include "record/comm.h"

/* More side-band than this, and mappings that are gone begin to be forgotten. */
#define MAX_EVENTS 65536

/* Of one process: saving more would take longer, and more memory, than a snapshot may. */
#define IMAGES_MAX_BYTES (64ull << 20)

struct session_process *session_process_find(struct session *session, pid_t pid)
{
	struct session_process *process;

	vec_for_each(process, &session->processes) {
		if (process->pid == pid)
			return process;
	}
	return NULL;
}

static void mapping_fini(struct session_mapping *mapping)
{
	free(mapping->entry.path);
}

static void image_fini(struct shot_image *image)
{
	free(image->name);
	free(image->bytes);
}

static void process_fini(struct session_process *process)
{
	struct session_mapping *mapping;
	struct shot_image *image;

	vec_for_each(mapping, &process->mappings)
		mapping_fini(mapping);
	vec_for_each(image, &process->images)
		image_fini(image);
	vec_free(&process->mappings);
	vec_free(&process->images);
	vec_free(&process->sites);
	vec_free(&process->starts);
}

struct session_process *session_process_get(struct session *session, pid_t pid)
{
	struct session_process *process = session_process_find(session, pid);
	struct session_process fresh = { .pid = pid };

	if (process && process->exited) {
		session_process_reset(session, process);
		process->exited = false;
	}
	if (process)
		return process;
	if (vec_push(&session->processes, fresh))
		return NULL;
	process = &session->processes.data[session->processes.len - 1];
	comm_read(pid, pid, process->comm);
	return process;
}

void session_process_reset(struct session *session, struct session_process *process)
{
	const pid_t pid = process->pid;

	if (session->evaluator)
		evaluator_detach_process(session->evaluator, pid);
	for (size_t i = 0; i < process->mappings.len; i++)
		mapping_fini(&process->mappings.data[i]);
	process->mappings.len = 0;
	process->sites.len = 0;
	process->starts.len = 0;
	process->entered = false;
	comm_read(pid, pid, process->comm);
}

void session_reachable_path(pid_t pid, const struct maps_entry *entry, char *buf, size_t size)
{
	struct stat st;

	if (!stat(entry->path, &st) && st.st_ino == entry->ino)
		snprintf(buf, size, "%s", entry->path);
	else
		snprintf(buf, size, "/proc/%d/root%s", pid, entry->path);
}

/* The object behind a mapping, opened once a session. NULL where its file is not to be had. */
static struct object *object_of(struct session *session, pid_t pid, const struct maps_entry *entry)
{
	struct session_object *known,
		fresh = { .dev = makedev(entry->maj, entry->min), .ino = entry->ino };
	char path[4096];

	if (maps_is_unbacked(entry))
		return NULL;
	vec_for_each(known, &session->objects) {
		if (known->dev == fresh.dev && known->ino == fresh.ino &&
		    !strcmp(known->path, entry->path))
			return known->object;
	}
	session_reachable_path(pid, entry, path, sizeof(path));
	if (object_open(path, &fresh.object))
		return NULL;
	fresh.path = strdup(entry->path);
	if (!fresh.path || vec_push(&session->objects, fresh)) {
		object_close(fresh.object);
		free(fresh.path);
		return NULL;
	}
	return fresh.object;
}

static int record_mapping(struct session *session, pid_t pid, const struct session_mapping *mapping,
			  uint64_t now_ns)
{
	const struct maps_entry *entry = &mapping->entry;
	struct recording_event event = {
		.kind = RECORDING_MAP, .time_ns = now_ns, .pid = pid, .tid = pid
	};
	const uint8_t *id;

	event.map = (struct recording_map){ .addr = entry->start,
					    .len = entry->end - entry->start,
					    .pgoff = entry->pgoff,
					    .prot = entry->prot,
					    .flags = entry->flags,
					    .maj = entry->maj,
					    .min = entry->min,
					    .ino = entry->ino };
	if (mapping->object) {
		event.map.build_id_size = (uint8_t)object_build_id(mapping->object, &id);
		if (event.map.build_id_size > sizeof(event.map.build_id))
			event.map.build_id_size = 0;
		memcpy(event.map.build_id, id, event.map.build_id_size);
	}
	event.map.path =
		strdup(maps_is_unbacked(entry) && entry->path[0] != '[' ? "//anon" : entry->path);
	if (!event.map.path)
		return -ENOMEM;
	if (vec_push(&session->events, event)) {
		free(event.map.path);
		return -ENOMEM;
	}
	return 0;
}

static struct session_mapping *mapping_find(struct session_process *process,
					    const struct maps_entry *entry)
{
	struct session_mapping *mapping;

	vec_for_each(mapping, &process->mappings) {
		if (mapping->entry.start == entry->start && mapping->entry.end == entry->end &&
		    mapping->entry.pgoff == entry->pgoff && mapping->entry.ino == entry->ino &&
		    !strcmp(mapping->entry.path, entry->path))
			return mapping;
	}
	return NULL;
}

static int mapping_added(struct session *session, struct session_process *process,
			 struct maps_entry *entry, uint64_t now_ns)
{
	struct session_mapping mapping = { .entry = *entry, .map_ns = now_ns, .seen = true };
	int err;

	mapping.object = object_of(session, process->pid, entry);
	err = vec_push(&process->mappings, mapping);
	if (err)
		return err;
	entry->path = NULL; /* the mapping owns it now */
	err = record_mapping(session, process->pid, &mapping, now_ns);
	if (!err && mapping.object)
		err = session_probe_mapping(session, process, &mapping);
	return err;
}

/* Mappings that are gone take their sites with them (the kernel removes the probes). */
static void drop_unseen(struct session_process *process)
{
	size_t kept = 0;

	for (size_t i = 0; i < process->mappings.len; i++) {
		struct session_mapping *mapping = &process->mappings.data[i];

		if (mapping->seen) {
			process->mappings.data[kept++] = *mapping;
			continue;
		}
		for (size_t k = 0; k < process->sites.len; k++) {
			const uint64_t ip = process->sites.data[k].ip;

			if (ip >= mapping->entry.start && ip < mapping->entry.end)
				process->sites.data[k--] =
					process->sites.data[--process->sites.len];
		}
		mapping_fini(mapping);
	}
	process->mappings.len = kept;
}

/* A source that evaluates by itself learns the addresses. */
static int publish_sites(struct session *session, struct session_process *process)
{
	VEC(struct source_probe) probes = { 0 };
	const struct session_site *site;
	int err = 0;

	vec_for_each(site, &process->sites) {
		const struct source_probe probe = { site->ip, (uint32_t)site->trigger,
						    site->attachment };

		err = vec_push(&probes, probe);
		if (err)
			break;
	}
	if (!err)
		err = session->source->ops->set_probes(session->source, process->pid, probes.data,
						       probes.len);
	vec_free(&probes);
	return err == -ESRCH ? 0 : err;
}

int session_process_scan(struct session *session, struct session_process *process, uint64_t now_ns)
{
	scoped(maps_fini) maps_entries entries = { 0 };
	const size_t sites_before = process->sites.len;
	bool gone = false;
	struct session_mapping *mapping;
	struct maps_entry *entry;
	int err = maps_read(process->pid, &entries);

	if (err == -ENOENT || err == -ESRCH || (!err && entries.len == 0))
		return 0; /* its exit is on the way */
	if (err)
		return log_errno(err, "read the mappings of process %d", process->pid);

	vec_for_each(mapping, &process->mappings)
		mapping->seen = false;
	vec_for_each(entry, &entries) {
		if (!(entry->prot & PROT_EXEC) || maps_is_special(entry))
			continue;
		mapping = mapping_find(process, entry);
		if (mapping)
			mapping->seen = true;
		else
			err = mapping_added(session, process, entry, now_ns);
		if (err)
			return err;
	}
	vec_for_each(mapping, &process->mappings)
		gone |= !mapping->seen;
	if (gone)
		drop_unseen(process);
	if (gone || process->sites.len != sites_before)
		return publish_sites(session, process);
	return 0;
}

/* The oldest images go first: what they hold has most likely left the rings. */
static void limit_images(struct session_process *process)
{
	uint64_t bytes = 0;
	size_t drop;

	for (drop = process->images.len; drop > 0; drop--) {
		bytes += process->images.data[drop - 1].len;
		if (bytes > IMAGES_MAX_BYTES)
			break;
	}
	for (size_t i = 0; i < drop; i++)
		image_fini(&process->images.data[i]);
	process->images.len -= drop;
	memmove(process->images.data, process->images.data + drop,
		process->images.len * sizeof(process->images.data[0]));
}

static int add_image(struct session_process *process, const struct session_mapping *mapping,
		     struct shot_image *image)
{
	const char *kind = !strcmp(mapping->entry.path, "[vdso]") ? "vdso" : "anon";
	struct shot_image *known;

	vec_for_each(known, &process->images) {
		if (known->addr != image->addr || known->map_ns != image->map_ns)
			continue;
		free(known->bytes);
		known->bytes = TAKE_PTR(image->bytes);
		return 0;
	}
	if (asprintf(&image->name, "%s-%d-%llu-%llx", kind, process->pid,
		     (unsigned long long)++process->images_made,
		     (unsigned long long)image->addr) < 0) {
		image->name = NULL;
		return -ENOMEM;
	}
	if (vec_push(&process->images, *image))
		return -ENOMEM;
	*image = (struct shot_image){ 0 };
	limit_images(process);
	return 0;
}

static int save_image(struct session_process *process, const struct session_mapping *mapping,
		      int mem_fd)
{
	scoped(image_fini) struct shot_image image = {
		.pid = process->pid,
		.addr = mapping->entry.start,
		.len = mapping->entry.end - mapping->entry.start,
		.map_ns = mapping->map_ns,
	};
	ssize_t n;

	if (image.len > IMAGES_MAX_BYTES)
		return -EFBIG;
	image.bytes = malloc(image.len);
	if (!image.bytes)
		return -ENOMEM;
	n = pread(mem_fd, image.bytes, image.len, (off_t)image.addr);
	if (n <= 0)
		return n < 0 ? -errno : -EIO;
	if ((uint64_t)n < image.len)
		memset(image.bytes + n, 0, image.len - (uint64_t)n);
	return add_image(process, mapping, &image);
}

void session_process_save_images(struct session_process *process)
{
	struct session_mapping *mapping;
	char path[64];
	scoped_fd int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/mem", process->pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	vec_for_each(mapping, &process->mappings) {
		if (maps_is_unbacked(&mapping->entry) && save_image(process, mapping, fd))
			log_debug("code at %llx of process %d could not be saved",
				  (unsigned long long)mapping->entry.start, process->pid);
	}
}

static bool has_history(const struct session *session, pid_t pid)
{
	for (size_t i = 0; i < session->threads.len; i++) {
		const struct session_thread *thread = &session->threads.data[i];

		if (thread->pid == pid && !session_thread_is_forgotten(thread))
			return true;
	}
	return false;
}

/* Its threads and its side-band; all are dead and without history. */
static void forget_process(struct session *session, pid_t pid)
{
	size_t kept_threads = 0, kept_events = 0;

	for (size_t i = 0; i < session->threads.len; i++) {
		struct session_thread *thread = &session->threads.data[i];

		if (thread->pid != pid) {
			session->threads.data[kept_threads++] = *thread;
			continue;
		}
		budget_forget(session->budget, thread->tid);
		vec_free(&thread->gaps);
	}
	session->threads.len = kept_threads;
	for (size_t i = 0; i < session->events.len; i++) {
		struct recording_event *event = &session->events.data[i];

		if (event->pid != pid)
			session->events.data[kept_events++] = *event;
		else if (event->kind == RECORDING_MAP)
			free(event->map.path);
	}
	session->events.len = kept_events;
}

/* Is the mapping of this MAP event still there? */
static bool is_current(struct session *session, const struct recording_event *event)
{
	const struct session_process *process = session_process_find(session, event->pid);
	const struct session_mapping *mapping;

	if (!process)
		return false;
	vec_for_each(mapping, &process->mappings) {
		if (mapping->map_ns == event->time_ns && mapping->entry.start == event->map.addr)
			return true;
	}
	return false;
}

/* Programs that map code without end (JITs, plugins) keep the newest half of what is gone. */
static void purge_maps(struct session *session)
{
	size_t kept = 0, dropped = 0;

	if (session->events.len <= MAX_EVENTS)
		return;
	for (size_t i = 0; i < session->events.len; i++) {
		struct recording_event *event = &session->events.data[i];

		if (event->kind == RECORDING_MAP && dropped < MAX_EVENTS / 2 &&
		    !is_current(session, event)) {
			free(event->map.path);
			dropped++;
			continue;
		}
		session->events.data[kept++] = *event;
	}
	session->events.len = kept;
}

void session_targets_purge(struct session *session)
{
	size_t kept = 1;

	/* the first process is the session's own target */
	for (size_t i = 1; i < session->processes.len; i++) {
		struct session_process *process = &session->processes.data[i];

		if (!process->exited || has_history(session, process->pid)) {
			session->processes.data[kept++] = *process;
			continue;
		}
		forget_process(session, process->pid);
		process_fini(process);
	}
	if (session->processes.len)
		session->processes.len = kept;
	purge_maps(session);
}

void session_targets_fini(struct session *session)
{
	struct session_process *process;
	struct session_object *object;

	vec_for_each(process, &session->processes)
		process_fini(process);
	vec_for_each(object, &session->objects) {
		object_close(object->object);
		free(object->path);
	}
	vec_free(&session->processes);
	vec_free(&session->objects);
	resolve_nearest_fini(&session->nearest);
}
