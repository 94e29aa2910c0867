/* SPDX-License-Identifier: Apache-2.0 */
#include "common/json_lex.h"

#include "common/json_number.h"

/* The rare parts of a document: escapes, bytes beyond ASCII, fractions, errors. */

const char *kw_json_fail(struct kw_json *json, const char *pos, const char *text)
{
    json->pos = pos;
    json->error = text;
    json->state = KW_JSON_STATE_FAILED;
    return NULL;
}

/* One UTF-8 sequence of two to four bytes: no overlong form, surrogate, or code point above
 * U+10FFFF. */
const char *kw_json_pass_utf8(struct kw_json *json, const char *p)
{
    unsigned char lead = (unsigned char)*p;
    unsigned char low = 0x80;
    unsigned char high = 0xBF;
    ptrdiff_t n = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;

    if (lead < 0xC2 || lead > 0xF4 || json->end - p < n)
        return kw_json_fail(json, p, "bytes that are no UTF-8");
    if (lead == 0xE0)
        low = 0xA0;
    else if (lead == 0xED)
        high = 0x9F;
    else if (lead == 0xF0)
        low = 0x90;
    else if (lead == 0xF4)
        high = 0x8F;
    for (ptrdiff_t i = 1; i < n; i++) {
        unsigned char c = (unsigned char)p[i];

        if (c < low || c > high)
            return kw_json_fail(json, p, "bytes that are no UTF-8");
        low = 0x80;
        high = 0xBF;
    }
    return p + n;
}

/* Four hexadecimal digits at p. @return their value or -1. */
static int hex4(const char *p, const char *end)
{
    int value = 0;

    if (end - p < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        char c = p[i];

        if (c >= '0' && c <= '9')
            value = value * 16 + (c - '0');
        else if (c >= 'a' && c <= 'f')
            value = value * 16 + (c - 'a' + 10);
        else if (c >= 'A' && c <= 'F')
            value = value * 16 + (c - 'A' + 10);
        else
            return -1;
    }
    return value;
}

/* An escape; p at its backslash. Surrogates come in pairs; a key must not hold "\u0000". */
const char *kw_json_pass_escape(struct kw_json *json, const char *p, bool key)
{
    const char *end = json->end;
    int unit;

    switch (end - p < 2 ? '\0' : p[1]) {
    case '"':
    case '\\':
    case '/':
    case 'b':
    case 'f':
    case 'n':
    case 'r':
    case 't': return p + 2;
    case 'u': break;
    default: return kw_json_fail(json, p, "invalid escape");
    }
    unit = hex4(p + 2, end);
    if (unit < 0)
        return kw_json_fail(json, p, "invalid escape");
    if (unit == 0 && key)
        return kw_json_fail(json, p, "NUL in a key");
    if (unit < 0xD800 || unit > 0xDFFF)
        return p + 6;
    if (unit <= 0xDBFF && end - p >= 8 && p[6] == '\\' && p[7] == 'u') {
        int second = hex4(p + 8, end);

        if (second >= 0xDC00 && second <= 0xDFFF)
            return p + 12;
    }
    return kw_json_fail(json, p, "half a surrogate pair");
}

/* What follows the integer part of a number. */
const char *kw_json_pass_fraction(struct kw_json *json, const char *start, const char *p)
{
    const char *end = json->end;
    ptrdiff_t exponent_digits = 0;

    if (*p == '.') {
        p++;
        if (!kw_json_is_digit(p, end))
            return kw_json_fail(json, p, "digit expected");
        while (kw_json_is_digit(p, end))
            p++;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-'))
            p++;
        if (!kw_json_is_digit(p, end))
            return kw_json_fail(json, p, "digit expected");
        const char *first = p;

        while (kw_json_is_digit(p, end))
            p++;
        exponent_digits = p - first;
    }
    /* up to 200 digits and an exponent up to 99 stay far below 10^308: no need to look closer */
    if ((exponent_digits > 2 || p - start > 200) && !kw_json_real_fits(start, (size_t)(p - start)))
        return kw_json_fail(json, start, "number out of range");
    return p;
}

const char *kw_json_pass_long_integer(struct kw_json *json, const char *start, const char *p)
{
    if (!kw_json_integer_fits(start, (size_t)(p - start)))
        return kw_json_fail(json, start, "number out of range");
    return p;
}

/* true, false or null; p at its first byte. @return the byte behind it or NULL. */
const char *kw_json_pass_literal(struct kw_json *json, const char *p, enum kw_json_type *ret_type)
{
    ptrdiff_t left = json->end - p;

    if (left >= 4 && memcmp(p, "true", 4) == 0) {
        *ret_type = KW_JSON_TRUE;
        return p + 4;
    }
    if (left >= 4 && memcmp(p, "null", 4) == 0) {
        *ret_type = KW_JSON_NULL;
        return p + 4;
    }
    if (left >= 5 && memcmp(p, "false", 5) == 0) {
        *ret_type = KW_JSON_FALSE;
        return p + 5;
    }
    return kw_json_fail(json, p, "value expected");
}
