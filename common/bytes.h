/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/*
 * memcmp and memcpy for texts of some 40 bytes, as names of nodes are, without a call: a hot path
 * does thousands of both in a row.
 */

/** Whether `len` bytes are the same. */
static inline bool kw_bytes_same(const char *a, const char *b, size_t len)
{
    typedef uint64_t pair __attribute__((vector_size(16)));
    pair x;
    pair y;
    pair differ = {0, 0};

    if (len < 16)
        return memcmp(a, b, len) == 0;
    for (size_t at = 0; at + 16 < len; at += 16) {
        memcpy(&x, a + at, 16);
        memcpy(&y, b + at, 16);
        differ |= x ^ y;
    }
    memcpy(&x, a + len - 16, 16); /* overlaps what came before */
    memcpy(&y, b + len - 16, 16);
    differ |= x ^ y;
    return (differ[0] | differ[1]) == 0;
}

/** Copies `len` bytes to where they have room. @return the byte behind them. */
static inline char *kw_bytes_put(char *to, const char *from, size_t len)
{
    if (len < 16 || len > 64) {
        memcpy(to, from, len);
        return to + len;
    }
    memcpy(to, from, 16); /* these overlap */
    if (len > 32) {
        memcpy(to + 16, from + 16, 16);
        memcpy(to + len - 32, from + len - 32, 16);
    }
    memcpy(to + len - 16, from + len - 16, 16);
    return to + len;
}
