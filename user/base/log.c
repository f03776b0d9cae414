// SPDX-License-Identifier: GPL-2.0-only
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static enum log_level current_level = LOG_INFO;

void log_set_level(enum log_level level)
{
	current_level = level;
}

enum log_level log_get_level(void)
{
	return current_level;
}

static void emit(enum log_level level, const char *fmt, va_list args, const char *reason)
{
	char line[4096];
	const size_t room = sizeof(line) - 1; /* the newline always fits */
	size_t used;
	int n;

	n = snprintf(line, room, "ptbpf: %s", level == LOG_WARN ? "warning: " : "");
	used = (size_t)n;
	n = vsnprintf(line + used, room - used, fmt, args);
	used = n < 0 ? used : used + (size_t)n;
	if (reason && used < room) {
		n = snprintf(line + used, room - used, ": %s", reason);
		used += (size_t)n;
	}
	if (used >= room)
		used = room - 1;
	line[used++] = '\n';
	if (write(STDERR_FILENO, line, used) < 0)
		return; /* nowhere left to say it */
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	va_list args;

	if (level > current_level)
		return;
	va_start(args, fmt);
	emit(level, fmt, args, NULL);
	va_end(args);
}

int log_errno(int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	emit(LOG_ERROR, fmt, args, strerror(-err));
	va_end(args);
	return err;
}
