/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/**
 * Growable byte buffer. Zero-initialised is empty and valid. After a failed growth the buffer stays
 * usable and `failed` is set, so that a long run of appends is checked once at its end.
 * `data` is always NUL-terminated when not NULL; the NUL is not counted in `len`.
 */
struct kw_buf {
    char *data;
    size_t len;
    size_t cap;
    bool failed; /**< an append was lost to ENOMEM */
};

/** Frees the bytes and leaves an empty buffer. */
void kw_buf_free(struct kw_buf *buf);

/** Empties the buffer, keeps its memory, clears `failed`: what a hot path does between requests. */
void kw_buf_reset(struct kw_buf *buf);

/** Makes room for `extra` more bytes. @return 0 or -ENOMEM. */
int kw_buf_reserve(struct kw_buf *buf, size_t extra);

/** Appends bytes. @return 0 or -ENOMEM (and sets `failed`). */
int kw_buf_add(struct kw_buf *buf, const void *bytes, size_t len);

/** Appends a NUL-terminated text. @return as kw_buf_add. */
int kw_buf_adds(struct kw_buf *buf, const char *text);

/** Appends formatted text. @return as kw_buf_add. */
int kw_buf_addf(struct kw_buf *buf, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** Appends text as a JSON string, quotes included; bytes that are no UTF-8 become U+FFFD. @return
 * as kw_buf_add. */
int kw_buf_add_json(struct kw_buf *buf, const char *text, size_t len);

/** Takes the bytes (caller frees with free()); leaves the buffer empty. NULL where `failed` or
 * never written. */
char *kw_buf_take(struct kw_buf *buf, size_t *ret_len);
