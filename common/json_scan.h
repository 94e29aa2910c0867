/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/bytes.h"

/*
 * One-pass JSON reader without a tree, for the extender's hot path and for cutting watch streams.
 * Pull style: kw_json_next gives one token; kw_json_skip passes over a whole value at full speed
 * and still validates it. Nothing is copied or allocated; spans point into the input. Depth is
 * bounded. Accepts what jansson accepts with JSON_DECODE_ANY | JSON_ALLOW_NUL (numbers out of range
 * and "\u0000" in a key included), which a differential fuzz target checks.
 */

/**
 * Values nested deeper than this are refused; the outermost value has depth 1 and a scalar counts
 * as a level. 2048 is jansson's limit, so that a document passes both or neither.
 */
#define KW_JSON_MAX_DEPTH 2048

enum kw_json_type {
    KW_JSON_ERROR, /**< malformed; kw_json.error says what, pos where; sticky */
    KW_JSON_END,   /**< the document is complete and only blanks follow */
    KW_JSON_OBJECT,
    KW_JSON_OBJECT_END,
    KW_JSON_ARRAY,
    KW_JSON_ARRAY_END,
    KW_JSON_KEY,    /**< span without quotes, escapes not decoded */
    KW_JSON_STRING, /**< same */
    KW_JSON_NUMBER,
    KW_JSON_TRUE,
    KW_JSON_FALSE,
    KW_JSON_NULL,
};

struct kw_json_memo;

struct kw_json_token {
    enum kw_json_type type;
    bool escaped;   /**< KEY, STRING: holds backslashes, so the span is not yet the text */
    const char *at; /**< first byte of the span (for a container: its bracket) */
    size_t len;     /**< span length; 1 for brackets */
};

/** A KW_JSON_STRING of an array, in less room. */
struct kw_json_text {
    const char *at;
    uint32_t len;
    bool escaped;
};

/** Reader state; on the caller's stack. Fields are private but for `error`. */
struct kw_json {
    const char *begin, *pos, *end;
    const char *error; /**< static text after KW_JSON_ERROR */
    struct kw_json_memo
        *memo; /**< of what was passed over before (common/json_memo.h); NULL: none */
    unsigned depth;
    unsigned state;
    unsigned char is_object[KW_JSON_MAX_DEPTH / 8]; /**< one bit a level */
};

/** Starts on `len` bytes, which need no terminator and stay the caller's. @param bytes may be NULL
 * where len is 0. */
void kw_json_begin(struct kw_json *json, const char *bytes, size_t len);

/** Next token. @param ret set for every type but KW_JSON_ERROR and KW_JSON_END. */
enum kw_json_type kw_json_next(struct kw_json *json, struct kw_json_token *ret);

/**
 * Takes strings of an array in a row, many times faster than one token a call.
 * @param ret n elements.
 * @return how many came. Fewer than n: something else comes next (the array's end, another type, a
 * string of more than UINT32_MAX bytes, an error, no array at all), which kw_json_next gives.
 */
size_t kw_json_strings(struct kw_json *json, struct kw_json_text *ret, size_t n);

/**
 * Passes over strings of an array in a row, many times faster than kw_json_strings takes them.
 * @return how many. What comes next is something else, which kw_json_next gives: the array's end,
 * another type, an error, no array at all.
 */
size_t kw_json_pass_strings(struct kw_json *json);

/** Passes over `len` bytes that are known to hold what comes next: a value, or elements of an
 * array, whole, with the commas between them. */
void kw_json_pass_known(struct kw_json *json, size_t len);

/**
 * Takes the next string of an array if it is just this one, as programs write it: `,"text"`. Only
 * where the value taken last was an element of that array, and neither object nor array itself.
 * @param text nothing in it that JSON escapes, and ASCII alone.
 * @return its first byte, or NULL where something else comes, which is left.
 */
static inline const char *kw_json_known_string(struct kw_json *json, const char *text, size_t len)
{
    const char *p = json->pos;

    if ((size_t)(json->end - p) < len + 3 || p[0] != ',' || p[1] != '"' || p[len + 2] != '"' ||
        !kw_bytes_same(p + 2, text, len))
        return NULL;
    json->pos = p + len + 3;
    return p + 2;
}

/**
 * Passes over the value that comes next (after a KEY, or the next element of an array).
 * @param ret_span the whole value, verbatim: `at` and `len` (of a string: with its quotes, unlike
 *        the token of kw_json_next); its `type` is that of the value's first token; untouched where
 * no value came; may be NULL.
 * @return type of the value; KW_JSON_ARRAY_END where the array ended instead; KW_JSON_END after the
 *         document; KW_JSON_ERROR (also where an object's key is due).
 */
enum kw_json_type kw_json_skip(struct kw_json *json, struct kw_json_token *ret_span);

/**
 * Decodes the escapes of a KEY or STRING span.
 * @param out at least token->len + 1 bytes; NUL-terminated.
 * @return length of the text (which may hold NULs of its own, from "\u0000").
 */
size_t kw_json_unescape(const struct kw_json_token *token, char *out);

/** Whether a KEY or STRING is `text` (escapes decoded). @param ignore_case ASCII only, as Go's
 * decoder matches field names. */
bool kw_json_equals(const struct kw_json_token *token, const char *text, bool ignore_case);
