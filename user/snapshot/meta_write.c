// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "snapshot/meta_fields.h"
#include "snapshot/sink.h"

static void put_object(json_object **object)
{
	json_object_put(*object);
}

/* Length of the well-formed UTF-8 sequence at @s, of @size bytes; 0: none. */
static size_t utf8_length(const unsigned char *s, size_t size)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	const size_t n = s[0] < 0x80 ? 1 :
			 s[0] < 0xc0 ? 0 :
			 s[0] < 0xe0 ? 2 :
			 s[0] < 0xf0 ? 3 :
			 s[0] < 0xf8 ? 4 :
				       0;
	uint32_t code = n < 2 ? s[0] : s[0] & (0x7fu >> n);

	if (n > size)
		return 0;
	for (size_t i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		code = code << 6 | (s[i] & 0x3f);
	}
	if (n > 1 && (code < least[n] || code > 0x10ffff || (code >= 0xd800 && code < 0xe000)))
		return 0;
	return n;
}

/* JSON text is UTF-8; comm and argv may be any bytes: those that are not UTF-8 become "\xHH". */
static json_object *new_string(const char *text, size_t size)
{
	scoped_free char *clean = malloc(4 * size + 1);
	size_t len = 0;

	if (!clean)
		return NULL;
	for (size_t i = 0; i < size;) {
		const size_t n = utf8_length((const unsigned char *)text + i, size - i);

		if (n) {
			memcpy(clean + len, text + i, n);
			len += n;
			i += n;
		} else {
			len += (size_t)sprintf(clean + len, "\\x%02x", (unsigned char)text[i++]);
		}
	}
	return json_object_new_string_len(clean, (int)len);
}

static json_object *new_hex(uint64_t value)
{
	char text[32];

	snprintf(text, sizeof(text), "0x%" PRIx64, value);
	return json_object_new_string(text);
}

/* The shortest text that reads back as the same number. */
static json_object *new_double(double value)
{
	char text[40];

	if (!isfinite(value))
		value = 0;
	snprintf(text, sizeof(text), "%.15g", value);
	if (strtod(text, NULL) != value)
		snprintf(text, sizeof(text), "%.17g", value);
	return json_object_new_double_s(value, text);
}

static json_object *new_hex_array(const uint64_t *values, size_t n)
{
	scoped(put_object) json_object *array = json_object_new_array();

	for (size_t i = 0; i < n; i++) {
		json_object *value = new_hex(values[i]);

		if (!array || !value || json_object_array_add(array, value)) {
			json_object_put(value);
			return NULL;
		}
	}
	return TAKE_PTR(array);
}

static json_object *new_value(const struct meta_field *field, const void *at)
{
	switch (field->type) {
	case META_U64:
		return json_object_new_uint64(*(const uint64_t *)at);
	case META_U32:
		return json_object_new_uint64(*(const uint32_t *)at);
	case META_U16:
		return json_object_new_uint64(*(const uint16_t *)at);
	case META_PID:
		return json_object_new_int(*(const pid_t *)at);
	case META_INT:
		return json_object_new_int(*(const int *)at);
	case META_BOOL:
		return json_object_new_boolean(*(const bool *)at);
	case META_DOUBLE:
		return new_double(*(const double *)at);
	case META_STRING:
		return new_string(*(char *const *)at, strlen(*(char *const *)at));
	case META_COMM:
		return new_string(at, strnlen(at, 16));
	case META_HEX:
		return new_hex(*(const uint64_t *)at);
	case META_HEX6:
		return new_hex_array(at, 6);
	}
	return NULL;
}

/* Takes @value over, also on failure. */
static int add(json_object *object, const char *key, json_object *value)
{
	if (!value)
		return -ENOMEM;
	if (json_object_object_add(object, key, value)) {
		json_object_put(value);
		return -ENOMEM;
	}
	return 0;
}

static int add_fields(json_object *object, const struct meta_section *section, const void *base)
{
	for (size_t i = 0; i < section->n_fields; i++) {
		const struct meta_field *field = &section->fields[i];
		const void *at = (const char *)base + field->offset;
		int err;

		if (field->type == META_STRING && !*(char *const *)at)
			continue;
		err = add(object, field->key, new_value(field, at));
		if (err)
			return err;
	}
	return 0;
}

