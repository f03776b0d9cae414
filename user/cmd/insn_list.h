/* SPDX-License-Identifier: GPL-2.0-only */
/* ptbpf decode --insn: every instruction of every thread, one a line. */
#ifndef PTBPF_CMD_INSN_LIST_H
#define PTBPF_CMD_INSN_LIST_H

#include <stdio.h>

#include "cmd/options.h"
#include "cmd/pipeline.h"

/*
 * Lines "COMM TID TIME: IP SYMBOL+0xOFF (OBJECT)": TIME in seconds with nine digits, IP in hex; an
 * address without a symbol or object says [unknown]. Obeys --thread, --from and --to.
 */
enum exit_code insn_list(const struct pipeline *pipeline, const struct options *options, FILE *out);

#endif
