/* SPDX-License-Identifier: Apache-2.0 */
#include "common/json_number.h"

#include <stdint.h>
#include <string.h>

/*
 * jansson refuses integers outside 64 bits and reals whose conversion overflows. Converting would
 * need a terminated copy and costs more than the rest of the scan, so the decision is made on the
 * digits.
 *
 * A real overflows exactly when its magnitude is at least 2^1024 - 2^970: half a unit above the
 * largest double, a tie which rounds to even, here to infinity (IEEE 754-2008, 4.3.1). That bound
 * is an integer of 309 digits. Write the number as 0.d1d2d3... x 10^N with d1 > 0; then N < 309
 * fits, N > 309 does not, and N == 309 is decided by comparing digit strings.
 */

/* 2^1024 - 2^970 */
static const char REAL_BOUND[] = "17976931348623158079372897140530341507993413271003782693617377898"
                                 "0444968292764750946649017977587"
                                 "20709633028641669288791094655554785194040263065748867150582068190"
                                 "8902000708383676273854845817711"
                                 "53176447573027006985557136695962284291481986083493647529271907416"
                                 "8444365510704342711559699508093"
                                 "042880177904174497792";

#define REAL_BOUND_DIGITS (sizeof(REAL_BOUND) - 1)

_Static_assert(REAL_BOUND_DIGITS == 309, "2^1024 - 2^970 has 309 decimal digits");

/* An exponent beyond any body we accept decides alone; keeps the sums below from overflowing. */
#define EXPONENT_MAX 1000000000000000LL

bool kw_json_integer_fits(const char *text, size_t len)
{
    static const char max[] = "9223372036854775807";
    static const char min[] = "9223372036854775808";
    bool negative = len > 0 && text[0] == '-';
    const char *digits = negative ? text + 1 : text;
    size_t n = negative ? len - 1 : len;

    if (n != sizeof(max) - 1)
        return n < sizeof(max) - 1;
    return memcmp(digits, negative ? min : max, n) <= 0;
}

/* Value of the digits after 'e', saturated. */
static int64_t exponent_of(const char *p, const char *end)
{
    bool negative = *p == '-';
    int64_t value = 0;

    if (*p == '-' || *p == '+')
        p++;
    for (; p < end; p++) {
        if (value < EXPONENT_MAX)
            value = value * 10 + (*p - '0');
    }
    return negative ? -value : value;
}

/* Whether the digits from p on (dots skipped, up to the exponent) are below the bound, both with
 * 309 places. */
static bool below_bound(const char *p, const char *end)
{
    for (size_t i = 0; i < REAL_BOUND_DIGITS;) {
        char digit = '0'; /* behind the last digit */

        if (p < end && *p != 'e' && *p != 'E')
            digit = *p++;
        if (digit == '.')
            continue;
        if (digit != REAL_BOUND[i])
            return digit < REAL_BOUND[i];
        i++;
    }
    return false;
}

bool kw_json_real_fits(const char *text, size_t len)
{
    const char *end = text + len;
    const char *first = NULL; /* first digit that is not zero */
    int64_t point = 0;        /* N before the exponent is added */
    bool fraction = false;
    int64_t exponent = 0;

    for (const char *p = text[0] == '-' ? text + 1 : text; p < end; p++) {
        if (*p == 'e' || *p == 'E') {
            exponent = exponent_of(p + 1, end);
            break;
        }
        if (*p == '.') {
            fraction = true;
            continue;
        }
        if (first == NULL && *p != '0')
            first = p;
        if (first != NULL && !fraction)
            point++;
        else if (first == NULL && fraction)
            point--;
    }
    if (first == NULL)
        return true; /* zero, whatever its exponent */
    point += exponent;
    if (point != (int64_t)REAL_BOUND_DIGITS)
        return point < (int64_t)REAL_BOUND_DIGITS;
    return below_bound(first, end);
}
