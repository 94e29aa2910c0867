/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading is total: every accessor checks presence, type and range, remembers the first failure
 * with the name of the field, and does nothing after it. A decoder fills a local value and hands it
 * over only when no failure was remembered, so that nothing partial leaves it. The name of the
 * field is the static text that callers get: a log line says which field of whose record, without
 * the bytes.
 *
 * Writing mirrors it: the first failure sticks in *rc, a NULL object counts as out of memory, and
 * kw_put_end drops the tree. Encoders refuse what decoders would refuse (long texts, integers above
 * 2^63-1, bytes that are no UTF-8), so that whatever was written can be read.
 *
 * jansson does not always tell running out of memory from bad syntax while it parses: its lexer
 * reports a token that it could not copy as an invalid one. A decoder may then say -EBADMSG for
 * -ENOMEM; the value is refused either way.
 */
#include "api/codec.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"

void kw_reader_fail(struct kw_reader *reader, int rc, const char *why)
{
    if (reader->rc != 0)
        return;
    reader->rc = rc;
    reader->why = why;
}

int kw_reader_end(const struct kw_reader *reader, const char **ret_why)
{
    if (reader->rc != 0 && ret_why != NULL)
        *ret_why = reader->why;
    return reader->rc;
}

json_t *kw_reader_parse(struct kw_reader *reader, const char *json, size_t len)
{
    json_error_t error;
    /* an annotation or a variable of a pod, which we do not look at, may hold a NUL */
    json_t *root = json_loadb(json, len, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);

    if (root == NULL) {
        /* a failure without a text is an allocation that failed */
        bool no_memory =
            error.text[0] == '\0' || json_error_code(&error) == json_error_out_of_memory;
        kw_reader_fail(reader, no_memory ? -ENOMEM : -EBADMSG,
                       no_memory ? "out of memory" : "not valid JSON");
        return NULL;
    }
    if (!json_is_object(root)) {
        json_decref(root);
        kw_reader_fail(reader, -EBADMSG, "not a JSON object");
        return NULL;
    }
    return root;
}

void kw_get_schema(struct kw_reader *reader, const json_t *object)
{
    uint64_t schema = 0;

    kw_get_u64(reader, object, "schema", KW_REQUIRED, &schema);
    if (schema != KW_SCHEMA)
        kw_reader_fail(reader, -EPROTONOSUPPORT, "schema");
}

const json_t *kw_get(struct kw_reader *reader, const json_t *object, const char *key,
                     json_type type, enum kw_need need)
{
    const json_t *value;

    if (reader->rc != 0)
        return NULL;
    value = json_object_get(object, key);
    if (value == NULL) {
        if (need == KW_REQUIRED)
            kw_reader_fail(reader, -EBADMSG, key);
        return NULL;
    }
    if (json_typeof(value) != type) {
        kw_reader_fail(reader, -EBADMSG, key);
        return NULL;
    }
    return value;
}

static bool get_integer(struct kw_reader *reader, const json_t *object, const char *key,
                        enum kw_need need, int64_t max, int64_t *ret)
{
    const json_t *value = kw_get(reader, object, key, JSON_INTEGER, need);

    if (value == NULL)
        return false;
    json_int_t integer = json_integer_value(value);
    if (integer < 0 || integer > max) {
        kw_reader_fail(reader, -EBADMSG, key);
        return false;
    }
    *ret = integer;
    return true;
}

void kw_get_u64(struct kw_reader *reader, const json_t *object, const char *key, enum kw_need need,
                uint64_t *ret)
{
    int64_t value;

    if (get_integer(reader, object, key, need, INT64_MAX, &value))
        *ret = (uint64_t)value;
}

void kw_get_u32(struct kw_reader *reader, const json_t *object, const char *key, enum kw_need need,
                uint32_t *ret)
{
    int64_t value;

    if (get_integer(reader, object, key, need, UINT32_MAX, &value))
        *ret = (uint32_t)value;
}

void kw_get_time_ms(struct kw_reader *reader, const json_t *object, const char *key,
                    enum kw_need need, int64_t *ret)
{
    int64_t value;

    if (get_integer(reader, object, key, need, INT64_MAX, &value))
        *ret = value;
}

void kw_get_real(struct kw_reader *reader, const json_t *object, const char *key, enum kw_need need,
                 double min, double max, double *ret)
{
    const json_t *value = reader->rc == 0 ? json_object_get(object, key) : NULL;

    if (reader->rc != 0 || (value == NULL && need == KW_OPTIONAL))
        return;
    if (!json_is_number(value) ||
        !(json_number_value(value) >= min && json_number_value(value) <= max)) {
        kw_reader_fail(reader, -EBADMSG, key);
        return;
    }
    *ret = json_number_value(value);
}

