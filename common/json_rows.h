/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/*
 * Rows of plain strings, 64 bytes at a time; for json_scan.c and its tests only.
 */

/**
 * Passes over strings that stand as programs write them, `"a","b"`, without escapes and in ASCII.
 * Looks at whole blocks of 64 bytes and so ends early: before the end of the row, or at once where
 * something else comes.
 * @param first whether a string comes next, and not the comma before one.
 * @param ret_n how many were passed. @return behind the closing quote of the last, or `p`.
 */
typedef const char *kw_json_rows_fn(const char *p, const char *end, bool first, size_t *ret_n);

/** The way for any machine; passes over nothing where the compiler's target has no SSE2. */
kw_json_rows_fn kw_json_rows_plain;
/** With AVX2 and carry-less multiplication. Only where kw_json_rows_is_wide. */
kw_json_rows_fn kw_json_rows_wide;
/** Whether this machine has what the wide way needs. */
bool kw_json_rows_is_wide(void);
