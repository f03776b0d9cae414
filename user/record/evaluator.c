// SPDX-License-Identifier: GPL-2.0-only
#include "record/evaluator.h"

#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/vec.h"
#include "bpf/threads.skel.h"
#include "bpf/trigger.skel.h"
#include "record/evaluator_keeper.h"
#include "record/evaluator_probes.h"

#define LIST_AGE_NS 1000000 /* the list of threads is read anew when it is older */

struct evaluator {
	struct threads_bpf *threads;
	struct trigger_bpf *trigger;
	bool attached; /* the thread programs */
	struct ring_buffer *ring;
	struct ptbpf_fire_page *page;
	size_t page_size;
	struct probes probes;
	VEC(struct ptbpf_thread) list; /* by tid, as of listed_ns */
	uint64_t listed_ns;
	evaluator_record_fn fn; /* during evaluator_poll() */
	void *fn_ctx;
	int fn_result;
};

static int log_libbpf(enum libbpf_print_level level, const char *fmt, va_list args)
{
	char text[2048];
	size_t n;

	if (level == LIBBPF_DEBUG || log_get_level() < LOG_DEBUG)
		return 0;
	vsnprintf(text, sizeof(text), fmt, args);
	n = strlen(text);
	while (n && text[n - 1] == '\n')
		text[--n] = '\0';
	log_debug("%s", text);
	return 0;
}

/*
 * 0, or why not: tried for real, since a verifier's refusal comes as -EACCES as well and must not
 * be taken for a lack of rights.
 */
static int loading_allowed(void)
{
	const struct bpf_insn nothing[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	scoped_fd int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "allowed", "GPL", nothing,
					 ARRAY_SIZE(nothing), NULL);

	return fd < 0 ? -errno : 0;
}

/* The whole output of an iterator program over tasks, thrown away or appended to the list. */
static int run_iterator(struct evaluator *evaluator, const struct bpf_program *program, pid_t tid)
{
	union bpf_iter_link_info info = { .task.tid = (uint32_t)tid };
	LIBBPF_OPTS(bpf_iter_attach_opts, opts, .link_info = &info, .link_info_len = sizeof(info));
	struct bpf_link *link = bpf_program__attach_iter(program, tid ? &opts : NULL);
	scoped_fd int fd = -1;
	ssize_t n;

	if (!link && errno == ESRCH)
		return -ESRCH;
	if (!link && tid) /* before 6.1 all tasks are visited; the program looks for its own */
		link = bpf_program__attach_iter(program, NULL);
	if (!link)
		return -errno;
	fd = bpf_iter_create(bpf_link__fd(link));
	bpf_link__destroy(link);
	if (fd < 0)
		return fd;
	do {
		const size_t line = sizeof(*evaluator->list.data);
		char *room;

		if (vec_reserve(&evaluator->list, 256))
			return -ENOMEM;
		room = (char *)(evaluator->list.data + evaluator->list.len);
		n = read(fd, room, 256 * line);
		if (n < 0 && errno != EAGAIN && errno != EINTR)
			return -errno;
		if (n > 0)
			evaluator->list.len += (size_t)n / line;
	} while (n);
	return 0;
}

static int by_tid(const void *a, const void *b)
{
	const struct ptbpf_thread *const x = a, *const y = b;

	return (x->tid > y->tid) - (x->tid < y->tid);
}

static int list_threads(struct evaluator *evaluator, uint64_t max_age_ns)
{
	const uint64_t now = clock_now_ns();
	int err;

	if (evaluator->listed_ns && now - evaluator->listed_ns < max_age_ns)
		return 0;
	evaluator->list.len = 0;
	evaluator->listed_ns = 0;
	err = run_iterator(evaluator, evaluator->threads->progs.on_list, 0);
	if (err)
		return err;
	if (evaluator->list.len)
		qsort(evaluator->list.data, evaluator->list.len, sizeof(*evaluator->list.data),
		      by_tid);
	evaluator->listed_ns = now;
	return 0;
}

