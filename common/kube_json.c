/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts what the API server sends into objects, without building a tree: a list of 500 pods is some
 * megabytes, of which this file needs two texts and the borders of the items; the consumer decodes
 * each item once. Pure functions on bytes of any origin; every value is validated by the scanner
 * before its span is handed out.
 *
 * A Status object (the cause of a failure) is small and rare: jansson reads it.
 */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/json_scan.h"
#include "common/kube_impl.h"

/* A continue token is some 200 bytes; kube-apiserver bounds the request line far below this. */
#define CONTINUE_MAX_BYTES 65536
/* etcd takes objects of 1.5 MiB; escapes and managed fields of JSON may make more of it. */
#define MAX_LINE_BYTES     (32u << 20)
/* A Status is small; a larger error body comes from something else (a proxy's page). */
#define STATUS_MAX_BYTES   65536

static int malformed(struct kw_err *err, const char *what, const struct kw_json *json)
{
    return kw_err_set(err, -EPROTO, "%s: %s", what,
                      json->error != NULL ? json->error : "no such object");
}

/* The value that comes next, whole; of a STRING what is between its quotes. */
static enum kw_json_type value_of(struct kw_json *json, struct kw_json_token *ret)
{
    enum kw_json_type type = kw_json_skip(json, ret);

    if (type == KW_JSON_STRING) {
        ret->at++;
        ret->len -= 2;
        ret->escaped = memchr(ret->at, '\\', ret->len) != NULL;
    }
    return type;
}

/* A STRING as text; "" stays NULL. @return 0; -EPROTO no string or longer than `max`; -ENOMEM */
static int string_of(const struct kw_json_token *token, size_t max, char **ret)
{
    if (token->type != KW_JSON_STRING || token->len > max)
        return -EPROTO;
    if (token->len == 0)
        return 0;
    char *text = malloc(token->len + 1);
    if (text == NULL)
        return -ENOMEM;
    /* a NUL inside would cut the text: nothing that we ask the server with may hold one */
    size_t len = kw_json_unescape(token, text);
    if (strlen(text) != len) {
        free(text);
        return -EPROTO;
    }
    free(*ret);
    *ret = text;
    return 0;
}

static int cut_metadata(const struct kw_json_token *span, struct kw_kube_page *page)
{
    struct kw_json_token key, value;
    struct kw_json json;
    int r = 0;

    kw_json_begin(&json, span->at, span->len);
    if (kw_json_next(&json, &key) != KW_JSON_OBJECT)
        return -EPROTO;
    while (r == 0 && kw_json_next(&json, &key) == KW_JSON_KEY) {
        if (value_of(&json, &value) == KW_JSON_ERROR)
            return -EPROTO;
        if (value.type == KW_JSON_NULL)
            continue;
        if (kw_json_equals(&key, "resourceVersion", false))
            r = string_of(&value, KW_KUBE_VERSION_BYTES - 1, &page->version);
        else if (kw_json_equals(&key, "continue", false))
            r = string_of(&value, CONTINUE_MAX_BYTES, &page->next);
    }
    return r;
}

static int cut_items(struct kw_json *json, kw_kube_item_fn fn, void *user, struct kw_err *err)
{
    struct kw_json_token span;

    switch (kw_json_next(json, &span)) {
    case KW_JSON_NULL: return 0; /* Go's encoding of an empty slice */
    case KW_JSON_ARRAY: break;
    default: return malformed(err, "items", json);
    }
    for (;;) {
        switch (kw_json_skip(json, &span)) {
        case KW_JSON_ARRAY_END: return 0;
        case KW_JSON_OBJECT: break;
        default: return malformed(err, "items", json);
        }
        if (!fn(user, span.at, span.len))
            return kw_err_set(err, -ECANCELED, "stopped");
    }
}

void kw_kube_page_free(struct kw_kube_page *page)
{
    free(page->version);
    free(page->next);
    *page = (struct kw_kube_page){0};
}

