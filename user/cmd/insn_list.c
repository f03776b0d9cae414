// SPDX-License-Identifier: GPL-2.0-only
#include "cmd/insn_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "decode/decode.h"

struct list {
	const struct pipeline *pipeline;
	const struct options *options;
	FILE *out;
	uint64_t trigger_ns;
	pid_t pid, tid;
	char comm[16];
};

static bool is_shown(const struct list *list, uint64_t time_ns)
{
	const int64_t relative = (int64_t)(time_ns - list->trigger_ns);

	return !(list->options->has_from && relative < list->options->from_ns) &&
	       !(list->options->has_to && relative > list->options->to_ns);
}

static int show(void *ctx, uint64_t ip, uint64_t time_ns)
{
	const struct list *list = ctx;
	struct space_name name;
	const char *base;

	if (!is_shown(list, time_ns))
		return 0;
	fprintf(list->out, "%s %d %" PRIu64 ".%09" PRIu64 ": %16" PRIx64 " ", list->comm,
		(int)list->tid, time_ns / 1000000000, time_ns % 1000000000, ip);
	if (!space_name(list->pipeline->space, list->pid, ip, time_ns, &name)) {
		fputs("[unknown] ([unknown])\n", list->out);
	} else {
		base = strrchr(name.mapping->path, '/');
		if (name.symbol)
			fprintf(list->out, "%s+0x%" PRIx64, name.symbol->demangled,
				ip - name.start);
		else
			fputs("[unknown]", list->out);
		fprintf(list->out, " (%s)\n", base ? base + 1 : name.mapping->path);
	}
	return ferror(list->out) ? -errno : 0;
}

static void identify(struct list *list, pid_t tid)
{
	const struct recording *recording = &list->pipeline->recording;
	const struct recording_chunk *chunk;
	const struct recording_event *event;

	list->tid = tid;
	snprintf(list->comm, sizeof(list->comm), "?");
	vec_for_each(chunk, &recording->chunks) {
		if (chunk->tid == tid)
			list->pid = chunk->pid;
	}
	vec_for_each(event, &recording->events) {
		if (event->kind == RECORDING_COMM && event->tid == tid)
			memcpy(list->comm, event->comm.name, sizeof(list->comm));
	}
	list->comm[sizeof(list->comm) - 1] = '\0';
}

enum exit_code insn_list(const struct pipeline *pipeline, const struct options *options, FILE *out)
{
	struct list list = { .pipeline = pipeline,
			     .options = options,
			     .out = out,
			     .trigger_ns = pipeline->meta.trigger.time_ns };
	scoped_free pid_t *tids = NULL;
	uint64_t errors = 0;
	size_t n = 0;
	int err = decode_tids(&pipeline->recording, &tids, &n);

	for (size_t i = 0; i < n && !err; i++) {
		struct decode_thread_stats stats = { 0 };

		if (options->thread && tids[i] != options->thread)
			continue;
		identify(&list, tids[i]);
		err = decode_thread_insns(&pipeline->recording, pipeline->space, tids[i], show,
					  &list, &stats);
		errors += stats.error_gaps;
	}
	if (!err && fflush(out))
		err = -errno;
	if (err) {
		if (err != -EPIPE)
			log_errno(err, "list the instructions of %s", pipeline->dir);
		return pipeline_exit_code(err);
	}
	if (!errors)
		return EXIT_DONE;
	log_warn("%" PRIu64 " gaps caused by errors", errors);
	return EXIT_DECODE_GAPS;
}