/* The live traced threads of @pid, the main one first. The caller frees *tids. */
static int traced_threads(struct evaluator *evaluator, pid_t pid, pid_t **tids, size_t *n)
{
	const struct ptbpf_thread *thread;
	int err;

	*n = 0;
	err = list_threads(evaluator, 0);
	if (err)
		return err;
	*tids = calloc(evaluator->list.len + 1, sizeof(**tids));
	if (!*tids)
		return -ENOMEM;
	vec_for_each(thread, &evaluator->list) {
		if (thread->pid != (uint32_t)pid)
			continue;
		(*tids)[(*n)++] = (pid_t)thread->tid;
		if (thread->tid == (uint32_t)pid) {
			(*tids)[*n - 1] = (*tids)[0];
			(*tids)[0] = pid;
		}
	}
	return 0;
}

static void move_probes(struct evaluator *evaluator, pid_t pid, pid_t tid)
{
	scoped_free pid_t *tids = NULL;
	size_t n;

	if (!probes_on_thread(&evaluator->probes, tid))
		return;
	if (traced_threads(evaluator, pid, &tids, &n))
		return;
	/* A thread that is just calling exec changes its tid to this one; the list has room. */
	if (!n || tids[0] != pid)
		tids[n++] = pid;
	probes_move(&evaluator->probes, tid, tids, n);
}

/* Called by libbpf for each record; a negative value ends the consumption. */
static int on_record(void *ctx, void *data, size_t size)
{
	struct evaluator *const evaluator = ctx;
	const struct ptbpf_record *const record = data;

	if (size < sizeof(*record))
		return 0;
	if (record->type == PTBPF_RECORD_EXIT)
		move_probes(evaluator, (pid_t)record->pid, (pid_t)record->tid);
	if (record->type == PTBPF_RECORD_EXEC)
		probes_rename(&evaluator->probes, (pid_t)record->parent_tid, (pid_t)record->tid);
	if (!evaluator->fn)
		return 0;
	evaluator->fn_result = evaluator->fn(evaluator->fn_ctx, record);
	return evaluator->fn_result ? -ECANCELED : 0;
}

static int load_threads(struct evaluator *evaluator, const struct evaluator_config *config)
{
	int err;

	evaluator->threads = threads_bpf__open();
	if (!evaluator->threads)
		return -errno;
	evaluator->threads->rodata->cfg_multi_thread = config->multi_thread;
	evaluator->threads->rodata->cfg_follow_forks = config->follow_forks;
	err = threads_bpf__load(evaluator->threads);
	if (err)
		return err;
	err = run_iterator(evaluator, evaluator->threads->progs.on_self, 0);
	if (err)
		return err;
	return evaluator->threads->bss->own_ns ? 0 : -EINVAL;
}

static int configure_triggers(struct trigger_bpf *trigger, const struct evaluator_config *config)
{
	uint64_t rates = 0;

	if (config->n_triggers > PTBPF_MAX_TRIGGERS)
		return -E2BIG;
	for (size_t i = 0; i < config->n_triggers; i++) {
		if (config->triggers[i].rate_count > PTBPF_MAX_RATE ||
		    config->triggers[i].n_conditions > PTBPF_MAX_CONDITIONS)
			return -E2BIG;
		trigger->rodata->cfg_triggers[i] = config->triggers[i];
		trigger->rodata->cfg_rate_base[i] = (uint32_t)rates;
		rates += config->triggers[i].rate_count;
	}
	return bpf_map__set_max_entries(trigger->maps.rate_times, rates ? (uint32_t)rates : 1);
}

