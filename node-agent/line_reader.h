/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "common/json_scan.h"

/*
 * Values of one JSON object that comes from outside, with one error that sticks and names the key
 * and the value. All functions return false after an error, and do nothing then.
 */

struct agent_line {
    struct kw_json json;
    struct kw_err *err;
    int rc; /**< 0 until the first error */
};

/** Notes an error: `"key" is VALUE, not WANTED`. @return false. */
bool agent_line_refuse(struct agent_line *line, int rc, const char *key,
                       const struct kw_json_token *token, const char *wanted);

/** Notes an error. @return false. */
bool agent_line_fail(struct agent_line *line, int rc, const char *text);

/** The next token; that there is none is an error. */
bool agent_line_next(struct agent_line *line, struct kw_json_token *ret);

/** A whole number from 0 to `max`. */
bool agent_line_u64(struct agent_line *line, const char *key, uint64_t max, uint64_t *ret);

/** A text of less than `size` bytes, with its NUL in `out`. */
bool agent_line_text(struct agent_line *line, const char *key, char *out, size_t size);

/** A copy of a text of up to 4095 bytes, control bytes as '?', in place of *ret, which is freed. */
bool agent_line_copy(struct agent_line *line, const char *key, char **ret);

/** true or false. */
bool agent_line_bool(struct agent_line *line, const char *key, bool *ret);

/** The opening bracket. @param type KW_JSON_OBJECT or KW_JSON_ARRAY. */
bool agent_line_enter(struct agent_line *line, const char *key, enum kw_json_type type);

/** The next key of an object. @return false at its end, too. */
bool agent_line_next_key(struct agent_line *line, struct kw_json_token *ret);

/** Which of `n` keys one is. @param seen bits of those that came before; it is added.
 * @return n: none of them; -1: it came twice, which is an error. */
int agent_line_key(struct agent_line *line, const struct kw_json_token *token,
                   const char *const *keys, int n, unsigned *seen);

/** Passes over a value. */
bool agent_line_skip(struct agent_line *line);

/** Whether the list has no further element, which is then passed; true after an error. */
bool agent_line_list_ends(struct agent_line *line);
