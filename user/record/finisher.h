/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Writes snapshots behind the session's back: one worker thread, one snapshot at a time, in order.
 * A few may wait; then finisher_push() blocks, so memory is bounded.
 */
#ifndef PTBPF_RECORD_FINISHER_H
#define PTBPF_RECORD_FINISHER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/exit_code.h"
#include "base/vec.h"
#include "record/session.h"
#include "snapshot/meta.h"
#include "snapshot/recording.h"

/* Code that is in no file, as it was in memory. */
struct shot_image {
	pid_t pid;
	uint64_t addr, len;
	uint64_t map_ns; /* the time of the MAP event whose bytes these are */
	char *name; /* "vdso", "anon-7f..": file name under images/, made unique by pid and address
		     */
	uint8_t *bytes;
};

/* All that one snapshot's files are made of; heap, owned. */
struct shot {
	struct recording recording;
	struct meta meta;
	VEC(struct shot_image) images;
};

void shot_free(struct shot *shot);

struct finisher;

int finisher_new(const struct session_options *options, struct finisher **out);
/* Takes the shot over. */
void finisher_push(struct finisher *finisher, struct shot *shot);
/* Readable when it may have become idle; for poll(2) beside signals. */
int finisher_fd(const struct finisher *finisher);
bool finisher_is_idle(struct finisher *finisher);
/* Gives up what is not published yet: its .part directories are removed. */
void finisher_abort(struct finisher *finisher);
/*
 * Waits for all that was pushed (after finisher_abort(): for the one at work). *failure: the first
 * failure's exit code, or EXIT_DONE. Returns how many were published.
 */
uint64_t finisher_drain(struct finisher *finisher, enum exit_code *failure);
/* The command's end, written into every snapshot that was published without it. */
void finisher_set_status(struct finisher *finisher, int status);
void finisher_free(struct finisher *finisher);

#endif
