/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Messages for people, all on stderr. One failure gives one message, logged by the layer that knows
 * the user's noun, with the remedy; lower layers return -errno and stay silent.
 */
#ifndef PTBPF_BASE_LOG_H
#define PTBPF_BASE_LOG_H

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* -q: LOG_ERROR, default LOG_INFO, -v: LOG_DEBUG. */
void log_set_level(enum log_level level);
enum log_level log_get_level(void);

/* "ptbpf: TEXT\n" with "warning: " before a warning; one write(2) a message. */
void log_msg(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_err(...) log_msg(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_msg(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, __VA_ARGS__)

/* Logs "TEXT: strerror" at LOG_ERROR and returns @err (negative errno), for `return
 * log_errno(...)`. */
int log_errno(int err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
