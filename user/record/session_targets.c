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

/* Saving more unbacked code than this would take longer than a snapshot may. */
#define IMAGE_MAX_BYTES (64ull << 20)

struct session_process *session_process_find(struct session *session, pid_t pid)
{
	struct session_process *process;

	vec_for_each(process, &session->processes) {
		if (process->pid == pid)
			return process;
	}
	return NULL;
}

static void read_comm(pid_t pid, char comm[16])
{
	char path[64];
	scoped_fd int fd = -1;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/%d/comm", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd >= 0 ? read(fd, comm, 15) : 0;
	comm[n > 0 ? n : 0] = '\0';
	comm[strcspn(comm, "\n")] = '\0';
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

struct session_process *session_process_get(struct session *session, pid_t pid, uint64_t now_ns)
{
	struct session_process *process = session_process_find(session, pid);
	struct session_process fresh = { .pid = pid };

	if (process)
		return process;
	if (vec_push(&session->processes, fresh))
		return NULL;
	process = &session->processes.data[session->processes.len - 1];
	read_comm(pid, process->comm);
	(void)now_ns;
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
	read_comm(pid, process->comm);
}

/* The path by which ptbpf itself reaches a file that is mapped in @pid, whatever its mount
 * namespace. */
static void reachable_path(pid_t pid, const struct maps_entry *entry, char *buf, size_t size)
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
	reachable_path(pid, entry, path, sizeof(path));
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

static bool site_known(const struct session_process *process, size_t trigger, uint64_t ip)
{
	const struct session_site *site;

	vec_for_each(site, &process->sites) {
		if (site->trigger == trigger && site->ip == ip)
			return true;
	}
	return false;
}

static int attach_site(struct session *session, struct session_process *process,
		       struct session_site *site, const struct maps_entry *entry,
		       const char *display)
{
	char path[4096];
	int err = 0;

	site->attachment = session->attachments.data[site->trigger];
	if (session->evaluator) {
		reachable_path(process->pid, entry, path, sizeof(path));
		err = evaluator_attach(session->evaluator, site->trigger, process->pid, path,
				       site->offset, &site->attachment);
		if (err == -ESRCH)
			return 0; /* gone; its exit is on the way */
	}
	if (err)
		return log_errno(err, "probe %s in %s (pid %d)", display, entry->path,
				 process->pid);
	log_debug("trigger %s: probe at %s in %s, pid %d",
		  session->options->triggers[site->trigger].spec, display, entry->path,
		  process->pid);
	session->attachments.data[site->trigger]++;
	return vec_push(&process->sites, *site);
}

static size_t count_sites(const struct session_process *process, size_t trigger)
{
	const struct session_site *site;
	size_t n = 0;

	vec_for_each(site, &process->sites)
		n += site->trigger == trigger;
	return n;
}

/* Several places for one name are all probed; which ones is said once, not for each child. */
static void list_places(const struct session *session, const struct trigger *trigger,
			const resolve_sites *sites, const char *path)
{
	const size_t shown = sites->len < 8 ? sites->len : 8;
	char text[1024] = "";
	size_t used = 0;

	if (sites->len < 2 || session->processes.len > 1)
		return;
	for (size_t i = 0; i < shown && used < sizeof(text); i++)
		used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s", i ? ", " : "",
					 sites->data[i].display);
	if (sites->len > shown)
		log_info("trigger %s: %zu places in %s: %s and %zu more", trigger->spec, sites->len,
			 path, text, sites->len - shown);
	else
		log_info("trigger %s: %zu places in %s: %s", trigger->spec, sites->len, path, text);
}

