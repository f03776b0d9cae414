// SPDX-License-Identifier: GPL-2.0-only
/* ptbpf record: runs a session, decodes each snapshot while it is still private, and reports. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cmd/commands.h"
#include "cmd/live.h"
#include "cmd/pipeline.h"
#include "cmd/summary.h"

struct record {
	const struct options *options;
	struct pipeline_formats formats;
	/* of the snapshot that complete() saw last, for published() */
	struct meta meta;
	struct timeline_totals totals;
	char *trace; /* perfetto's file name */
	char *chain;
	int stdout_err; /* -errno of the first path that could not be printed */
};

static int write_formats(struct record *record, const struct pipeline *pipeline, const char *dir)
{
	const struct output_filter filter = pipeline_filter(record->options);
	int err = 0;

	for (size_t i = 0; record->formats.list[i] && !err; i++) {
		scoped_free char *name = NULL;

		err = pipeline_write(pipeline, record->formats.list[i], &filter, dir, &name);
		if (!err && !strcmp(record->formats.list[i]->name, "perfetto"))
			record->trace = TAKE_PTR(name);
	}
	return err;
}

/* A snapshot that cannot be decoded here and now is still one: it is kept. */
static int complete(void *ctx, const char *part_path, const char *final_path)
{
	struct record *record = ctx;
	scoped(pipeline_fini) struct pipeline pipeline = { 0 };
	int err = 0;

	free(record->trace);
	free(record->chain);
	record->trace = record->chain = NULL;
	record->totals = (struct timeline_totals){ 0 };
	meta_fini(&record->meta);
	record->meta = (struct meta){ 0 };
	if (pipeline_load(part_path, NULL, &pipeline) != EXIT_DONE ||
	    pipeline_decode(&pipeline, record->options->workers) != EXIT_DONE) {
		log_warn("the snapshot is kept without a decoded trace; try 'ptbpf decode %s'",
			 final_path);
	} else {
		record->totals = pipeline.totals;
		record->chain = summary_chain(&pipeline.timeline);
		err = write_formats(record, &pipeline, part_path);
	}
	record->meta = pipeline.meta;
	pipeline.meta = (struct meta){ 0 };
	return err;
}

/* The summary is one message: written at once, so that the command's output does not tear it. */
static void published(void *ctx, const char *final_path)
{
	struct record *record = ctx;
	const struct summary summary = { .meta = &record->meta,
					 .totals = &record->totals,
					 .path = final_path,
					 .trace = record->trace,
					 .chain = record->chain,
					 .multi_thread = record->options->multi_thread };
	scoped_free char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (out) {
		summary_print(out, &summary);
		fclose(out);
		if (size && text[size - 1] == '\n')
			text[size - 1] = '\0';
		log_info("%s", text);
	}
	errno = EIO;
	if ((printf("%s\n", final_path) < 0 || fflush(stdout)) && !record->stdout_err)
		record->stdout_err = -errno;
}

static void report_end(const struct options *options, const struct session_result *result)
{
	char status[64];
	const char *base = options->argv ? strrchr(options->argv[0], '/') : NULL;

	if (options->argv && result->command_ended)
		log_info("%s %s", base ? base + 1 : options->argv[0],
			 summary_status(result->command_status, status, sizeof(status)));
	if (result->aborted)
		log_info("aborted: no snapshot");
}

enum exit_code cmd_record(const struct options *options)
{
	struct session_result result = { 0 };
	scoped(live_fini) struct live live = { 0 };
	struct record record = { .options = options };
	enum exit_code code;

	if (pipeline_parse_formats(options->format ? options->format : "perfetto", &record.formats))
		return EXIT_USAGE;
	code = live_prepare(options, &live);
	if (code != EXIT_DONE)
		return code;
	if (isatty(STDERR_FILENO) && (options->pids.len || options->triggers.len))
		log_info("Ctrl-C takes a snapshot and finishes; twice: without a snapshot");
	live.session.complete = complete;
	live.session.published = published;
	live.session.ctx = &record;
	code = session_run(&live.session, &result);
	report_end(options, &result);
	meta_fini(&record.meta);
	free(record.trace);
	free(record.chain);
	if (record.stdout_err && code == EXIT_DONE) {
		log_errno(record.stdout_err, "write the snapshot's path to stdout");
		code = pipeline_exit_code(record.stdout_err);
	}
	return code;
}
