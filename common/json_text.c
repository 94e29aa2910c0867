/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "common/json_scan.h"

/*
 * Text of keys and strings. The scanner has validated the span, so every escape is complete; a span
 * made by hand is still never read past its end.
 */

static unsigned hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return (unsigned)(c - '0');
    return (unsigned)((c | 0x20) - 'a' + 10) & 0xFu;
}

static unsigned hex4(const char *p)
{
    return hex_digit(p[0]) << 12 | hex_digit(p[1]) << 8 | hex_digit(p[2]) << 4 | hex_digit(p[3]);
}

/* Encodes a code point as UTF-8. @return number of bytes. */
static size_t encode(unsigned code, char out[4])
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    if (code < 0x800) {
        out[0] = (char)(0xC0 | code >> 6);
        out[1] = (char)(0x80 | (code & 0x3F));
        return 2;
    }
    if (code < 0x10000) {
        out[0] = (char)(0xE0 | code >> 12);
        out[1] = (char)(0x80 | (code >> 6 & 0x3F));
        out[2] = (char)(0x80 | (code & 0x3F));
        return 3;
    }
    out[0] = (char)(0xF0 | code >> 18);
    out[1] = (char)(0x80 | (code >> 12 & 0x3F));
    out[2] = (char)(0x80 | (code >> 6 & 0x3F));
    out[3] = (char)(0x80 | (code & 0x3F));
    return 4;
}

/* Decodes what stands at *p: one byte, or one escape. Moves *p behind it. @return number of bytes
 * in `out`. */
static size_t decode_one(const char **p, const char *end, char out[4])
{
    static const char letters[] = "bfnrt";
    static const char values[] = "\b\f\n\r\t";
    const char *at = *p;
    const char *letter;
    unsigned code;

    if (*at != '\\' || end - at < 2) {
        out[0] = *at;
        *p = at + 1;
        return 1;
    }
    if (at[1] != 'u' || end - at < 6) {
        letter = memchr(letters, at[1], sizeof(letters) - 1);
        out[0] = letter == NULL ? at[1] : values[letter - letters];
        *p = at + 2;
        return 1;
    }
    code = hex4(at + 2);
    *p = at + 6;
    if (code >= 0xD800 && code <= 0xDBFF && end - at >= 12) {
        code = 0x10000 + ((code - 0xD800) << 10) + (hex4(at + 8) & 0x3FF);
        *p = at + 12;
    }
    return encode(code, out);
}

size_t kw_json_unescape(const struct kw_json_token *token, char *out)
{
    const char *p = token->at;
    const char *end = p + token->len;
    size_t len = 0;

    if (!token->escaped) {
        memcpy(out, p, token->len);
        out[token->len] = '\0';
        return token->len;
    }
    while (p < end) {
        char bytes[4];
        size_t n = decode_one(&p, end, bytes);

        memcpy(out + len, bytes, n);
        len += n;
    }
    out[len] = '\0';
    return len;
}

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

bool kw_json_equals(const struct kw_json_token *token, const char *text, bool ignore_case)
{
    const char *p = token->at;
    const char *end = p + token->len;
    size_t len = strlen(text);

    if (!token->escaped && !ignore_case)
        return token->len == len && memcmp(p, text, len) == 0;
    if (token->len < len) /* escapes only make a span longer */
        return false;
    while (p < end) {
        char bytes[4];
        size_t n = 1;

        if (token->escaped)
            n = decode_one(&p, end, bytes);
        else
            bytes[0] = *p++;
        for (size_t i = 0; i < n; i++, text++) {
            if (*text == '\0')
                return false;
            if (bytes[i] != *text && !(ignore_case && lower(bytes[i]) == lower(*text)))
                return false;
        }
    }
    return *text == '\0';
}
