/* SPDX-License-Identifier: GPL-2.0-only */
/* Limits of this process. */
#ifndef PTBPF_BASE_LIMITS_H
#define PTBPF_BASE_LIMITS_H

/*
 * As many open files as the hard limit allows: each ring is one. Children inherit it, so it is
 * called when the traced command, whose limits are its own affair, has been started.
 */
void limits_raise_files(void);

#endif