/* Probes what @trigger finds in one new mapping. */
static int attach_trigger(struct session *session, struct session_process *process, size_t index,
			  const struct session_mapping *mapping)
{
	const struct trigger *trigger = &session->options->triggers[index];
	const struct maps_entry *entry = &mapping->entry;
	scoped(resolve_sites_fini) resolve_sites sites = { 0 };
	char why[512] = "";
	int err;

	if (trigger->kind != TRIGGER_SYM && trigger->kind != TRIGGER_ADDR)
		return 0;
	if (!resolve_object_wanted(trigger, entry->path))
		return 0;
	err = resolve_object(trigger, mapping->object, entry->path, &sites, why, sizeof(why));
	if (err == -ENOENT)
		return resolve_nearest_add(&session->nearest, trigger, mapping->object);
	if (err) {
		log_err("trigger %s: %s", trigger->spec, why);
		session->failure = err == -ENOMEM ? EXIT_RESOURCE_LIMIT :
				   err == -EINVAL ? EXIT_NOT_FOUND :
						    EXIT_USAGE;
		return err;
	}
	for (size_t i = 0; i < sites.len; i++) {
		const struct resolve_site *found = &sites.data[i];
		struct session_site site = { .trigger = index, .offset = found->offset };

		if (found->offset < entry->pgoff ||
		    found->offset - entry->pgoff >= entry->end - entry->start)
			continue; /* lies in another mapping of this object */
		site.ip = entry->start + (found->offset - entry->pgoff);
		site.entry = site.ip - (found->vaddr - found->entry);
		if (site_known(process, index, site.ip))
			continue;
		if (count_sites(process, index) >= RESOLVE_MAX_SITES) {
			log_err("trigger %s matches more than %d places; narrow it", trigger->spec,
				RESOLVE_MAX_SITES);
			session->failure = EXIT_USAGE;
			return -E2BIG;
		}
		err = attach_site(session, process, &site, entry, found->display);
		if (err)
			return err;
	}
	list_places(session, trigger, &sites, entry->path);
	return 0;
}

