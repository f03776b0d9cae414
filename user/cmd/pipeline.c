// SPDX-License-Identifier: GPL-2.0-only
#include "cmd/pipeline.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cmd/progress.h"
#include "decode/decode.h"
#include "snapshot/perf_data.h"

#define MISSING_SHOWN 10

enum exit_code pipeline_exit_code(int err)
{
	switch (-err) {
	case ENOENT:
	case ENOTDIR:
		return EXIT_NOT_FOUND;
	case EACCES:
	case EPERM:
	case EROFS:
		return EXIT_PERMISSION;
	case ENOMEM:
	case ENOSPC:
	case EDQUOT:
	case EFBIG:
		return EXIT_RESOURCE_LIMIT;
	case EOPNOTSUPP:
		return EXIT_UNSUPPORTED;
	default:
		return EXIT_FAILED;
	}
}

/* @path is a snapshot directory or a perf.data: *dir, *file are heap strings. */
static enum exit_code locate(const char *path, char **dir, char **file)
{
	const char *slash;
	struct stat st;
	int n = 0;

	if (stat(path, &st)) {
		const int err = -errno;

		log_err("%s: %s; give a snapshot directory or a perf.data", path, strerror(-err));
		return pipeline_exit_code(err);
	}
	if (S_ISDIR(st.st_mode)) {
		*dir = strdup(path);
		n = asprintf(file, "%s/perf.data", path);
	} else {
		slash = strrchr(path, '/');
		*dir = slash == path ? strdup("/") :
		       slash         ? strndup(path, (size_t)(slash - path)) :
				       strdup(".");
		*file = strdup(path);
	}
	if (*dir && n >= 0 && *file)
		return EXIT_DONE;
	log_err("out of memory");
	return EXIT_RESOURCE_LIMIT;
}

static enum exit_code read_recording(const char *path, const char *file, struct pipeline *pipeline)
{
	char why[256] = "";
	const int err =
		perf_data_read(file, &pipeline->recording, &pipeline->truncated, why, sizeof(why));

	if (err == -ENOENT && strcmp(path, file)) {
		log_err("%s is no snapshot: there is no perf.data in it", path);
		return EXIT_NOT_FOUND;
	}
	if (err) {
		log_err("read %s: %s", file, *why ? why : strerror(-err));
		return pipeline_exit_code(err);
	}
	if (pipeline->truncated && !pipeline->recording.chunks.len) {
		log_err("%s is cut off before its first trace", file);
		return EXIT_FAILED;
	}
	if (pipeline->truncated)
		log_warn("%s is cut off%s%s; decoding what is whole", file, *why ? ": " : "", why);
	return EXIT_DONE;
}