static int load_trigger(struct evaluator *evaluator, const struct evaluator_config *config)
{
	const struct threads_bpf *const threads = evaluator->threads;
	struct trigger_bpf *trigger;
	int err;

	trigger = evaluator->trigger = trigger_bpf__open();
	if (!trigger)
		return -errno;
	err = configure_triggers(trigger, config);
	if (!err)
		err = bpf_map__reuse_fd(trigger->maps.threads, bpf_map__fd(threads->maps.threads));
	if (!err)
		err = bpf_map__reuse_fd(trigger->maps.records, bpf_map__fd(threads->maps.records));
	if (!err)
		err = trigger_bpf__load(trigger);
	return err ? err : keeper_start(trigger->progs.on_probe, &evaluator->probes.keeper);
}

static int map_page(struct evaluator *evaluator, bool single)
{
	const size_t page = (size_t)sysconf(_SC_PAGESIZE);
	const size_t size = (sizeof(*evaluator->page) + page - 1) / page * page;
	void *mapped;

	mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
		      bpf_map__fd(evaluator->trigger->maps.fire_page), 0);
	if (mapped == MAP_FAILED)
		return -errno;
	evaluator->page = mapped;
	evaluator->page_size = size;
	evaluator->page->single = single;
	return 0;
}

static int open_ring(struct evaluator *evaluator)
{
	evaluator->ring = ring_buffer__new(bpf_map__fd(evaluator->threads->maps.records), on_record,
					   evaluator, NULL);
	return evaluator->ring ? 0 : -errno;
}

static void free_evaluator(struct evaluator **evaluator)
{
	evaluator_close(*evaluator);
}

/* What loading failed with -> what the caller can tell apart. */
static int classify(int err)
{
	if (err == -EMFILE) {
		log_err("load the BPF programs: too many open files; raise the limit: ulimit -n");
		return err;
	}
	if (err == -ENOMEM || err == -ENFILE || err == -E2BIG)
		return log_errno(err, "load the BPF programs");
	log_debug("this kernel refuses ptbpf's BPF programs: %s", strerror(-err));
	return -EOPNOTSUPP;
}

int evaluator_open(const struct evaluator_config *config, struct evaluator **out)
{
	scoped(free_evaluator) struct evaluator *evaluator = calloc(1, sizeof(*evaluator));
	int err;

	if (!evaluator)
		return log_errno(-ENOMEM, "open the BPF evaluator");
	libbpf_set_print(log_libbpf);
	err = loading_allowed();
	if (!err)
		err = probes_allowed();
	if (err == -EPERM || err == -EACCES)
		return err;
	if (!err)
		err = load_threads(evaluator, config);
	if (!err)
		err = load_trigger(evaluator, config);
	if (!err)
		err = map_page(evaluator, config->single);
	if (!err)
		err = open_ring(evaluator);
	if (err)
		return classify(err);
	*out = TAKE_PTR(evaluator);
	return 0;
}

void evaluator_close(struct evaluator *evaluator)
{
	if (!evaluator)
		return;
	probes_close(&evaluator->probes, 0);
	keeper_stop(evaluator->probes.keeper);
	ring_buffer__free(evaluator->ring);
	if (evaluator->page)
		munmap(evaluator->page, evaluator->page_size);
	trigger_bpf__destroy(evaluator->trigger);
	threads_bpf__destroy(evaluator->threads);
	vec_free(&evaluator->list);
	free(evaluator);
}

static int select_thread(struct evaluator *evaluator, pid_t tid, bool add)
{
	struct threads_bpf__bss *const bss = evaluator->threads->bss;
	const uint64_t drops = bss->stat_thread_drops;
	int err;

	bss->select_tid = (uint32_t)tid;
	bss->select_add = add;
	bss->select_found = 0;
	evaluator->list.len = 0;
	evaluator->listed_ns = 0;
	err = run_iterator(evaluator, evaluator->threads->progs.on_select, tid);
	if (err || bss->select_found)
		return err;
	return bss->stat_thread_drops != drops ? -ENOMEM : -ESRCH;
}

