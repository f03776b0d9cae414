// SPDX-License-Identifier: GPL-2.0-only
/* `ptbpf plan`: what a recording would attach and allocate. Looks only; changes nothing. */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/size.h"
#include "image/object.h"
#include "record/budget.h"
#include "record/comm.h"
#include "record/libraries.h"
#include "record/maps.h"
#include "record/resolve.h"
#include "record/session.h"

#define OBSERVE_NS 1000000000ull
/*
 * PT bytes a second of a thread that is always on its CPU, for look-backs before anything was
 * recorded: about what the software tracer writes (tests/bench/README.md).
 */
#define SOFT_BYTES_PER_S 60000ull

struct plan_thread {
	pid_t tid;
	char comm[16];
	uint64_t oncpu_ns, observed_ns; /* at the first look; in the observed second */
};

typedef VEC(struct plan_thread) plan_threads;

struct plan {
	const struct session_options *options;
	VEC(uint32_t) sites; /* per trigger */
	struct resolve_nearest nearest;
	bool gathers_more; /* objects may be loaded later */
};

/* CPU time of a thread so far: the first field of schedstat (Documentation/scheduler/sched-stats).
 */
static uint64_t read_oncpu(pid_t pid, pid_t tid)
{
	char path[96];
	scoped_file FILE *file = NULL;
	unsigned long long ns = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", pid, tid);
	file = fopen(path, "re");
	if (!file || fscanf(file, "%llu", &ns) != 1)
		return 0;
	return ns;
}

static int list_threads(pid_t pid, bool all, plan_threads *threads)
{
	char path[64];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while ((entry = readdir(dir))) {
		struct plan_thread thread = { .tid = atoi(entry->d_name) };

		if (thread.tid <= 0 || (!all && thread.tid != pid))
			continue;
		comm_read(pid, thread.tid, thread.comm);
		thread.oncpu_ns = read_oncpu(pid, thread.tid);
		if (vec_push(threads, thread))
			break;
	}
	closedir(dir);
	return 0;
}

static void budget_free_ptr(struct budget **budget)
{
	budget_free(*budget);
}

static int print_site(const struct trigger *trigger, const struct resolve_site *site,
		      const char *path)
{
	return printf("%-32s %-32s %s+0x%" PRIx64 "%s\n", trigger->spec, site->display, path,
		      site->offset,
		      site->vaddr != site->entry ? "  (at the push after endbr64)" : "");
}

static enum exit_code plan_object(struct plan *plan, const char *path, const char *name)
{
	struct object *object;
	int err = object_open(path, &object);

	if (err)
		return EXIT_DONE; /* not an object: nothing to probe in it */
	plan->gathers_more |= object_imports(object, "dlopen");
	for (size_t i = 0; i < plan->options->n_triggers; i++) {
		const struct trigger *trigger = &plan->options->triggers[i];
		scoped(resolve_sites_fini) resolve_sites sites = { 0 };
		char why[512] = "";

		if ((trigger->kind != TRIGGER_SYM && trigger->kind != TRIGGER_ADDR) ||
		    !resolve_object_wanted(trigger, name))
			continue;
		err = resolve_object(trigger, object, name, &sites, why, sizeof(why));
		if (err == -ENOENT) {
			resolve_nearest_add(&plan->nearest, trigger, object);
		} else if (err) {
			log_err("trigger %s: %s", trigger->spec, why);
			object_close(object);
			return EXIT_USAGE;
		}
		for (size_t k = 0; k < sites.len; k++)
			print_site(trigger, &sites.data[k], name);
		plan->sites.data[i] += (uint32_t)sites.len;
	}
	object_close(object);
	return EXIT_DONE;
}

static enum exit_code check_sites(struct plan *plan)
{
	char nearest[1024];

	resolve_nearest_text(&plan->nearest, nearest, sizeof(nearest));
	for (size_t i = 0; i < plan->options->n_triggers; i++) {
		const struct trigger *trigger = &plan->options->triggers[i];

		if (plan->sites.data[i] ||
		    (trigger->kind != TRIGGER_SYM && trigger->kind != TRIGGER_ADDR))
			continue;
		if (!plan->gathers_more) {
			log_err("trigger %s: no such function in the program or its libraries%s%s",
				trigger->spec, nearest[0] ? "; " : "", nearest);
			return EXIT_NOT_FOUND;
		}
		printf("%-32s nowhere yet: waits for an object that is loaded later\n",
		       trigger->spec);
	}
	return EXIT_DONE;
}

static enum exit_code plan_process_sites(struct plan *plan, pid_t pid)
{
	scoped(maps_fini) maps_entries entries = { 0 };
	const struct maps_entry *entry;
	const char *last = "";

	if (maps_read(pid, &entries))
		return EXIT_NOT_FOUND;
	vec_for_each(entry, &entries) {
		char path[4200];
		enum exit_code code;

		if (!(entry->prot & PROT_EXEC) || maps_is_unbacked(entry) ||
		    maps_is_special(entry) || !strcmp(entry->path, last))
			continue;
		last = entry->path;
		snprintf(path, sizeof(path), "/proc/%d/root%s", pid, entry->path);
		code = plan_object(plan, path, entry->path);
		if (code != EXIT_DONE)
			return code;
	}
	return EXIT_DONE;
}