static void read_meta(struct pipeline *pipeline)
{
	scoped_fd int dir_fd = open(pipeline->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char why[256] = "";
	int err;

	if (dir_fd < 0)
		return;
	err = meta_read(dir_fd, "snapshot.json", &pipeline->meta, why, sizeof(why));
	pipeline->has_meta = !err;
	if (err && err != -ENOENT)
		log_warn("%s/snapshot.json is left aside: %s", pipeline->dir,
			 *why ? why : strerror(-err));
}

static enum exit_code make_space(struct pipeline *pipeline, const char *symfs)
{
	const struct space_options options = { .snapshot_dir = pipeline->dir, .symfs = symfs };
	int err = space_new(&options, &pipeline->space);

	if (!err)
		err = decode_build_space(&pipeline->recording, pipeline->space);
	if (!err)
		err = space_freeze(pipeline->space);
	if (!err)
		return EXIT_DONE;
	log_errno(err, "prepare the code of %s", pipeline->dir);
	return pipeline_exit_code(err);
}

enum exit_code pipeline_load(const char *path, const char *symfs, struct pipeline *pipeline)
{
	scoped_free char *file = NULL;
	enum exit_code code;

	*pipeline = (struct pipeline){ 0 };
	code = locate(path, &pipeline->dir, &file);
	if (code == EXIT_DONE)
		code = read_recording(path, file, pipeline);
	if (code != EXIT_DONE)
		return code;
	read_meta(pipeline);
	return make_space(pipeline, symfs);
}

static void report_missing(const struct space *space)
{
	const struct space_missing *missing;
	const size_t n = space_missing(space, &missing);

	for (size_t i = 0; i < n && i < MISSING_SHOWN; i++)
		log_warn("%s: %s; what ran there is a gap. --symfs DIR looks below DIR",
			 missing[i].path, missing[i].reason);
	if (n > MISSING_SHOWN)
		log_warn("%zu more files are missing", n - MISSING_SHOWN);
}

static const struct meta_thread *meta_thread_find(const struct meta *meta, pid_t tid)
{
	const struct meta_thread *thread;

	vec_for_each(thread, &meta->threads) {
		if (thread->tid == tid)
			return thread;
	}
	return NULL;
}

/* What the bytes alone do not tell comes from snapshot.json. */
static int add_meta(struct pipeline *pipeline)
{
	const struct meta *meta = &pipeline->meta;
	struct timeline *timeline = &pipeline->timeline;
	struct thread_timeline *thread;
	char detail[512];

	if (!pipeline->has_meta)
		return 0;
	vec_for_each(thread, &timeline->threads) {
		const struct meta_thread *known = meta_thread_find(meta, thread->tid);

		if (known && !thread->comm[0])
			memcpy(thread->comm, known->comm, sizeof(thread->comm));
	}
	if (meta->command && !(timeline->command = strdup(meta->command)))
		return -ENOMEM;
	if (meta->unit && !(timeline->unit = strdup(meta->unit)))
		return -ENOMEM;
	if (!meta->trigger.time_ns)
		return 0;
	snprintf(detail, sizeof(detail), "trigger=%s hit=%llu arg0=0x%llx arg1=0x%llx arg2=0x%llx",
		 meta->trigger.spec ? meta->trigger.spec :
		 meta->trigger.kind ? meta->trigger.kind :
				      "",
		 (unsigned long long)meta->trigger.hit, (unsigned long long)meta->trigger.args[0],
		 (unsigned long long)meta->trigger.args[1],
		 (unsigned long long)meta->trigger.args[2]);
	return timeline_add_fire(timeline, meta->trigger.tid, meta->trigger.time_ns,
				 meta->trigger.spec ? detail : NULL);
}

enum exit_code pipeline_decode(struct pipeline *pipeline, unsigned int workers)
{
	struct progress progress;
	const struct build_options options = {
		.workers = workers,
		.end_ns = pipeline->meta.trigger.time_ns,
		.progress = progress_step,
		.progress_ctx = &progress,
	};
	int err;

	progress_init(&progress, "decoding");
	err = timeline_build(&pipeline->recording, pipeline->space, &options, &pipeline->timeline);
	pipeline->has_timeline = true;
	progress_fini(&progress);
	if (!err)
		err = add_meta(pipeline);
	if (err) {
		log_errno(err, "decode %s", pipeline->dir);
		return pipeline_exit_code(err);
	}
	timeline_count(&pipeline->timeline, &pipeline->totals);
	report_missing(pipeline->space);
	return EXIT_DONE;
}

void pipeline_fini(struct pipeline *pipeline)
{
	if (pipeline->has_timeline)
		timeline_fini(&pipeline->timeline);
	if (pipeline->space)
		space_free(pipeline->space);
	meta_fini(&pipeline->meta);
	recording_fini(&pipeline->recording);
	free(pipeline->dir);
	*pipeline = (struct pipeline){ 0 };
}

struct output_filter pipeline_filter(const struct options *options)
{
	return (struct output_filter){
		.tid = options->thread,
		.max_depth = options->depth,
		.min_duration_ns = options->min_duration_ns,
		.has_from = options->has_from,
		.has_to = options->has_to,
		.from_ns = options->from_ns,
		.to_ns = options->to_ns,
	};
}
