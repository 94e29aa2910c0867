/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/**
 * Decodes the first character of `len` bytes of UTF-8 (RFC 3629: shortest form only, no surrogates,
 * at most U+10FFFF).
 * @param ret_code_point may be NULL; untouched where the bytes are no UTF-8.
 * @return bytes of the character (1..4); 0 where `len` is 0 or the bytes start no valid character.
 */
size_t kw_utf8_next(const char *bytes, size_t len, uint32_t *ret_code_point);

/** Length of the byte order mark that a text begins with, as spreadsheets and some programs of
 * Windows write it: 3, or 0 without one. */
size_t kw_utf8_mark(const char *bytes, size_t len);
