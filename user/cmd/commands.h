/* SPDX-License-Identifier: GPL-2.0-only */
/* One function a command: options in, exit code out; every failure has been logged. */
#ifndef PTBPF_CMD_COMMANDS_H
#define PTBPF_CMD_COMMANDS_H

#include "base/exit_code.h"
#include "cmd/options.h"

enum exit_code cmd_record(const struct options *options);
enum exit_code cmd_decode(const struct options *options);
enum exit_code cmd_plan(const struct options *options);
enum exit_code cmd_doctor(const struct options *options);

#endif