void kw_get_bool(struct kw_reader *reader, const json_t *object, const char *key, enum kw_need need,
                 bool *ret)
{
    const json_t *value = reader->rc == 0 ? json_object_get(object, key) : NULL;

    if (value == NULL) {
        if (need == KW_REQUIRED)
            kw_reader_fail(reader, -EBADMSG, key);
        return;
    }
    if (!json_is_boolean(value)) {
        kw_reader_fail(reader, -EBADMSG, key);
        return;
    }
    *ret = json_is_true(value);
}

bool kw_text_has_nul(const json_t *value)
{
    return memchr(json_string_value(value), '\0', json_string_length(value)) != NULL;
}

void kw_get_text(struct kw_reader *reader, const json_t *object, const char *key, enum kw_need need,
                 char *out, size_t size)
{
    const json_t *value = kw_get(reader, object, key, JSON_STRING, need);

    if (value == NULL)
        return;
    size_t len = json_string_length(value);
    if (len >= size || kw_text_has_nul(value)) {
        kw_reader_fail(reader, -EBADMSG, key);
        return;
    }
    memcpy(out, json_string_value(value), len + 1);
}

void kw_get_copy(struct kw_reader *reader, const json_t *object, const char *key, enum kw_need need,
                 char **ret)
{
    const json_t *value = kw_get(reader, object, key, JSON_STRING, need);

    *ret = NULL;
    if (reader->rc != 0)
        return;
    if (value != NULL && (json_string_length(value) > KW_TEXT_MAX || kw_text_has_nul(value))) {
        kw_reader_fail(reader, -EBADMSG, key);
        return;
    }
    *ret = strdup(value != NULL ? json_string_value(value) : "");
    if (*ret == NULL)
        kw_reader_fail(reader, -ENOMEM, "out of memory");
}

json_t *kw_put_document(int *rc)
{
    json_t *object = json_object();

    kw_put_u64(rc, object, "schema", KW_SCHEMA);
    return object;
}

static void put_fail(int *rc, int code)
{
    if (*rc == 0)
        *rc = code;
}

void kw_put(int *rc, json_t *object, const char *key, json_t *value)
{
    /* json_object_set_new takes the reference also when it fails, and refuses NULLs */
    if (json_object_set_new(object, key, value) < 0)
        put_fail(rc, -ENOMEM);
}

void kw_put_element(int *rc, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) < 0)
        put_fail(rc, -ENOMEM);
}

void kw_put_u64(int *rc, json_t *object, const char *key, uint64_t value)
{
    if (value > INT64_MAX) {
        put_fail(rc, -EINVAL);
        return;
    }
    kw_put(rc, object, key, json_integer((json_int_t)value));
}

void kw_put_time_ms(int *rc, json_t *object, const char *key, int64_t value)
{
    if (value < 0) {
        put_fail(rc, -EINVAL);
        return;
    }
    kw_put(rc, object, key, json_integer(value));
}

void kw_put_bool(int *rc, json_t *object, const char *key, bool value)
{
    kw_put(rc, object, key, json_boolean(value));
}

json_t *kw_text_to_json(int *rc, const char *text, size_t max)
{
    size_t len = strnlen(text, max + 1);

    if (len > max) {
        put_fail(rc, -EINVAL);
        return NULL;
    }
    json_t *value = json_stringn(text, len);
    if (value == NULL) {
        /* json_stringn says no more than NULL: what it takes unchecked was no UTF-8 */
        value = json_stringn_nocheck(text, len);
        put_fail(rc, value != NULL ? -EINVAL : -ENOMEM);
        json_decref(value);
        return NULL;
    }
    return value;
}

void kw_put_text(int *rc, json_t *object, const char *key, const char *text, size_t max)
{
    json_t *value = kw_text_to_json(rc, text != NULL ? text : "", max);

    if (value != NULL)
        kw_put(rc, object, key, value);
}

int kw_put_end(int rc, json_t *root, size_t flags, char **ret, size_t *ret_len)
{
    char *text = NULL;

    if (rc == 0) {
        text = json_dumps(root, flags);
        if (text == NULL)
            rc = -ENOMEM;
    }
    json_decref(root);
    if (rc != 0)
        return rc;
    *ret_len = strlen(text);
    *ret = text;
    return 0;
}