/* Also without a resourceVersion. @param page filled; freed by the caller, also on failure */
static int walk_list(const char *bytes, size_t len, kw_kube_item_fn fn, void *user,
                     struct kw_kube_page *page, struct kw_err *err)
{
    enum kw_json_type type;
    struct kw_json_token key, span;
    struct kw_json json;
    bool items = false;
    int r = 0;

    kw_json_begin(&json, bytes, len);
    if (kw_json_next(&json, &key) != KW_JSON_OBJECT)
        return malformed(err, "list", &json);
    while ((type = kw_json_next(&json, &key)) == KW_JSON_KEY) {
        if (!items && kw_json_equals(&key, "items", false)) {
            items = true;
            r = cut_items(&json, fn, user, err);
        } else if (kw_json_skip(&json, &span) == KW_JSON_ERROR) {
            return malformed(err, "list", &json);
        } else if (kw_json_equals(&key, "metadata", false)) {
            r = cut_metadata(&span, page);
            if (r < 0)
                (void)kw_err_set(err, r, "list: metadata: not as expected");
        }
        if (r < 0)
            return r;
    }
    if (type != KW_JSON_OBJECT_END || kw_json_next(&json, &key) != KW_JSON_END)
        return malformed(err, "list", &json);
    return items ? 0 : kw_err_set(err, -EPROTO, "list: no items");
}

int kw_kube_cut_list(const char *bytes, size_t len, kw_kube_item_fn fn, void *user,
                     struct kw_kube_page *ret, struct kw_err *err)
{
    kw_cleanup(kw_kube_page_free) struct kw_kube_page page = {0};
    int r = walk_list(bytes, len, fn, user, &page, err);

    if (r < 0)
        return r;
    if (page.version == NULL)
        return kw_err_set(err, -EPROTO, "list: no resourceVersion");
    *ret = page;
    page = (struct kw_kube_page){0};
    return 0;
}

int kw_kube_items(const char *bytes, size_t len, kw_kube_item_fn fn, void *user, struct kw_err *err)
{
    kw_cleanup(kw_kube_page_free) struct kw_kube_page page = {0};

    return walk_list(bytes, len, fn, user, &page, err);
}

/* metadata.resourceVersion of an object whose JSON was validated before. */
static int version_of(const char *bytes, size_t len, char out[static KW_KUBE_VERSION_BYTES])
{
    kw_cleanup(kw_kube_page_free) struct kw_kube_page page = {0};
    struct kw_json_token key, value;
    struct kw_json json;

    kw_json_begin(&json, bytes, len);
    if (kw_json_next(&json, &key) != KW_JSON_OBJECT)
        return -EPROTO;
    while (page.version == NULL && kw_json_next(&json, &key) == KW_JSON_KEY) {
        if (value_of(&json, &value) == KW_JSON_ERROR)
            return -EPROTO;
        if (!kw_json_equals(&key, "metadata", false))
            continue;
        int r = cut_metadata(&value, &page);
        if (r < 0)
            return r;
    }
    if (page.version == NULL)
        return -EPROTO;
    memcpy(out, page.version, strlen(page.version) + 1);
    return 0;
}

