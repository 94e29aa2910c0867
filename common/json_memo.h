/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/json_scan.h"

/*
 * Documents come in rows: the same one twice, or one that differs from the last by a name and a
 * number. What was passed over in the last one is known again by a comparison of bytes, which is
 * many times faster than to read it.
 */

/** Longest value that is kept: several times a usual pod. */
#define KW_JSON_MEMO_BYTES  16384
/** Objects and arrays passed over in it that are known again. */
#define KW_JSON_MEMO_VALUES 64

/** An object or array that was passed over; offsets are from the value around it. */
struct kw_json_memo_span {
    uint32_t at, len, depth;
};

/** One for each reader. Zero-initialised is empty. Fields are private. */
struct kw_json_memo {
    size_t len; /**< of the value that is kept; 0: none */
    unsigned depth;
    unsigned n;
    struct kw_json_memo_span spans[KW_JSON_MEMO_VALUES];
    const char *at; /**< the value at hand; NULL: none */
    unsigned n_new;
    struct kw_json_memo_span found[KW_JSON_MEMO_VALUES]; /**< in it */
    char bytes[KW_JSON_MEMO_BYTES];
};

/**
 * Comes to a value: what kw_json_next or kw_json_skip would give next.
 * @return true where it is an object that has the very bytes of the one that is kept: it is then
 * passed over. False where it is to be read; objects and arrays that kw_json_skip then meets in it
 * are looked for in the one that is kept, until kw_json_memo_end.
 */
bool kw_json_memo_begin(struct kw_json_memo *memo, struct kw_json *json);

/** The value has been read. @param good whether it was valid and is to be kept. */
void kw_json_memo_end(struct kw_json_memo *memo, struct kw_json *json, bool good);

/** An object or array at `p` that is known. @return the byte behind it, or NULL. */
const char *kw_json_memo_find(const struct kw_json_memo *memo, const struct kw_json *json,
                              const char *p);

/** Notes one that was passed over, known or not. @param p its bracket. @param end behind it. */
void kw_json_memo_note(struct kw_json_memo *memo, const struct kw_json *json, const char *p,
                       const char *end);
