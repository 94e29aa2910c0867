/* SPDX-License-Identifier: Apache-2.0 */
#include "common/num.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/*
 * Every function checks the grammar itself before any arithmetic: the libc parsers skip blanks,
 * take signs, hexadecimal, "inf" and "nan", and stop silently at the first byte they do not know.
 * Sizes and durations are exact: an integer part and a decimal fraction are scaled in 128 bits,
 * never in floating point, and what is finer than the unit is cut. Outputs are written last, so
 * that they stay untouched on failure.
 */

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Reads the digits at *pos; -EINVAL where there is none, -ERANGE where they pass u64 (all are
 * consumed). */
static int read_digits(const char *text, size_t len, size_t *pos, uint64_t *ret)
{
    uint64_t value = 0;
    size_t i = *pos;
    int rc = 0;
    for (; i < len && is_digit(text[i]); i++) {
        uint64_t digit = (uint64_t)(text[i] - '0');
        if (__builtin_mul_overflow(value, UINT64_C(10), &value) ||
            __builtin_add_overflow(value, digit, &value))
            rc = -ERANGE;
    }
    if (i == *pos)
        return -EINVAL;
    *pos = i;
    *ret = value;
    return rc;
}

int kw_parse_u64_span(const char *text, size_t len, uint64_t min, uint64_t max, uint64_t *ret)
{
    uint64_t value = 0;
    size_t pos = 0;
    int rc = read_digits(text, len, &pos, &value);
    if (pos != len || rc == -EINVAL)
        return -EINVAL;
    if (rc < 0 || value < min || value > max)
        return -ERANGE;
    *ret = value;
    return 0;
}

int kw_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *ret)
{
    return kw_parse_u64_span(text, strlen(text), min, max, ret);
}

int kw_parse_i64(const char *text, int64_t min, int64_t max, int64_t *ret)
{
    bool negative = text[0] == '-';
    uint64_t limit = negative ? (uint64_t)INT64_MAX + 1 : (uint64_t)INT64_MAX;
    uint64_t magnitude = 0;
    int rc = kw_parse_u64(text + (negative ? 1 : 0), 0, limit, &magnitude);
    if (rc < 0)
        return rc;
    /* -(m - 1) - 1 reaches INT64_MIN without overflow */
    int64_t value = negative && magnitude > 0 ? -(int64_t)(magnitude - 1) - 1 : (int64_t)magnitude;
    if (value < min || value > max)
        return -ERANGE;
    *ret = value;
    return 0;
}

/* [-] digits [. digits] [(e|E) [+-] digits], at least one digit before or after the point */
static bool is_decimal(const char *text)
{
    const char *p = text + (text[0] == '-' ? 1 : 0);
    size_t digits = 0;
    for (; is_digit(*p); p++)
        digits++;
    if (*p == '.') {
        p++;
        for (; is_digit(*p); p++)
            digits++;
    }
    if (digits == 0)
        return false;
    if (*p == 'e' || *p == 'E') {
        p++;
        if (*p == '+' || *p == '-')
            p++;
        if (!is_digit(*p))
            return false;
        while (is_digit(*p))
            p++;
    }
    return *p == '\0';
}

int kw_parse_double(const char *text, double min, double max, double *ret)
{
    if (!is_decimal(text))
        return -EINVAL;
    /* Our programs never call setlocale, so the point is '.'. Underflow gives the nearest small
     * value. */
    double value = strtod(text, NULL);
    if (!isfinite(value) || value < min || value > max)
        return -ERANGE;
    *ret = value;
    return 0;
}

struct unit {
    const char *name;
    uint64_t factor;
};

/* number [. fraction] unit, exactly scaled; a name "" in the table is what a bare number means */
static int parse_scaled(const char *text, const struct unit *units, size_t n_units, uint64_t min,
                        uint64_t max, uint64_t *ret)
{
    size_t len = strlen(text);
    size_t pos = 0;
    uint64_t whole = 0;
    int rc = read_digits(text, len, &pos, &whole);
    if (rc == -EINVAL)
        return rc;

    uint64_t fraction = 0;
    uint64_t divisor = 1;
    if (text[pos] == '.') {
        pos++;
        if (!is_digit(text[pos]))
            return -EINVAL;
        for (; is_digit(text[pos]); pos++) {
            /* 18 digits: finer than 1 ns of a week, and 10^18 still fits */
            if (divisor >= UINT64_C(1000000000000000000))
                continue;
            fraction = fraction * 10 + (uint64_t)(text[pos] - '0');
            divisor *= 10;
        }
    }

    const struct unit *unit = NULL;
    for (size_t i = 0; i < n_units && unit == NULL; i++) {
        if (strcmp(units[i].name, text + pos) == 0)
            unit = &units[i];
    }
    if (unit == NULL || (unit->factor == 1 && divisor > 1))
        return -EINVAL; /* half a byte or half a nanosecond is no value */
    if (rc < 0)
        return rc;

    unsigned __int128 value = (unsigned __int128)whole * unit->factor +
                              (unsigned __int128)fraction * unit->factor / divisor;
    if (value > UINT64_MAX || value < min || value > max)
        return -ERANGE;
    *ret = (uint64_t)value;
    return 0;
}

int kw_parse_duration_ns(const char *text, uint64_t min_ns, uint64_t max_ns, uint64_t *ret_ns)
{
    static const struct unit units[] = {
        {"ns", 1},
        {"us", 1000},
        {"ms", UINT64_C(1000000)},
        {"s", UINT64_C(1000000000)},
        {"", UINT64_C(1000000000)},
        {"m", UINT64_C(60) * 1000000000},
        {"h", UINT64_C(3600) * 1000000000},
        {"d", UINT64_C(86400) * 1000000000},
    };
    return parse_scaled(text, units, sizeof(units) / sizeof(units[0]), min_ns, max_ns, ret_ns);
}

int kw_parse_bytes(const char *text, uint64_t min, uint64_t max, uint64_t *ret_bytes)
{
    /* as in Kubernetes quantities: k M G T are powers of 1000, Ki Mi Gi Ti of 1024 */
    static const struct unit units[] = {
        {"", 1},
        {"k", 1000},
        {"M", UINT64_C(1000000)},
        {"G", UINT64_C(1000000000)},
        {"T", UINT64_C(1000000000000)},
        {"Ki", UINT64_C(1) << 10},
        {"Mi", UINT64_C(1) << 20},
        {"Gi", UINT64_C(1) << 30},
        {"Ti", UINT64_C(1) << 40},
    };
    return parse_scaled(text, units, sizeof(units) / sizeof(units[0]), min, max, ret_bytes);
}

int kw_parse_bool(const char *text, bool *ret)
{
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    for (size_t i = 0; i < sizeof(yes) / sizeof(yes[0]); i++) {
        if (strcmp(text, yes[i]) == 0) {
            *ret = true;
            return 0;
        }
        if (strcmp(text, no[i]) == 0) {
            *ret = false;
            return 0;
        }
    }
    return -EINVAL;
}
