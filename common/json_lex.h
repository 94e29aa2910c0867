/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "common/json_scan.h"

/*
 * Lexer of json_scan.c, for that file only. What nearly every byte goes through is inline here, the
 * rest in json_lex.c. Each function takes the position in the input and gives the position behind
 * what it passed, or NULL after kw_json_fail.
 */

enum kw_json_state {
    KW_JSON_STATE_VALUE,         /**< a value must come */
    KW_JSON_STATE_FIRST_ELEMENT, /**< a value or ']' */
    KW_JSON_STATE_FIRST_KEY,     /**< a key or '}' */
    KW_JSON_STATE_AFTER,         /**< ',' or the closing bracket */
    KW_JSON_STATE_COMPLETE,      /**< the outermost value has ended */
    KW_JSON_STATE_FAILED,
};

/** Notes an error at a position; sticky. @param text static. @return NULL. */
const char *kw_json_fail(struct kw_json *json, const char *pos, const char *text);

/** One UTF-8 sequence of two to four bytes: no overlong form, surrogate, or code point above
 * U+10FFFF. */
const char *kw_json_pass_utf8(struct kw_json *json, const char *p);

/** An escape, `p` at its backslash. Surrogates come in pairs; a key must not hold "\u0000". */
const char *kw_json_pass_escape(struct kw_json *json, const char *p, bool key);

/** Fraction and exponent of the number that starts at `start`, and the range of the whole. */
const char *kw_json_pass_fraction(struct kw_json *json, const char *start, const char *p);

/** The end of an integer of more than 18 digits at `p`: refused where it does not fit 64 bits. */
const char *kw_json_pass_long_integer(struct kw_json *json, const char *start, const char *p);

/** true, false or null. */
const char *kw_json_pass_literal(struct kw_json *json, const char *p, enum kw_json_type *ret_type);

/** Blanks as JSON has them. */
static inline const char *kw_json_pass_blanks(const char *p, const char *end)
{
    if (p<end && * p> ' ') /* documents from programs have none */
        return p;
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/** Whether a decimal digit stands at `p`. */
static inline bool kw_json_is_digit(const char *p, const char *end)
{
    return p < end && *p >= '0' && *p <= '9';
}

/** First byte from p on that is not plain text inside a string; `end` where there is none. */
static inline const char *kw_json_pass_plain(const char *p, const char *end)
{
#ifdef __SSE2__
    const __m128i quote = _mm_set1_epi8('"');
    const __m128i backslash = _mm_set1_epi8('\\');
    const __m128i space = _mm_set1_epi8(' ');

    for (; end - p >= 16; p += 16) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
        /* signed compare: control bytes and those with the high bit set are below ' ' */
        __m128i special = _mm_or_si128(
            _mm_cmplt_epi8(bytes, space),
            _mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)));
        unsigned mask = (unsigned)_mm_movemask_epi8(special);

        if (mask != 0)
            return p + __builtin_ctz(mask);
    }
#else
    const uint64_t ones = 0x0101010101010101u;
    const uint64_t high = 0x8080808080808080u;

    for (; end - p >= 8; p += 8) {
        uint64_t word;

        memcpy(&word, p, sizeof(word));
        uint64_t quote = word ^ (ones * '"');
        uint64_t backslash = word ^ (ones * '\\');
        /* a byte below n: borrows into its high bit; false hits only behind a true one */
        uint64_t special =
            ((word - ones * ' ') | (quote - ones) | (backslash - ones) | word) & high;

        if (special != 0)
            break; /* the loop below finds the byte, in either byte order */
    }
#endif
    while (p < end && (unsigned char)*p >= ' ' && (unsigned char)*p < 0x80 && *p != '"' &&
           *p != '\\')
        p++;
    return p;
}

#ifdef __SSE2__
/** Bits of 16 bytes: set where a byte is no letter, digit or sign as names are made of. */
static inline uint64_t kw_json_name_ends(const char *p)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    /* signed compare: below '#' are the quote, blanks, '!', control bytes, those with the high bit
     */
    __m128i ends = _mm_or_si128(_mm_cmplt_epi8(bytes, _mm_set1_epi8('#')),
                                _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\')));

    return (uint64_t)(uint32_t)_mm_movemask_epi8(ends);
}
#endif

/**
 * The length of a string that is a name of up to 63 bytes, found without a loop. @param p behind
 * its opening quote. @return a length that is no name's where it is something else, or too near
 * the end to tell.
 */
static inline size_t kw_json_name_len(const char *p, const char *end)
{
#ifdef __SSE2__
    if (end - p < 64)
        return SIZE_MAX;
    uint64_t ends = kw_json_name_ends(p) | kw_json_name_ends(p + 16) << 16 |
                    kw_json_name_ends(p + 32) << 32 | kw_json_name_ends(p + 48) << 48;
    unsigned len = (unsigned)__builtin_ctzll(ends | UINT64_C(1) << 63);

    return p[len] == '"' ? len : SIZE_MAX;
#else
    (void)p;
    (void)end;
    return SIZE_MAX;
#endif
}

/** A string; p behind its opening quote. @return its closing quote or NULL. */
static inline const char *kw_json_pass_string(struct kw_json *json, const char *p, bool key,
                                              bool *ret_escaped)
{
    const char *end = json->end;
    bool escaped = false;

    for (;;) {
        p = kw_json_pass_plain(p, end);
        if (p == end)
            return kw_json_fail(json, p, "string without end");
        if (*p == '"')
            break;
        if (*p == '\\') {
            escaped = true;
            p = kw_json_pass_escape(json, p, key);
        } else if ((unsigned char)*p >= 0x80) {
            p = kw_json_pass_utf8(json, p);
        } else {
            return kw_json_fail(json, p, "control byte in a string");
        }
        if (p == NULL)
            return NULL;
    }
    *ret_escaped = escaped;
    return p;
}

/** A number; p at its first byte. @return the byte behind it or NULL. */
static inline const char *kw_json_pass_number(struct kw_json *json, const char *p)
{
    const char *end = json->end;
    const char *start = p;

    if (*p == '-')
        p++;
    if (!kw_json_is_digit(p, end))
        return kw_json_fail(json, p, "digit expected");
    if (*p == '0') {
        p++;
        if (kw_json_is_digit(p, end))
            return kw_json_fail(json, start, "number with a leading zero");
    } else {
        while (kw_json_is_digit(p, end))
            p++;
    }
    if (p < end && (*p == '.' || *p == 'e' || *p == 'E'))
        return kw_json_pass_fraction(json, start, p);
    /* 18 digits always fit 64 bits */
    return p - start <= 18 ? p : kw_json_pass_long_integer(json, start, p);
}
