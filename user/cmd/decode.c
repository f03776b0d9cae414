// SPDX-License-Identifier: GPL-2.0-only
/* ptbpf decode: a snapshot again, elsewhere, otherwise. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "cmd/commands.h"
#include "cmd/insn_list.h"
#include "cmd/owner.h"
#include "cmd/pipeline.h"
#include "decode/branch.h"

/* Formats that people and pipes read as they are. */
static bool is_text(const struct output_format *format)
{
	return !strcmp(format->name, "text") || !strcmp(format->name, "json");
}

/* text and json without --output, and anything with --output -. */
static bool goes_to_stdout(const struct options *options, const struct output_format *format)
{
	return options->output ? !strcmp(options->output, "-") : is_text(format);
}

static enum exit_code check_stdout(const struct options *options,
				   const struct pipeline_formats *formats)
{
	size_t n = 0;

	for (size_t i = 0; formats->list[i]; i++) {
		if (!goes_to_stdout(options, formats->list[i]))
			continue;
		n++;
		if (!is_text(formats->list[i]) && isatty(STDOUT_FILENO)) {
			log_err("%s is binary and stdout a terminal; redirect it or give --output "
				"DIR",
				formats->list[i]->name);
			return EXIT_USAGE;
		}
	}
	if (n <= 1)
		return EXIT_DONE;
	log_err("%zu formats cannot share stdout; give --output DIR or one format", n);
	return EXIT_USAGE;
}

static enum exit_code write_stdout(const struct pipeline *pipeline,
				   const struct output_format *format,
				   const struct output_filter *filter)
{
	int err = format->write(stdout, &pipeline->timeline, filter);

	if (!err && fflush(stdout))
		err = -errno;
	if (!err)
		return EXIT_DONE;
	if (err != -EPIPE)
		log_errno(err, "write %s to stdout", format->name);
	return pipeline_exit_code(err);
}

static enum exit_code make_output(const char *dir)
{
	uid_t uid;
	gid_t gid;
	int err;

	if (!mkdir(dir, 0777)) {
		if (owner_find(&uid, &gid) && chown(dir, uid, gid))
			log_debug("%s stays root's: %m", dir);
		return EXIT_DONE;
	}
	if (errno == EEXIST)
		return EXIT_DONE;
	err = -errno;
	log_err("create %s: %s; choose another place with --output", dir, strerror(-err));
	return pipeline_exit_code(err);
}

static enum exit_code write_all(const struct options *options, const struct pipeline *pipeline,
				const struct pipeline_formats *formats)
{
	const struct output_filter filter = pipeline_filter(options);
	const bool to_dir = options->output && strcmp(options->output, "-");
	const char *dir = to_dir ? options->output : pipeline->dir;
	enum exit_code code = to_dir ? make_output(dir) : EXIT_DONE;
	bool content = false;

	for (size_t i = 0; formats->list[i]; i++)
		content |= goes_to_stdout(options, formats->list[i]);
	for (size_t i = 0; formats->list[i] && code == EXIT_DONE; i++) {
		scoped_free char *name = NULL;
		int err;

		if (goes_to_stdout(options, formats->list[i])) {
			code = write_stdout(pipeline, formats->list[i], &filter);
			continue;
		}
		err = pipeline_write(pipeline, formats->list[i], &filter, dir, &name);
		if (err) {
			log_err("write %s into %s: %s; choose another place with --output",
				formats->list[i]->file_name, dir, strerror(-err));
			return pipeline_exit_code(err);
		}
		if (content)
			log_info("wrote %s/%s", dir, name);
		else
			printf("%s/%s\n", dir, name);
	}
	if (code == EXIT_DONE && fflush(stdout)) {
		log_errno(-errno, "write to stdout");
		return EXIT_FAILED;
	}
	return code;
}

/* Says how many gaps came from errors, by class. */
static enum exit_code report_gaps(const struct timeline *timeline)
{
	uint64_t counts[GAP_COUNT] = { 0 };
	const struct thread_timeline *thread;
	enum exit_code code = EXIT_DONE;

	vec_for_each(thread, &timeline->threads) {
		const struct gap *gap;

		vec_for_each(gap, &thread->gaps) {
			if (gap->error && gap->reason < GAP_COUNT)
				counts[gap->reason]++;
		}
	}
	for (int reason = 0; reason < GAP_COUNT; reason++) {
		if (!counts[reason])
			continue;
		log_warn("%llu gap%s caused by an error: %s", (unsigned long long)counts[reason],
			 counts[reason] == 1 ? "" : "s", branch_gap_name((enum branch_gap)reason));
		code = EXIT_DECODE_GAPS;
	}
	return code;
}

enum exit_code cmd_decode(const struct options *options)
{
	scoped(pipeline_fini) struct pipeline pipeline = { 0 };
	struct pipeline_formats formats;
	enum exit_code code;

	signal(SIGXFSZ, SIG_IGN); /* a file as large as allowed is an error to report */
	if (!options->insn &&
	    pipeline_parse_formats(options->format ? options->format : "perfetto", &formats))
		return EXIT_USAGE;
	code = options->insn ? EXIT_DONE : check_stdout(options, &formats);
	if (code == EXIT_DONE)
		code = pipeline_load(options->input, options->symfs, &pipeline);
	if (code != EXIT_DONE)
		return code;
	if (options->insn)
		code = insn_list(&pipeline, options, stdout);
	else
		code = pipeline_decode(&pipeline, options->workers);
	if (code == EXIT_DONE && !options->insn)
		code = write_all(options, &pipeline, &formats);
	if (code == EXIT_DONE && !options->insn)
		code = report_gaps(&pipeline.timeline);
	/* what was cut off is a gap as well, and has been told */
	return code == EXIT_DONE && pipeline.truncated ? EXIT_DECODE_GAPS : code;
}