/* Where --start-at leads in one new mapping. */
static int add_starts(struct session *session, struct session_process *process,
		      const struct session_mapping *mapping)
{
	const struct trigger *start = session->options->start_at;
	const struct maps_entry *entry = &mapping->entry;
	scoped(resolve_sites_fini) resolve_sites sites = { 0 };
	char why[512] = "";
	int err;

	if (session->tracing || !start || !resolve_object_wanted(start, entry->path))
		return 0;
	err = resolve_object(start, mapping->object, entry->path, &sites, why, sizeof(why));
	if (err == -ENOENT)
		return resolve_nearest_add(&session->nearest, start, mapping->object);
	if (err) {
		log_err("--start-at %s: %s", start->spec, why);
		session->failure = EXIT_USAGE;
		return err;
	}
	for (size_t i = 0; !err && i < sites.len; i++) {
		const uint64_t offset = sites.data[i].offset;

		if (offset >= entry->pgoff && offset - entry->pgoff < entry->end - entry->start)
			err = vec_push(&process->starts, entry->start + (offset - entry->pgoff));
	}
	if (err)
		return err;
	err = session->source->ops->set_start(session->source, process->pid, process->starts.data,
					      process->starts.len);
	if (err == -E2BIG) {
		log_err("--start-at %s matches %zu places, more than the processor has registers "
			"for; narrow it",
			start->spec, process->starts.len);
		session->failure = EXIT_USAGE;
	}
	return err == -ESRCH ? 0 : err;
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
	struct session_mapping mapping = { .entry = *entry, .seen = true };
	int err;

	mapping.object = object_of(session, process->pid, entry);
	err = vec_push(&process->mappings, mapping);
	if (err)
		return err;
	entry->path = NULL; /* the mapping owns it now */
	err = record_mapping(session, process->pid, &mapping, now_ns);
	for (size_t i = 0; !err && mapping.object && i < session->options->n_triggers; i++)
		err = attach_trigger(session, process, i, &mapping);
	if (!err && mapping.object)
		err = add_starts(session, process, &mapping);
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

static bool imports_any(const struct object *object, const char *const *names)
{
	for (; *names; names++) {
		if (object_imports(object, *names))
			return true;
	}
	return false;
}

/*
 * Can the process map further objects, or become another program, as a script that ends in exec
 * does? Only then may a name that is nowhere still appear.
 */
static bool may_load_more(const struct session *session, const struct session_process *process)
{
	static const char *const loads[] = { "dlopen", "dlmopen", NULL };
	static const char *const execs[] = { "execve", "execv",  "execvp",  "execvpe",  "execl",
					     "execlp", "execle", "fexecve", "execveat", NULL };
	static const char *const spawns[] = { "posix_spawn", "posix_spawnp", NULL };
	const struct session_mapping *mapping;
	bool main_program = true;

	vec_for_each(mapping, &process->mappings) {
		if (!mapping->object)
			continue;
		if (imports_any(mapping->object, loads))
			return true;
		/* libraries can, too, but only the program itself decides to */
		if (main_program &&
		    (imports_any(mapping->object, execs) ||
		     (session->options->follow_forks && imports_any(mapping->object, spawns))))
			return true;
		main_program = false;
	}
	return false;
}

static int not_found(struct session *session, const char *what, const char *spec,
		     const struct session_process *process)
{
	char nearest[1024];

	resolve_nearest_text(&session->nearest, nearest, sizeof(nearest));
	if (may_load_more(session, process)) {
		session_warn(
			session,
			"%s %s: nowhere in %s yet; waiting for what it loads or executes%s%s%s",
			what, spec, process->comm, nearest[0] ? " (" : "", nearest,
			nearest[0] ? ")" : "");
		return 0;
	}
	log_err("%s %s: no such function in %s or its libraries%s%s", what, spec, process->comm,
		nearest[0] ? "; " : "", nearest);
	session->failure = EXIT_NOT_FOUND;
	return -ENOENT;
}

int session_process_entered(struct session *session, struct session_process *process)
{
	const struct trigger *start = session->options->start_at;
	int err = 0;

	process->entered = true;
	if (process->pid != session->processes.data[0].pid)
		return 0;
	if (start && !session->tracing && !process->starts.len)
		err = not_found(session, "--start-at", start->spec, process);
	for (size_t i = 0; !err && i < session->options->n_triggers; i++) {
		const struct trigger *trigger = &session->options->triggers[i];

		if ((trigger->kind == TRIGGER_SYM || trigger->kind == TRIGGER_ADDR) &&
		    !session->attachments.data[i])
			err = not_found(session, "trigger", trigger->spec, process);
	}
	return err;
}

void session_targets_report_missing(const struct session *session)
{
	char nearest[1024];

	resolve_nearest_text(&session->nearest, nearest, sizeof(nearest));
	for (size_t i = 0; i < session->options->n_triggers; i++) {
		const struct trigger *trigger = &session->options->triggers[i];

		if ((trigger->kind == TRIGGER_SYM || trigger->kind == TRIGGER_ADDR) &&
		    !session->attachments.data[i])
			log_warn("trigger %s: nothing that was loaded or executed has it%s%s",
				 trigger->spec, nearest[0] ? "; " : "", nearest);
	}
}

static int save_image(struct session_process *process, const struct maps_entry *entry, int mem_fd)
{
	struct shot_image image = { .pid = process->pid,
				    .addr = entry->start,
				    .len = entry->end - entry->start,
				    .time_ns = clock_now_ns() };
	struct shot_image *known;
	ssize_t n;

	if (image.len > IMAGE_MAX_BYTES)
		return -EFBIG;
	image.bytes = malloc(image.len);
	if (!image.bytes)
		return -ENOMEM;
	n = pread(mem_fd, image.bytes, image.len, (off_t)image.addr);
	if (n <= 0) {
		free(image.bytes);
		return n < 0 ? -errno : -EIO;
	}
	if ((uint64_t)n < image.len)
		memset(image.bytes + n, 0, image.len - (uint64_t)n);
	vec_for_each(known, &process->images) {
		if (known->addr != image.addr || known->len != image.len)
			continue;
		free(known->bytes);
		known->bytes = image.bytes;
		known->time_ns = image.time_ns;
		return 0;
	}
	if (asprintf(&image.name, "%s-%d-%llx", !strcmp(entry->path, "[vdso]") ? "vdso" : "anon",
		     process->pid, (unsigned long long)image.addr) < 0 ||
	    vec_push(&process->images, image)) {
		image_fini(&image);
		return -ENOMEM;
	}
	return 0;
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
		if (maps_is_unbacked(&mapping->entry) && save_image(process, &mapping->entry, fd))
			log_debug("code at %llx of process %d could not be saved",
				  (unsigned long long)mapping->entry.start, process->pid);
	}
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
