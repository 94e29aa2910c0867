/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A quantity is D * 10^x * 2^b: digits D without the point, a decimal exponent x (digits after the
 * point, decimal suffix, eN, and 3 more where thousandths are asked for) and a binary exponent b.
 * The result is its ceiling, exactly:
 *
 *  - D keeps 27 significant digits (below 2^90). Digits after them only set `more`, which
 *    makes the ceiling the next integer: at 2^63 the 27th digit is already below 10^-7.
 *  - x < 0: D is split into whole and rest by 10^-x, and a power of two is applied by doubling both
 * with a carry, so that nothing needs more than 128 bits.
 *
 * Grammar, from the API's schema of Quantity: [+-] (digits [. [digits]] | . digits) [suffix].
 * Negative and too large are told from malformed, since a caller may treat them as a bad value of a
 * good field.
 */
#include "api/quantity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef unsigned __int128 u128;

#define KEPT_DIGITS  27
/** Bound of |x|: beyond it the value is out of range or its ceiling is 1, whatever D is. */
#define EXPONENT_MAX 1000
/** 10^36 < 2^120: a rest below it can be doubled in 128 bits. */
#define SPLIT_MAX    36

struct number {
    u128 digits;
    bool more; /**< non-zero digits were left out */
    bool negative;
    int exponent10;
    unsigned exponent2;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int clamp_exponent(long exponent)
{
    if (exponent > EXPONENT_MAX)
        return EXPONENT_MAX;
    return exponent < -EXPONENT_MAX ? -EXPONENT_MAX : (int)exponent;
}

/** Digits and point. @return bytes used; 0 where there is no digit. */
static size_t read_digits(const char *text, size_t len, struct number *ret)
{
    size_t at = 0, seen = 0;
    unsigned kept = 0;
    long exponent = 0;
    bool point = false;

    for (; at < len; at++) {
        if (text[at] == '.' && !point) {
            point = true;
            continue;
        }
        if (!is_digit(text[at]))
            break;
        seen++;
        unsigned digit = (unsigned)(text[at] - '0');
        if (kept < KEPT_DIGITS) {
            ret->digits = ret->digits * 10 + digit;
            kept += ret->digits != 0;
            exponent -= point;
        } else {
            ret->more = ret->more || digit != 0;
            exponent += !point;
        }
    }
    ret->exponent10 = clamp_exponent(exponent);
    return seen > 0 ? at : 0;
}

/** "eN" or "EN" with an optional sign. @return whether it is one. */
static bool read_exponent(const char *text, size_t len, long *ret)
{
    bool negative = false;
    size_t at = 1;
    long value = 0;

    if (len < 2 || (text[0] != 'e' && text[0] != 'E'))
        return false;
    if (text[at] == '+' || text[at] == '-')
        negative = text[at++] == '-';
    if (at == len)
        return false;
    for (; at < len; at++) {
        if (!is_digit(text[at]))
            return false;
        if (value <= 2 * EXPONENT_MAX)
            value = value * 10 + (text[at] - '0');
    }
    *ret = negative ? -value : value;
    return true;
}

static bool read_suffix(const char *text, size_t len, struct number *number)
{
    static const char decimal[] = "num kMGTPE"; /* 10^-9, 10^-6, ... 10^18 */
    static const char binary[] = "KMGTPE";      /* 2^10, 2^20, ... 2^60 */
    const char *found;
    long exponent;

    if (len == 0)
        return true;
    if (len == 1 && text[0] != ' ' && text[0] != '\0' &&
        (found = strchr(decimal, text[0])) != NULL) {
        exponent = (long)(found - decimal) * 3 - 9;
    } else if (len == 2 && text[1] == 'i' && text[0] != '\0' &&
               (found = strchr(binary, text[0])) != NULL) {
        number->exponent2 = (unsigned)(found - binary + 1) * 10;
        return true;
    } else if (!read_exponent(text, len, &exponent)) {
        return false;
    }
    number->exponent10 = clamp_exponent(number->exponent10 + exponent);
    return true;
}

/** Ceiling of the number. @return 0 or -ERANGE above 2^63-1. */
static int number_ceiling(struct number number, uint64_t *ret)
{
    u128 whole = number.digits, rest = 0, divisor = 1;
    bool more = number.more;

    for (int i = 0; i < number.exponent10; i++) {
        whole *= 10;
        if (whole > INT64_MAX)
            return -ERANGE;
    }
    if (number.exponent10 < 0) {
        int places = -number.exponent10;
        for (; places > SPLIT_MAX; places--) {
            more = more || number.digits % 10 != 0;
            number.digits /= 10;
        }
        for (; places > 0; places--)
            divisor *= 10;
        whole = number.digits / divisor;
        rest = number.digits % divisor;
    }
    for (unsigned i = 0; i < number.exponent2; i++) {
        whole *= 2;
        rest *= 2;
        if (rest >= divisor) {
            rest -= divisor;
            whole++;
        }
        if (whole > INT64_MAX)
            return -ERANGE;
    }
    if (rest > 0 || more)
        whole++;
    if (whole > INT64_MAX)
        return -ERANGE;
    *ret = (uint64_t)whole;
    return 0;
}

static int parse(const char *text, size_t len, int scale10, uint64_t *ret)
{
    struct number number = {0};
    size_t used;

    if (len > 0 && (text[0] == '+' || text[0] == '-')) {
        number.negative = text[0] == '-';
        text++;
        len--;
    }
    used = read_digits(text, len, &number);
    if (used == 0 || !read_suffix(text + used, len - used, &number))
        return -EINVAL;
    if (number.digits == 0) {
        *ret = 0;
        return 0;
    }
    if (number.negative)
        return -ERANGE;
    number.exponent10 = clamp_exponent(number.exponent10 + (long)scale10);
    return number_ceiling(number, ret);
}

int kw_quantity_milli(const char *text, size_t len, uint64_t *ret_milli)
{
    return parse(text, len, 3, ret_milli);
}

int kw_quantity_units(const char *text, size_t len, uint64_t *ret_units)
{
    return parse(text, len, 0, ret_units);
}

/** Divides by `base` as often as it divides exactly, and adds the suffix of that step. */
static void format_steps(char out[KW_QUANTITY_MAX], uint64_t value, uint64_t base,
                         const char *const *suffixes, unsigned n)
{
    unsigned step = 0;

    while (value != 0 && step + 1 < n && value % base == 0) {
        value /= base;
        step++;
    }
    (void)snprintf(out, KW_QUANTITY_MAX, "%" PRIu64 "%s", value, value != 0 ? suffixes[step] : "");
}

void kw_quantity_format_mcpu(char out[KW_QUANTITY_MAX], uint64_t mcpu)
{
    static const char *const suffixes[] = {"m", "", "k", "M", "G", "T", "P"};

    format_steps(out, mcpu, 1000, suffixes, sizeof(suffixes) / sizeof(suffixes[0]));
}

void kw_quantity_format_bytes(char out[KW_QUANTITY_MAX], uint64_t bytes)
{
    static const char *const decimal[] = {"", "k"};
    static const char *const binary[] = {"", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"};

    /* below 1024 the API falls back to decimal suffixes: 1000 is "1k" */
    if (bytes < 1024)
        format_steps(out, bytes, 1000, decimal, sizeof(decimal) / sizeof(decimal[0]));
    else
        format_steps(out, bytes, 1024, binary, sizeof(binary) / sizeof(binary[0]));
}
