/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * For codecs of this folder: JSON written straight into text, for documents of which there are
 * hundreds in every sample. What it writes is what jansson would, byte by byte; it refuses what
 * kw_put_* of api/codec.h refuse. Keys are static texts that need no escapes.
 */

/** Text being written. Zero-initialise. rc is 0 until the first error, which stays. */
struct kw_out {
    int rc; /**< 0, -EINVAL, -ENOMEM */
    char *data;
    size_t len, cap;
};

/** Begins and ends an object or array. @param key NULL at the top and in arrays. */
void kw_out_begin(struct kw_out *out, const char *key, char bracket);
void kw_out_end(struct kw_out *out, char bracket);

/** Values of an object, as kw_put_u64, kw_put_time_ms, kw_put_bool and kw_put_text. */
void kw_out_u64(struct kw_out *out, const char *key, uint64_t value);
void kw_out_time_ms(struct kw_out *out, const char *key, int64_t value);
void kw_out_bool(struct kw_out *out, const char *key, bool value);
/** @param key may be foreign text: it is escaped as `text` is. */
void kw_out_text(struct kw_out *out, const char *key, const char *text, size_t max);

/** JSON text that somebody else wrote, as a value. */
void kw_out_json(struct kw_out *out, const char *key, const char *json, size_t len);

/** Hands over the text, NUL-terminated; caller frees. @return out->rc; *ret only on 0. Leaves *out
 * empty. */
int kw_out_take(struct kw_out *out, char **ret, size_t *ret_len);
