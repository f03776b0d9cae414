/* SPDX-License-Identifier: GPL-2.0-only */
/* Beginning and end of a session; private to session*.c. */
#ifndef PTBPF_RECORD_SESSION_SETUP_H
#define PTBPF_RECORD_SESSION_SETUP_H

#include <stdbool.h>

#include "base/exit_code.h"

struct session;

/* Everything that can refuse before a target is touched. Failures are logged. */
enum exit_code session_open(struct session *session);
/* Starts the command, held, or attaches. */
enum exit_code session_start(struct session *session);
/* Waits for the snapshots to be written; what the session ends with. */
enum exit_code session_finish(struct session *session);
void session_close(struct session *session);

/* What ptbpf exits with after the failure @err. */
enum exit_code session_exit_code(int err);
/* Does the target's end call for a snapshot even after others? */
bool session_wants_exit(const struct session *session);

#endif