static int add_array(json_object *top, const struct meta_section *section, const void *data,
		     size_t len, size_t elem_size)
{
	json_object *array = json_object_new_array();
	int err = add(top, section->key, array);

	for (size_t i = 0; !err && i < len; i++) {
		scoped(put_object) json_object *element = json_object_new_object();

		if (!element)
			return -ENOMEM;
		err = add_fields(element, section, (const char *)data + i * elem_size);
		if (!err && json_object_array_add(array, element))
			return -ENOMEM;
		if (!err)
			element = NULL;
	}
	return err;
}

/* Members for people and jq that restate others; the reader ignores them. */
static int add_readable(json_object *top, const struct meta *meta)
{
	json_object *target = json_object_object_get(top, "target");
	const time_t seconds = (time_t)(meta->wall_time_ns / 1000000000u);
	char text[64];
	struct tm tm;
	int err = 0;

	if (gmtime_r(&seconds, &tm) && strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm))
		err = add(top, "wall_time", json_object_new_string(text));
	if (err || !meta->target_exited)
		return err;
	if (WIFEXITED(meta->target_status))
		return add(target, "exit_code",
			   json_object_new_int(WEXITSTATUS(meta->target_status)));
	if (WIFSIGNALED(meta->target_status))
		return add(target, "signal", json_object_new_int(WTERMSIG(meta->target_status)));
	return 0;
}

static int build(json_object *top, const struct meta *meta)
{
	int err = add(top, "format", json_object_new_string(META_FORMAT));

	if (!err)
		err = add(top, "version", json_object_new_int(META_VERSION));
	for (size_t i = 0; !err && i < META_SECTIONS; i++) {
		const struct meta_section *section = &meta_sections[i];
		json_object *object = top;

		if (section->key) {
			object = json_object_new_object();
			err = add(top, section->key, object);
		}
		if (!err)
			err = add_fields(object, section, meta);
	}
	if (!err)
		err = add_array(top, &meta_count_section, meta->counts.data, meta->counts.len,
				sizeof(*meta->counts.data));
	if (!err)
		err = add_array(top, &meta_thread_section, meta->threads.data, meta->threads.len,
				sizeof(*meta->threads.data));
	if (!err)
		err = add_array(top, &meta_budget_event_section, meta->budget_events.data,
				meta->budget_events.len, sizeof(*meta->budget_events.data));
	return err ? err : add_readable(top, meta);
}

static int add_warnings(json_object *top, const struct meta *meta)
{
	json_object *array = json_object_new_array();
	int err = add(top, "warnings", array);
	char *const *warning;

	if (err)
		return err;
	vec_for_each(warning, &meta->warnings) {
		json_object *text = new_string(*warning, strlen(*warning));

		if (!text || json_object_array_add(array, text)) {
			json_object_put(text);
			return -ENOMEM;
		}
	}
	return 0;
}

/* A reader sees the old file or the new one, never a part. */
static int replace_file(int dir_fd, const char *name, const char *text, size_t len)
{
	scoped_free char *temporary = NULL;
	struct sink sink;
	scoped_fd int fd = -1;
	int err;

	if (asprintf(&temporary, "%s.new", name) < 0) {
		temporary = NULL;
		return -ENOMEM;
	}
	fd = openat(dir_fd, temporary, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	sink_init(&sink, fd);
	sink_write(&sink, text, len);
	sink_write(&sink, "\n", 1);
	err = sink_flush(&sink);
	if (!err && renameat(dir_fd, temporary, dir_fd, name))
		err = -errno;
	if (err)
		unlinkat(dir_fd, temporary, 0);
	return err;
}

int meta_write(int dir_fd, const char *name, const struct meta *meta)
{
	scoped(put_object) json_object *top = json_object_new_object();
	const char *text;
	size_t len;
	int err;

	if (!top)
		return -ENOMEM;
	err = build(top, meta);
	if (!err)
		err = add_warnings(top, meta);
	if (err)
		return err;
	text = json_object_to_json_string_length(
		top, JSON_C_TO_STRING_PRETTY | JSON_C_TO_STRING_NOSLASHESCAPE, &len);
	return text ? replace_file(dir_fd, name, text, len) : -ENOMEM;
}
