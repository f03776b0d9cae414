// SPDX-License-Identifier: GPL-2.0-only
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <json-c/json.h>
#include <limits.h>
#include <stdarg.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "snapshot/meta_fields.h"

#define MAX_FILE (256u << 20)
#define MAX_DEPTH 16

static void put_object(json_object **object)
{
	json_object_put(*object);
}

static void put_tokener(json_tokener **tokener)
{
	if (*tokener)
		json_tokener_free(*tokener);
}

struct reason {
	char *text;
	size_t size;
};

static int __attribute__((format(printf, 3, 4)))
fail(const struct reason *why, int err, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(why->text, why->size, fmt, args);
	va_end(args);
	return err;
}

static int get_unsigned(json_object *value, uint64_t max, uint64_t *out)
{
	if (!json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
		return -EINVAL;
	*out = json_object_get_uint64(value);
	return *out <= max ? 0 : -EINVAL;
}

static int get_int(json_object *value, int *out)
{
	int64_t wide;

	if (!json_object_is_type(value, json_type_int))
		return -EINVAL;
	wide = json_object_get_int64(value);
	if (wide < INT_MIN || wide > INT_MAX)
		return -EINVAL;
	*out = (int)wide;
	return 0;
}

static int get_hex(json_object *value, uint64_t *out)
{
	const char *text;
	char *end;

	if (!json_object_is_type(value, json_type_string))
		return get_unsigned(value, UINT64_MAX, out);
	text = json_object_get_string(value);
	if (text[0] != '0' || text[1] != 'x' || text[2] == '\0' || text[2] == '-')
		return -EINVAL;
	errno = 0;
	*out = strtoull(text, &end, 16);
	return *end || errno ? -EINVAL : 0;
}

static int get_hex6(json_object *value, uint64_t *out)
{
	int err = 0;

	if (!json_object_is_type(value, json_type_array) || json_object_array_length(value) > 6)
		return -EINVAL;
	for (size_t i = 0; !err && i < json_object_array_length(value); i++)
		err = get_hex(json_object_array_get_idx(value, i), &out[i]);
	return err;
}

static int get_string(json_object *value, char **out)
{
	char *copy;

	if (!json_object_is_type(value, json_type_string))
		return -EINVAL;
	copy = strdup(json_object_get_string(value));
	if (!copy)
		return -ENOMEM;
	free(*out);
	*out = copy;
	return 0;
}

static int get_comm(json_object *value, char *out)
{
	if (!json_object_is_type(value, json_type_string))
		return -EINVAL;
	snprintf(out, 16, "%s", json_object_get_string(value));
	return 0;
}

static int get_double(json_object *value, double *out)
{
	if (!json_object_is_type(value, json_type_double) &&
	    !json_object_is_type(value, json_type_int))
		return -EINVAL;
	*out = json_object_get_double(value);
	return 0;
}

static int get_value(const struct meta_field *field, json_object *value, void *at)
{
	uint64_t wide = 0;
	int err = 0;

	switch (field->type) {
	case META_U64:
		return get_unsigned(value, UINT64_MAX, at);
	case META_U32:
		err = get_unsigned(value, UINT32_MAX, &wide);
		*(uint32_t *)at = (uint32_t)wide;
		return err;
	case META_U16:
		err = get_unsigned(value, UINT16_MAX, &wide);
		*(uint16_t *)at = (uint16_t)wide;
		return err;
	case META_PID:
	case META_INT:
		return get_int(value, at);
	case META_BOOL:
		*(bool *)at = json_object_get_boolean(value);
		return json_object_is_type(value, json_type_boolean) ? 0 : -EINVAL;
	case META_DOUBLE:
		return get_double(value, at);
	case META_STRING:
		return get_string(value, at);
	case META_COMM:
		return get_comm(value, at);
	case META_HEX:
		return get_hex(value, at);
	case META_HEX6:
		return get_hex6(value, at);
	}
	return -EINVAL;
}

static int get_fields(json_object *object, const struct meta_section *section, void *base,
		      const struct reason *why)
{
	for (size_t i = 0; i < section->n_fields; i++) {
		const struct meta_field *field = &section->fields[i];
		json_object *value;
		int err;

		/* A member that is null counts as missing. */
		if (!json_object_object_get_ex(object, field->key, &value) || !value)
			continue;
		err = get_value(field, value, (char *)base + field->offset);
		if (err)
			return fail(why, err, "member %s%s%s has a value that it cannot have",
				    section->key ? section->key : "", section->key ? "." : "",
				    field->key);
	}
	return 0;
}

static int get_section(json_object *top, const struct meta_section *section, struct meta *meta,
		       const struct reason *why)
{
	json_object *object = top;

	if (section->key && (!json_object_object_get_ex(top, section->key, &object) || !object))
		return 0;
	if (!json_object_is_type(object, json_type_object))
		return fail(why, -EINVAL, "member %s is not an object", section->key);
	return get_fields(object, section, meta, why);
}

/* The array under @key; an empty *array when it is missing. */
static int get_array(json_object *top, const char *key, json_object **array, size_t *n,
		     const struct reason *why)
{
	*n = 0;
	if (!json_object_object_get_ex(top, key, array) || !*array)
		return 0;
	if (!json_object_is_type(*array, json_type_array))
		return fail(why, -EINVAL, "member %s is not an array", key);
	*n = json_object_array_length(*array);
	return 0;
}

/* Appends one zeroed element for each object of the array and fills it. */
#define GET_ARRAY(top, section, vec, why)                                               \
	({                                                                              \
		json_object *array_ = NULL;                                             \
		size_t n_;                                                              \
		int err_ = get_array((top), (section)->key, &array_, &n_, (why));       \
                                                                                        \
		if (!err_)                                                              \
			err_ = vec_reserve((vec), n_);                                  \
		for (size_t i_ = 0; !err_ && i_ < n_; i_++) {                           \
			json_object *element_ = json_object_array_get_idx(array_, i_);  \
			__typeof__((vec)->data) at_ = &(vec)->data[(vec)->len++];       \
                                                                                        \
			memset(at_, 0, sizeof(*at_));                                   \
			if (!json_object_is_type(element_, json_type_object))           \
				err_ = fail((why), -EINVAL, "%s[%zu] is not an object", \
					    (section)->key, i_);                        \
			else                                                            \
				err_ = get_fields(element_, (section), at_, (why));     \
		}                                                                       \
		err_;                                                                   \
	})

static int get_warnings(json_object *top, struct meta *meta, const struct reason *why)
{
	json_object *array = NULL;
	size_t n;
	int err = get_array(top, "warnings", &array, &n, why);

	if (!err)
		err = vec_reserve(&meta->warnings, n);
	for (size_t i = 0; !err && i < n; i++) {
		char *text = NULL;

		err = get_string(json_object_array_get_idx(array, i), &text);
		if (err)
			return fail(why, err, "warnings[%zu] is not a text", i);
		meta->warnings.data[meta->warnings.len++] = text;
	}
	return err;
}

static int check_format(json_object *top, uint32_t *version, const struct reason *why)
{
	json_object *value;
	uint64_t wide;

	if (!json_object_is_type(top, json_type_object) ||
	    !json_object_object_get_ex(top, "format", &value) ||
	    !json_object_is_type(value, json_type_string) ||
	    strcmp(json_object_get_string(value), META_FORMAT))
		return fail(why, -EINVAL, "not a description of a ptbpf snapshot");
	if (!json_object_object_get_ex(top, "version", &value) ||
	    get_unsigned(value, UINT32_MAX, &wide) || wide == 0)
		return fail(why, -EINVAL, "no version in it");
	if (wide > META_VERSION)
		return fail(why, -ENOTSUP, "version %" PRIu64 " is newer than this ptbpf's %u",
			    wide, META_VERSION);
	*version = (uint32_t)wide;
	return 0;
}

static int extract(json_object *top, struct meta *meta, const struct reason *why)
{
	int err = check_format(top, &meta->version, why);

	for (size_t i = 0; !err && i < META_SECTIONS; i++)
		err = get_section(top, &meta_sections[i], meta, why);
	if (!err)
		err = GET_ARRAY(top, &meta_count_section, &meta->counts, why);
	if (!err)
		err = GET_ARRAY(top, &meta_thread_section, &meta->threads, why);
	if (!err)
		err = GET_ARRAY(top, &meta_budget_event_section, &meta->budget_events, why);
	return err ? err : get_warnings(top, meta, why);
}

static int read_file(int dir_fd, const char *name, char **text, size_t *size,
		     const struct reason *why)
{
	scoped_fd int fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	scoped_free char *buf = NULL;
	struct stat st;
	size_t len = 0;

	if (fd < 0 || fstat(fd, &st))
		return fail(why, -errno, "%s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return fail(why, -EINVAL, "not a regular file");
	if (st.st_size > MAX_FILE)
		return fail(why, -EFBIG, "larger than %u MiB", MAX_FILE >> 20);
	buf = malloc((size_t)st.st_size + 1);
	if (!buf)
		return fail(why, -ENOMEM, "out of memory");
	while (len < (size_t)st.st_size) {
		const ssize_t n = read(fd, buf + len, (size_t)st.st_size - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fail(why, -errno, "%s", strerror(errno));
		if (n == 0)
			break;
		len += (size_t)n;
	}
	*text = TAKE_PTR(buf);
	*size = len;
	return 0;
}

static int parse(const char *text, size_t size, json_object **top, const struct reason *why)
{
	scoped(put_tokener) json_tokener *tokener = json_tokener_new_ex(MAX_DEPTH);
	enum json_tokener_error error;

	if (!tokener)
		return fail(why, -ENOMEM, "out of memory");
	json_tokener_set_flags(tokener, JSON_TOKENER_STRICT | JSON_TOKENER_VALIDATE_UTF8 |
						JSON_TOKENER_ALLOW_TRAILING_CHARS);
	*top = json_tokener_parse_ex(tokener, text, (int)size);
	error = json_tokener_get_error(tokener);
	if (error == json_tokener_continue)
		return fail(why, -EINVAL, "cut off after %zu bytes", size);
	if (error != json_tokener_success)
		return fail(why, -EINVAL, "at byte %zu: %s", json_tokener_get_parse_end(tokener),
			    json_tokener_error_desc(error));
	return 0;
}

int meta_read(int dir_fd, const char *name, struct meta *meta, char *why, size_t why_size)
{
	const struct reason reason = { why, why_size };
	scoped(put_object) json_object *top = NULL;
	scoped_free char *text = NULL;
	size_t size = 0;
	int err;

	memset(meta, 0, sizeof(*meta));
	snprintf(why, why_size, "out of memory");
	err = read_file(dir_fd, name, &text, &size, &reason);
	if (!err)
		err = parse(text, size, &top, &reason);
	if (!err)
		err = extract(top, meta, &reason);
	if (err)
		meta_fini(meta);
	return err;
}
