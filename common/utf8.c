/* SPDX-License-Identifier: Apache-2.0 */
#include "common/utf8.h"

#include <string.h>

size_t kw_utf8_next(const char *bytes, size_t len, uint32_t *ret_code_point)
{
    if (len == 0)
        return 0;

    const unsigned char *b = (const unsigned char *)bytes;
    uint32_t code_point;
    uint32_t least; /* smallest code point that needs this many bytes */
    size_t n;
    if (b[0] < 0x80) {
        code_point = b[0];
        least = 0;
        n = 1;
    } else if ((b[0] & 0xe0) == 0xc0) {
        code_point = b[0] & 0x1fU;
        least = 0x80;
        n = 2;
    } else if ((b[0] & 0xf0) == 0xe0) {
        code_point = b[0] & 0x0fU;
        least = 0x800;
        n = 3;
    } else if ((b[0] & 0xf8) == 0xf0) {
        code_point = b[0] & 0x07U;
        least = 0x10000;
        n = 4;
    } else {
        return 0;
    }
    if (n > len)
        return 0;
    for (size_t i = 1; i < n; i++) {
        if ((b[i] & 0xc0) != 0x80)
            return 0;
        code_point = code_point << 6 | (b[i] & 0x3fU);
    }
    if (code_point < least || code_point > 0x10ffff ||
        (code_point >= 0xd800 && code_point <= 0xdfff))
        return 0;
    if (ret_code_point != NULL)
        *ret_code_point = code_point;
    return n;
}

size_t kw_utf8_mark(const char *bytes, size_t len)
{
    static const char mark[] = {'\xef', '\xbb', '\xbf'};

    return len >= sizeof(mark) && memcmp(bytes, mark, sizeof(mark)) == 0 ? sizeof(mark) : 0;
}