int kw_kube_cut_line(const char *bytes, size_t len, struct kw_kube_line *ret, struct kw_err *err)
{
    static const char *const names[] = {"ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"};
    _Static_assert(KW_ARRAY_SIZE(names) == KW_KUBE_LINE__MAX, "one name each");
    struct kw_kube_line line = {.type = KW_KUBE_LINE__MAX};
    enum kw_json_type type;
    struct kw_json_token key, value;
    struct kw_json json;

    kw_json_begin(&json, bytes, len);
    if (kw_json_next(&json, &key) != KW_JSON_OBJECT)
        return malformed(err, "watch event", &json);
    while ((type = kw_json_next(&json, &key)) == KW_JSON_KEY) {
        if (value_of(&json, &value) == KW_JSON_ERROR)
            return malformed(err, "watch event", &json);
        if (kw_json_equals(&key, "object", false) && value.type == KW_JSON_OBJECT) {
            line.object = value.at;
            line.object_len = value.len;
        } else if (kw_json_equals(&key, "type", false) && value.type == KW_JSON_STRING) {
            line.type = 0;
            while (line.type < KW_KUBE_LINE__MAX &&
                   !kw_json_equals(&value, names[line.type], false))
                line.type++;
        }
    }
    if (type != KW_JSON_OBJECT_END || kw_json_next(&json, &key) != KW_JSON_END)
        return malformed(err, "watch event", &json);
    if (line.type == KW_KUBE_LINE__MAX || line.object == NULL)
        return kw_err_set(err, -EPROTO, "watch event: no known type, or no object");
    if (line.type != KW_KUBE_LINE_ERROR) {
        int r = version_of(line.object, line.object_len, line.version);
        if (r < 0)
            return kw_err_set(err, r, "watch event: object without a resourceVersion");
    }
    *ret = line;
    return 0;
}

void kw_kube_status_parse(const char *bytes, size_t len, struct kw_kube_status *ret)
{
    json_t *root =
        len <= STATUS_MAX_BYTES ? json_loadb(bytes, len, JSON_REJECT_DUPLICATES, NULL) : NULL;
    const char *message = json_string_value(json_object_get(root, "message"));
    json_int_t code = json_integer_value(json_object_get(root, "code"));

    *ret = (struct kw_kube_status){0};
    if (code >= 100 && code < 1000)
        ret->code = (unsigned)code;
    if (message != NULL)
        (void)snprintf(ret->message, sizeof(ret->message), "%s", message);
    for (char *c = ret->message; *c != '\0'; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            *c = ' ';
    json_decref(root);
}

int kw_kube_status_error(const char *method, const char *server, const char *path, unsigned status,
                         const char *body, size_t len, struct kw_err *err)
{
    struct kw_kube_status said;
    int code;

    switch (status) {
    case 401:
    case 403: code = -EACCES; break;
    case 404: code = -ENOENT; break;
    case 409: code = -EEXIST; break;
    case 429: code = -EBUSY; break;
    default: code = -EREMOTEIO; break;
    }
    kw_kube_status_parse(body, len, &said);
    return kw_err_set(err, code, "%s %s%.*s: %u%s%s", method, server, (int)strcspn(path, "?"), path,
                      status, said.message[0] != '\0' ? ": " : "", said.message);
}

int kw_kube_url_encode(struct kw_buf *url, const char *text)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

    while (*text != '\0') {
        size_t n = strspn(text, plain);
        (void)kw_buf_add(url, text, n);
        text += n;
        if (*text != '\0')
            (void)kw_buf_addf(url, "%%%02X", (unsigned char)*text++);
    }
    return url->failed ? -ENOMEM : 0;
}

int kw_kube_lines_feed(struct kw_kube_lines *lines, const char *bytes, size_t len,
                       kw_kube_line_fn fn, void *user)
{
    struct kw_buf *buf = &lines->buf;
    size_t begin = 0;
    int r = 0;

    if (len == 0)
        return 0;
    if (len > MAX_LINE_BYTES - buf->len)
        return -EFBIG;
    if (kw_buf_add(buf, bytes, len) < 0)
        return -ENOMEM;
    while (r == 0) {
        const char *newline = memchr(buf->data + lines->scanned, '\n', buf->len - lines->scanned);
        if (newline == NULL) {
            lines->scanned = buf->len;
            break;
        }
        size_t end = (size_t)(newline - buf->data);
        if (end > begin)
            r = fn(user, buf->data + begin, end - begin);
        begin = end + 1;
        lines->scanned = begin;
    }
    if (begin > 0) {
        memmove(buf->data, buf->data + begin, buf->len - begin);
        buf->len -= begin;
        lines->scanned -= begin;
    }
    return r;
}

void kw_kube_lines_free(struct kw_kube_lines *lines)
{
    kw_buf_free(&lines->buf);
    lines->scanned = 0;
}
