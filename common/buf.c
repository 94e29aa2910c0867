/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/utf8.h"

/* First allocation: holds a short line, and is what malloc hands out anyway. */
#define FIRST_CAP 64

void kw_buf_free(struct kw_buf *buf)
{
    free(buf->data);
    *buf = (struct kw_buf){0};
}

void kw_buf_reset(struct kw_buf *buf)
{
    buf->len = 0;
    buf->failed = false;
    if (buf->data != NULL)
        buf->data[0] = '\0';
}

int kw_buf_reserve(struct kw_buf *buf, size_t extra)
{
    if (extra > SIZE_MAX / 2 - 1 - buf->len) {
        buf->failed = true;
        return -ENOMEM;
    }
    size_t need = buf->len + extra + 1; /* the NUL */
    if (need <= buf->cap)
        return 0;
    /* Doubling keeps a run of appends linear; need <= SIZE_MAX / 2, so it cannot overflow. */
    size_t cap = buf->cap < FIRST_CAP ? FIRST_CAP : buf->cap;
    while (cap < need)
        cap *= 2;
    char *data = realloc(buf->data, cap);
    if (data == NULL) {
        buf->failed = true;
        return -ENOMEM;
    }
    data[buf->len] = '\0';
    buf->data = data;
    buf->cap = cap;
    return 0;
}

int kw_buf_add(struct kw_buf *buf, const void *bytes, size_t len)
{
    int rc = kw_buf_reserve(buf, len);
    if (rc < 0)
        return rc;
    if (len > 0)
        memcpy(buf->data + buf->len, bytes, len);
    buf->len += len;
    buf->data[buf->len] = '\0';
    return 0;
}

int kw_buf_adds(struct kw_buf *buf, const char *text)
{
    return kw_buf_add(buf, text, strlen(text));
}

int kw_buf_addf(struct kw_buf *buf, const char *format, ...)
{
    /* Most texts fit into what is there; the second round has the exact size. */
    int rc = kw_buf_reserve(buf, 0);
    for (int round = 0; rc == 0 && round < 2; round++) {
        size_t room = buf->cap - buf->len;
        va_list args;
        va_start(args, format);
        int wanted = vsnprintf(buf->data + buf->len, room, format, args);
        va_end(args);
        if (wanted >= 0 && (size_t)wanted < room) {
            buf->len += (size_t)wanted;
            return 0;
        }
        buf->data[buf->len] = '\0'; /* takes back the part that fitted */
        if (wanted < 0)
            break;
        rc = kw_buf_reserve(buf, (size_t)wanted);
    }
    buf->failed = true;
    return -ENOMEM;
}

/* Bytes at the start of text that stand for themselves in a JSON string. */
static size_t plain_run(const char *text, size_t len)
{
    size_t n = 0;
    while (n < len) {
        unsigned char c = (unsigned char)text[n];
        if (c < 0x20 || c == '"' || c == '\\')
            break;
        size_t width = kw_utf8_next(text + n, len - n, NULL);
        if (width == 0)
            break;
        n += width;
    }
    return n;
}

static int add_json_escape(struct kw_buf *buf, unsigned char c)
{
    switch (c) {
    case '"': return kw_buf_add(buf, "\\\"", 2);
    case '\\': return kw_buf_add(buf, "\\\\", 2);
    case '\n': return kw_buf_add(buf, "\\n", 2);
    case '\r': return kw_buf_add(buf, "\\r", 2);
    case '\t': return kw_buf_add(buf, "\\t", 2);
    default: break;
    }
    if (c >= 0x80)
        return kw_buf_add(buf, "\xef\xbf\xbd", 3); /* U+FFFD, one for each bad byte */
    return kw_buf_addf(buf, "\\u%04x", c);
}

int kw_buf_add_json(struct kw_buf *buf, const char *text, size_t len)
{
    int rc = kw_buf_add(buf, "\"", 1);
    while (rc == 0 && len > 0) {
        size_t n = plain_run(text, len);
        rc = kw_buf_add(buf, text, n);
        if (rc == 0 && n < len)
            rc = add_json_escape(buf, (unsigned char)text[n++]);
        text += n;
        len -= n;
    }
    if (rc == 0)
        rc = kw_buf_add(buf, "\"", 1);
    return rc;
}

char *kw_buf_take(struct kw_buf *buf, size_t *ret_len)
{
    if (buf->failed || buf->data == NULL) {
        kw_buf_free(buf);
        return NULL;
    }
    char *data = buf->data;
    if (ret_len != NULL)
        *ret_len = buf->len;
    *buf = (struct kw_buf){0};
    return data;
}