static enum exit_code plan_command_sites(struct plan *plan, const char *command)
{
	library_paths paths = { 0 };
	enum exit_code code = EXIT_DONE;
	char **path;
	int err = libraries_of(command, &paths);

	if (err)
		log_errno(err, "find %s and its libraries", command);
	vec_for_each(path, &paths) {
		if (code == EXIT_DONE)
			code = plan_object(plan, *path, *path);
	}
	libraries_fini(&paths);
	return err ? EXIT_NOT_FOUND : code;
}

static void print_ring(const struct budget_thread *ring, const struct plan_thread *thread,
		       uint64_t budget)
{
	const uint64_t lookback_ns = budget_lookback_ns(ring);
	char size[32], lookback[32];

	if (!ring->ring) {
		printf("%8d %-16s untraced: more threads than rings\n", thread->tid, thread->comm);
		return;
	}
	if (lookback_ns == UINT64_MAX)
		snprintf(lookback, sizeof(lookback), "idle");
	else
		snprintf(lookback, sizeof(lookback), "%.2f s", (double)lookback_ns / 1e9);
	printf("%8d %-16s %8s %6.1f%% %9.1f%% %12s\n", thread->tid, thread->comm,
	       size_format(ring->ring, size, sizeof(size)),
	       100.0 * (double)ring->ring / (double)budget,
	       100.0 * (double)thread->observed_ns / (double)OBSERVE_NS, lookback);
}

static int balance_threads(struct budget *budget, plan_threads *threads)
{
	const struct budget_step *steps;
	struct plan_thread *thread;
	size_t n;
	int err = 0;

	vec_for_each(thread, threads) {
		err = budget_birth(budget, thread->tid, 0);
		if (err)
			return err;
	}
	err = budget_plan(budget, 0, false, &steps, &n);
	/* as if the observed second went on until nothing moves any more */
	for (uint64_t round = 1; !err && round <= 600; round++) {
		vec_for_each(thread, threads)
			budget_activity(budget, thread->tid,
					thread->observed_ns * SOFT_BYTES_PER_S / OBSERVE_NS,
					thread->observed_ns, OBSERVE_NS);
		err = budget_plan(budget, round * OBSERVE_NS, true, &steps, &n);
	}
	return err;
}

static enum exit_code plan_rings(const struct session_options *options, pid_t pid,
				 plan_threads *threads)
{
	const struct timespec pause = { .tv_sec = OBSERVE_NS / 1000000000ull };
	const struct budget_thread *rings;
	scoped(budget_free_ptr) struct budget *budget = NULL;
	struct plan_thread *thread;
	size_t n;

	nanosleep(&pause, NULL);
	vec_for_each(thread, threads)
		thread->observed_ns = read_oncpu(pid, thread->tid) - thread->oncpu_ns;
	if (budget_new(options->buffer, options->balance, &budget) ||
	    balance_threads(budget, threads))
		return EXIT_FAILED;
	printf("\n%8s %-16s %8s %7s %10s %12s\n", "tid", "comm", "ring", "share", "on CPU",
	       "look-back");
	n = budget_threads(budget, &rings);
	for (size_t i = 0; i < n; i++) {
		vec_for_each(thread, threads) {
			if (thread->tid == rings[i].tid)
				print_ring(&rings[i], thread, options->buffer);
		}
	}
	printf("look-back at %llu KB/s of PT for each busy second, about what the software tracer "
	       "writes\n",
	       SOFT_BYTES_PER_S / 1000);
	return EXIT_DONE;
}

static enum exit_code plan_pid(struct plan *plan, pid_t pid)
{
	plan_threads threads = { 0 };
	enum exit_code code;
	int err = list_threads(pid, plan->options->multi_thread, &threads);

	if (err || !threads.len) {
		log_err("process %d: no such process", pid);
		vec_free(&threads);
		return EXIT_NOT_FOUND;
	}
	code = plan_process_sites(plan, pid);
	if (code == EXIT_DONE)
		code = check_sites(plan);
	if (code == EXIT_DONE)
		code = plan_rings(plan->options, pid, &threads);
	vec_free(&threads);
	return code;
}

enum exit_code session_plan(const struct session_options *options)
{
	struct plan plan = { .options = options };
	enum exit_code code = EXIT_DONE;
	char size[32], ring[32];

	for (size_t i = 0; i < options->n_triggers; i++) {
		if (vec_push(&plan.sites, 0))
			return EXIT_FAILED;
	}
	printf("budget %s, rings of %s at least, balance %s, source soft\n",
	       size_format(options->buffer, size, sizeof(size)),
	       size_format(BUDGET_MIN_RING, ring, sizeof(ring)),
	       options->balance == BALANCE_EQUAL ? "equal" : "activity");
	if (options->n_triggers)
		printf("\n%-32s %-32s %s\n", "trigger", "place", "object+offset");
	for (size_t i = 0; i < options->n_pids && code == EXIT_DONE; i++)
		code = plan_pid(&plan, options->pids[i]);
	if (options->argv) {
		code = plan_command_sites(&plan, options->argv[0]);
		if (code == EXIT_DONE)
			code = check_sites(&plan);
	}
	resolve_nearest_fini(&plan.nearest);
	vec_free(&plan.sites);
	return code;
}
