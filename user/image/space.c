// SPDX-License-Identifier: GPL-2.0-only
#include "image/space.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/vec.h"
#include "image/files.h"

/* Linux allows a process 65530 mappings; more are a damaged recording. */
#define MAX_LIVE 65536
#define MAX_MAPPINGS (1u << 20)

enum op_kind { OP_MAP, OP_EXEC, OP_FORK };

struct space_op {
	enum op_kind kind;
	pid_t pid, parent;
	uint64_t time_ns, order;
	uint64_t addr, len, pgoff;
	struct file_entry *file;
};

struct process {
	pid_t pid;
	VEC(uint32_t) live; /* while replaying: mappings in force, by address */
	size_t first, n;    /* afterwards: its part of by_addr, max_end and by_time */
};

struct space {
	struct files files;
	VEC(struct space_op) ops;
	VEC(struct process) processes; /* by pid */
	VEC(struct space_mapping) mappings;
	const struct space_mapping **by_addr, **by_time;
	uint64_t *max_end; /* largest end of by_addr[first..i] of the same process */
	VEC(struct space_missing) missing;
};

static void free_space(struct space **space)
{
	space_free(*space);
}

int space_new(const struct space_options *options, struct space **out)
{
	scoped(free_space) struct space *space = calloc(1, sizeof(*space));
	int err;

	if (!space)
		return -ENOMEM;
	err = files_init(&space->files, options);
	if (err)
		return err;
	*out = TAKE_PTR(space);
	return 0;
}

void space_free(struct space *space)
{
	struct process *process;

	if (!space)
		return;
	vec_for_each(process, &space->processes)
		vec_free(&process->live);
	vec_free(&space->processes);
	vec_free(&space->ops);
	vec_free(&space->mappings);
	vec_free(&space->missing);
	free(space->by_addr);
	free(space->by_time);
	free(space->max_end);
	files_fini(&space->files);
	free(space);
}

static int add_op(struct space *space, struct space_op *op)
{
	op->order = space->ops.len;
	return vec_push(&space->ops, *op);
}

int space_map(struct space *space, const struct space_map_request *request)
{
	struct space_op op = {
		.kind = OP_MAP,
		.pid = request->pid,
		.time_ns = request->time_ns,
		.addr = request->addr,
		.len = request->len,
		.pgoff = request->pgoff,
	};
	int err;

	if (!op.len || op.addr + op.len < op.addr || op.pgoff + op.len < op.pgoff)
		return 0;
	err = files_add(&space->files, request->path, request->build_id, request->build_id_size,
			&op.file);
	return err ? err : add_op(space, &op);
}

int space_exec(struct space *space, pid_t pid, uint64_t time_ns)
{
	struct space_op op = { .kind = OP_EXEC, .pid = pid, .time_ns = time_ns };

	return add_op(space, &op);
}

int space_fork(struct space *space, pid_t parent, pid_t child, uint64_t time_ns)
{
	struct space_op op = {
		.kind = OP_FORK, .pid = child, .parent = parent, .time_ns = time_ns
	};

	return parent == child ? 0 : add_op(space, &op);
}

