/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A tree of jansson's costs an allocation or two for each value and a walk to print it: three
 * quarters of what a sample's records took. Nearly all texts are printable ASCII without quotes and
 * are copied; any other is printed by jansson, so that escapes and UTF-8 have one owner.
 */
#include "api/out.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/codec.h"

/* A record of a pod with one container has 1000 bytes. */
#define FIRST_CAP 2048

static void fail(struct kw_out *out, int rc)
{
    if (out->rc == 0)
        out->rc = rc;
}

/** Room for `extra` bytes and a NUL. @return false after an error. */
static bool reserve(struct kw_out *out, size_t extra)
{
    size_t need = out->len + extra + 1, cap = out->cap < FIRST_CAP ? FIRST_CAP : out->cap;

    if (out->rc != 0)
        return false;
    if (need <= out->cap)
        return true;
    while (cap < need)
        cap *= 2;
    char *data = realloc(out->data, cap);
    if (data == NULL) {
        fail(out, -ENOMEM);
        return false;
    }
    out->data = data;
    out->cap = cap;
    return true;
}

static void add(struct kw_out *out, const char *bytes, size_t len)
{
    if (!reserve(out, len))
        return;
    memcpy(out->data + out->len, bytes, len);
    out->len += len;
}

/** Writes a JSON string by way of jansson: what is no UTF-8 is refused. */
static void add_foreign(struct kw_out *out, const char *text, size_t max)
{
    json_t *value = kw_text_to_json(&out->rc, text, max);
    char *json = value != NULL ? json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT) : NULL;

    if (json != NULL)
        add(out, json, strlen(json));
    else
        fail(out, -ENOMEM);
    free(json);
    json_decref(value);
}

static bool is_plain(char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

static void add_text(struct kw_out *out, const char *text, size_t max)
{
    size_t len = 0;

    while (is_plain(text[len]) && len <= max)
        len++;
    if (text[len] != '\0' || len > max) {
        add_foreign(out, text, max);
        return;
    }
    add(out, "\"", 1);
    add(out, text, len);
    add(out, "\"", 1);
}

/** What stands before a value. */
static void add_key(struct kw_out *out, const char *key)
{
    char last = out->len > 0 ? out->data[out->len - 1] : '{';

    if (last != '{' && last != '[')
        add(out, ",", 1);
    if (key == NULL)
        return;
    add_text(out, key, KW_TEXT_MAX);
    add(out, ":", 1);
}

void kw_out_begin(struct kw_out *out, const char *key, char bracket)
{
    add_key(out, key);
    add(out, &bracket, 1);
}

void kw_out_end(struct kw_out *out, char bracket)
{
    add(out, &bracket, 1);
}

void kw_out_u64(struct kw_out *out, const char *key, uint64_t value)
{
    char digits[20]; /* 2^64 has as many */
    size_t at = sizeof(digits);

    if (value > INT64_MAX) {
        fail(out, -EINVAL);
        return;
    }
    do {
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    } while (value > 0);
    add_key(out, key);
    add(out, digits + at, sizeof(digits) - at);
}

void kw_out_time_ms(struct kw_out *out, const char *key, int64_t value)
{
    kw_out_u64(out, key, value < 0 ? UINT64_MAX : (uint64_t)value);
}

void kw_out_bool(struct kw_out *out, const char *key, bool value)
{
    kw_out_json(out, key, value ? "true" : "false", value ? 4 : 5);
}

void kw_out_text(struct kw_out *out, const char *key, const char *text, size_t max)
{
    add_key(out, key);
    add_text(out, text != NULL ? text : "", max);
}

void kw_out_json(struct kw_out *out, const char *key, const char *json, size_t len)
{
    add_key(out, key);
    add(out, json, len);
}

int kw_out_take(struct kw_out *out, char **ret, size_t *ret_len)
{
    struct kw_out done = *out;

    *out = (struct kw_out){0};
    if (done.rc == 0 && !reserve(&done, 0))
        done.rc = -ENOMEM;
    if (done.rc != 0) {
        free(done.data);
        return done.rc;
    }
    done.data[done.len] = '\0';
    *ret = done.data;
    *ret_len = done.len;
    return 0;
}