/* Attached by hand: the skeleton's attach would run the iterators, too. */
static int attach_threads(struct evaluator *evaluator)
{
	struct threads_bpf *const threads = evaluator->threads;
	struct {
		struct bpf_program *program;
		struct bpf_link **link;
	} const all[] = {
		{ threads->progs.on_birth, &threads->links.on_birth },
		{ threads->progs.on_exec, &threads->links.on_exec },
		{ threads->progs.on_rename, &threads->links.on_rename },
		{ threads->progs.on_exit, &threads->links.on_exit },
		{ threads->progs.on_switch, &threads->links.on_switch },
	};

	if (evaluator->attached)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		if (*all[i].link)
			continue; /* a former try failed after it */
		*all[i].link = bpf_program__attach(all[i].program);
		if (!*all[i].link)
			return -errno;
	}
	evaluator->attached = true;
	return 0;
}

int evaluator_add_thread(struct evaluator *evaluator, pid_t pid, pid_t tid)
{
	const int err = attach_threads(evaluator);

	(void)pid; /* the kernel knows it better */
	return err ? err : select_thread(evaluator, tid, true);
}

int evaluator_remove_thread(struct evaluator *evaluator, pid_t tid)
{
	return select_thread(evaluator, tid, false);
}

int evaluator_attach(struct evaluator *evaluator, size_t trigger, pid_t pid, const char *path,
		     uint64_t offset, uint32_t *attachment)
{
	const struct probe probe = {
		.pid = pid,
		.path = (char *)path,
		.offset = offset,
		.trigger = (uint32_t)trigger,
	};
	scoped_free pid_t *tids = NULL;
	size_t n;
	int err;

	if (trigger >= PTBPF_MAX_TRIGGERS)
		return -EINVAL;
	err = traced_threads(evaluator, pid, &tids, &n);
	if (err)
		return err;
	if (!n) /* none is traced yet */
		tids[n++] = pid;
	return probes_add(&evaluator->probes, &probe, tids, n, attachment);
}

void evaluator_detach_probes(struct evaluator *evaluator)
{
	probes_close(&evaluator->probes, 0);
}

void evaluator_detach_process(struct evaluator *evaluator, pid_t pid)
{
	if (pid > 0)
		probes_close(&evaluator->probes, pid);
}

struct ptbpf_fire_page *evaluator_fire_page(struct evaluator *evaluator)
{
	return evaluator->page;
}

int evaluator_fd(const struct evaluator *evaluator)
{
	return ring_buffer__epoll_fd(evaluator->ring);
}

int evaluator_poll(struct evaluator *evaluator, evaluator_record_fn fn, void *ctx)
{
	int n;

	evaluator->fn = fn;
	evaluator->fn_ctx = ctx;
	evaluator->fn_result = 0;
	n = ring_buffer__consume(evaluator->ring);
	evaluator->fn = NULL;
	if (evaluator->fn_result)
		return evaluator->fn_result;
	return n < 0 ? n : 0;
}

int evaluator_oncpu(struct evaluator *evaluator, pid_t tid, uint64_t *oncpu_ns)
{
	const struct ptbpf_thread key = { .tid = (uint32_t)tid };
	const struct ptbpf_thread *found;
	int err;

	err = list_threads(evaluator, LIST_AGE_NS);
	if (err)
		return err;
	if (!evaluator->list.len)
		return -ENOENT;
	found = bsearch(&key, evaluator->list.data, evaluator->list.len,
			sizeof(*evaluator->list.data), by_tid);
	if (!found)
		return -ENOENT;
	*oncpu_ns = found->oncpu_ns;
	return 0;
}

void evaluator_read_drops(struct evaluator *evaluator, struct evaluator_drops *drops)
{
	drops->records = evaluator->threads->bss->stat_record_drops;
	drops->threads = evaluator->threads->bss->stat_thread_drops;
	drops->wakes = evaluator->page->wake_drops;
}