/* Index of the first process whose pid is not below. */
static size_t process_place(const struct space *space, pid_t pid)
{
	size_t low = 0, high = space->processes.len;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (space->processes.data[mid].pid < pid)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static const struct process *find_process(const struct space *space, pid_t pid)
{
	size_t at = process_place(space, pid);

	if (at == space->processes.len || space->processes.data[at].pid != pid)
		return NULL;
	return &space->processes.data[at];
}

static int obtain_process(struct space *space, pid_t pid, struct process **process)
{
	size_t at = process_place(space, pid);

	if (at == space->processes.len || space->processes.data[at].pid != pid) {
		if (vec_reserve(&space->processes, 1))
			return -ENOMEM;
		memmove(space->processes.data + at + 1, space->processes.data + at,
			(space->processes.len - at) * sizeof(*space->processes.data));
		space->processes.data[at] = (struct process){ .pid = pid };
		space->processes.len++;
	}
	*process = &space->processes.data[at];
	return 0;
}

/* Position in process->live of the first mapping that ends after @addr. */
static size_t live_place(const struct space *space, const struct process *process, uint64_t addr)
{
	size_t low = 0, high = process->live.len;

	while (low < high) {
		size_t mid = low + (high - low) / 2;
		const struct space_mapping *mapping =
			&space->mappings.data[process->live.data[mid]];

		if (mapping->addr + mapping->len <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* Puts @mapping in force; nothing that is in force overlaps it. */
static int live_insert(struct space *space, struct process *process,
		       const struct space_mapping *mapping)
{
	size_t at = live_place(space, process, mapping->addr);

	if (process->live.len >= MAX_LIVE || space->mappings.len >= MAX_MAPPINGS)
		return 0;
	if (vec_reserve(&process->live, 1) || vec_push(&space->mappings, *mapping))
		return -ENOMEM;
	memmove(process->live.data + at + 1, process->live.data + at,
		(process->live.len - at) * sizeof(*process->live.data));
	process->live.data[at] = (uint32_t)(space->mappings.len - 1);
	process->live.len++;
	return 0;
}

static bool same_bytes(const struct space_mapping *a, const struct space_mapping *b)
{
	return a->id == b->id && a->pgoff - a->addr == b->pgoff - b->addr;
}

/* Ends what @mapping covers; what it leaves uncovered goes on as mappings of its own. */
static int live_cover(struct space *space, struct process *process,
		      const struct space_mapping *mapping)
{
	uint64_t end = mapping->addr + mapping->len;
	size_t at = live_place(space, process, mapping->addr);
	struct space_mapping parts[2];
	size_t n = 0, last = at;

	while (last < process->live.len) {
		struct space_mapping *old = &space->mappings.data[process->live.data[last]], part;
		uint64_t old_end = old->addr + old->len;

		if (old->addr >= end)
			break;
		part = *old;
		part.from_ns = mapping->from_ns;
		if (old->addr < mapping->addr) {
			part.len = mapping->addr - old->addr;
			parts[n++] = part;
		}
		if (old_end > end) {
			part.addr = end;
			part.len = old_end - end;
			part.pgoff = old->pgoff + (end - old->addr);
			parts[n++] = part;
		}
		old->to_ns = mapping->from_ns;
		last++;
	}
	if (last > at)
		memmove(process->live.data + at, process->live.data + last,
			(process->live.len - last) * sizeof(*process->live.data));
	process->live.len -= last - at;
	for (size_t i = 0; i < n; i++) {
		if (live_insert(space, process, &parts[i]))
			return -ENOMEM;
	}
	return 0;
}

static int replay_map(struct space *space, const struct space_op *op)
{
	struct space_mapping mapping = {
		.pid = op->pid,
		.addr = op->addr,
		.len = op->len,
		.pgoff = op->pgoff,
		.from_ns = op->time_ns,
		.to_ns = UINT64_MAX,
		.path = op->file->path,
		.object = op->file->object,
		.id = op->file->index,
	};
	struct process *process;
	size_t at;
	int err;

	err = obtain_process(space, op->pid, &process);
	if (err)
		return err;
	/* Mappings are announced again (by mprotect, by /proc at the end): nothing changed then. */
	at = live_place(space, process, op->addr);
	if (at < process->live.len) {
		const struct space_mapping *old = &space->mappings.data[process->live.data[at]];

		if (old->addr <= mapping.addr &&
		    old->addr + old->len >= mapping.addr + mapping.len && same_bytes(old, &mapping))
			return 0;
	}
	err = live_cover(space, process, &mapping);
	return err ? err : live_insert(space, process, &mapping);
}

static void end_all(struct space *space, struct process *process, uint64_t time_ns)
{
	uint32_t *live;

	vec_for_each(live, &process->live)
		space->mappings.data[*live].to_ns = time_ns;
	process->live.len = 0;
}

static int replay_fork(struct space *space, const struct space_op *op)
{
	struct process *child;
	const struct process *parent;
	int err;

	err = obtain_process(space, op->pid, &child);
	if (err)
		return err;
	end_all(space, child, op->time_ns);
	parent = find_process(space, op->parent);
	for (size_t i = 0; parent && i < parent->live.len; i++) {
		struct space_mapping mapping = space->mappings.data[parent->live.data[i]];

		mapping.pid = op->pid;
		mapping.from_ns = op->time_ns;
		if (live_insert(space, child, &mapping))
			return -ENOMEM;
	}
	return 0;
}

static int replay(struct space *space)
{
	struct space_op *op;

	vec_for_each(op, &space->ops) {
		struct process *process;
		int err = 0;

		switch (op->kind) {
		case OP_MAP:
			err = replay_map(space, op);
			break;
		case OP_EXEC:
			err = obtain_process(space, op->pid, &process);
			if (!err)
				end_all(space, process, op->time_ns);
			break;
		case OP_FORK:
			err = replay_fork(space, op);
			break;
		}
		if (err)
			return err;
	}
	return 0;
}

static int compare_ops(const void *a_, const void *b_)
{
	const struct space_op *a = a_, *b = b_;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? -1 : 1;
	return a->order < b->order ? -1 : 1;
}

static int compare(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_by_addr(const void *a_, const void *b_)
{
	const struct space_mapping *a = *(const struct space_mapping *const *)a_;
	const struct space_mapping *b = *(const struct space_mapping *const *)b_;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return compare(a->addr, b->addr)               ?:
		       compare(a->from_ns, b->from_ns) ?:
							 compare(a->len, b->len);
}

static int compare_by_time(const void *a_, const void *b_)
{
	const struct space_mapping *a = *(const struct space_mapping *const *)a_;
	const struct space_mapping *b = *(const struct space_mapping *const *)b_;

	if (a->pid != b->pid)
		return a->pid < b->pid ? -1 : 1;
	return compare(a->from_ns, b->from_ns) ?: compare(a->addr, b->addr);
}

/* Orders the mappings for look-ups; those that were covered at once are left out. */
static int build_index(struct space *space)
{
	size_t n = 0, total = space->mappings.len;
	struct process *process;
	size_t at = 0;

	space->by_addr = calloc(total + 1, sizeof(*space->by_addr));
	space->by_time = calloc(total + 1, sizeof(*space->by_time));
	space->max_end = calloc(total + 1, sizeof(*space->max_end));
	if (!space->by_addr || !space->by_time || !space->max_end)
		return -ENOMEM;
	for (size_t i = 0; i < total; i++) {
		if (space->mappings.data[i].from_ns < space->mappings.data[i].to_ns)
			space->by_addr[n++] = &space->mappings.data[i];
	}
	memcpy(space->by_time, space->by_addr, n * sizeof(*space->by_time));
	qsort(space->by_addr, n, sizeof(*space->by_addr), compare_by_addr);
	qsort(space->by_time, n, sizeof(*space->by_time), compare_by_time);
	vec_for_each(process, &space->processes) {
		uint64_t end = 0;

		process->first = at;
		for (; at < n && space->by_addr[at]->pid == process->pid; at++) {
			uint64_t own = space->by_addr[at]->addr + space->by_addr[at]->len;

			end = own > end ? own : end;
			space->max_end[at] = end;
		}
		process->n = at - process->first;
	}
	return 0;
}

static int compare_missing(const void *a_, const void *b_)
{
	const struct space_missing *a = a_, *b = b_;

	return strcmp(a->path, b->path) ?: strcmp(a->reason, b->reason);
}

static int list_missing(struct space *space)
{
	struct file_entry **entry;

	vec_for_each(entry, &space->files.entries) {
		struct space_missing missing = { (*entry)->path, (*entry)->reason, false };

		if (missing.reason && vec_push(&space->missing, missing))
			return -ENOMEM;
	}
	if (space->missing.len)
		qsort(space->missing.data, space->missing.len, sizeof(*space->missing.data),
		      compare_missing);
	return 0;
}

int space_freeze(struct space *space)
{
	int err = files_open(&space->files);

	if (err)
		return err;
	if (space->ops.len)
		qsort(space->ops.data, space->ops.len, sizeof(*space->ops.data), compare_ops);
	err = replay(space);
	if (!err)
		err = build_index(space);
	return err ? err : list_missing(space);
}

size_t space_missing(const struct space *space, const struct space_missing **missing)
{
	*missing = space->missing.data;
	return space->missing.len;
}

void space_need(const struct space *space, pid_t pid, uint64_t addr, uint64_t time_ns)
{
	const struct space_mapping *mapping = space_find(space, pid, addr, time_ns);
	struct space_missing *missing;

	if (!mapping || mapping->object)
		return;
	vec_for_each(missing, &space->missing) {
		if (missing->path == mapping->path)
			__atomic_store_n(&missing->needed, true, __ATOMIC_RELAXED);
	}
}

/* How far @time_ns is from the mapping's life; 0: inside. */
static uint64_t time_distance(const struct space_mapping *mapping, uint64_t time_ns)
{
	if (time_ns < mapping->from_ns)
		return mapping->from_ns - time_ns;
	return time_ns >= mapping->to_ns ? time_ns - mapping->to_ns + 1 : 0;
}

const struct space_mapping *space_find(const struct space *space, pid_t pid, uint64_t addr,
				       uint64_t time_ns)
{
	const struct process *process = find_process(space, pid);
	const struct space_mapping *best = NULL;
	uint64_t best_distance = UINT64_MAX;
	size_t low, high;

	if (!process)
		return NULL;
	low = process->first;
	high = process->first + process->n;
	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (space->by_addr[mid]->addr <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	while (low-- > process->first && space->max_end[low] > addr) {
		const struct space_mapping *mapping = space->by_addr[low];
		uint64_t distance = time_distance(mapping, time_ns);

		if (addr - mapping->addr >= mapping->len || (best && distance >= best_distance))
			continue;
		best = mapping;
		best_distance = distance;
		if (!distance)
			break;
	}
	return best;
}

size_t space_mappings(const struct space *space, pid_t pid, const struct space_mapping ***mappings)
{
	const struct process *process = find_process(space, pid);

	*mappings = process ? space->by_time + process->first : NULL;
	return process ? process->n : 0;
}

size_t space_read(const struct space *space, pid_t pid, uint64_t addr, uint64_t time_ns, void *buf,
		  size_t size)
{
	size_t done = 0;

	while (done < size) {
		const struct space_mapping *mapping = space_find(space, pid, addr + done, time_ns);
		uint64_t offset;
		size_t want = size - done, got;

		if (!mapping || !mapping->object)
			break;
		offset = addr + done - mapping->addr;
		if (want > mapping->len - offset)
			want = mapping->len - offset;
		got = object_read(mapping->object, mapping->pgoff + offset, (char *)buf + done,
				  want);
		done += got;
		if (got < want)
			break;
	}
	return done;
}

bool space_name(const struct space *space, pid_t pid, uint64_t addr, uint64_t time_ns,
		struct space_name *name)
{
	const struct space_mapping *mapping = space_find(space, pid, addr, time_ns);
	uint64_t vaddr;

	if (!mapping)
		return false;
	*name = (struct space_name){ .mapping = mapping, .start = mapping->addr };
	if (!mapping->object ||
	    object_offset_to_vaddr(mapping->object, addr - mapping->addr + mapping->pgoff, &vaddr))
		return true;
	name->symbol = object_symbol_at(mapping->object, vaddr);
	if (name->symbol)
		name->start = addr - (vaddr - name->symbol->start);
	return true;
}
