// SPDX-License-Identifier: GPL-2.0-only
/* From triggers to probes: what each finds in a new mapping, and what is said when it finds none.
 */
#include "record/session_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"

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
		session_reachable_path(process->pid, entry, path, sizeof(path));
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

int session_probe_mapping(struct session *session, struct session_process *process,
			  const struct session_mapping *mapping)
{
	int err = 0;

	for (size_t i = 0; !err && i < session->options->n_triggers; i++)
		err = attach_trigger(session, process, i, mapping);
	return err ? err : add_starts(session, process, mapping);
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
