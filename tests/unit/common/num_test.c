/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>

#include "common/cleanup.h"
#include "common/num.h"
#include "tests/support/cmocka.h"

#define UNTOUCHED UINT64_C(0x5a5a5a5a)

struct u64_case {
    const char *text;
    uint64_t min, max;
    int rc;
    uint64_t value;
};

static void check_u64(const struct u64_case *cases, size_t n,
                      int (*parse)(const char *, uint64_t, uint64_t, uint64_t *))
{
    for (size_t i = 0; i < n; i++) {
        uint64_t value = UNTOUCHED;
        int rc = parse(cases[i].text, cases[i].min, cases[i].max, &value);
        if (rc != cases[i].rc || value != (rc == 0 ? cases[i].value : UNTOUCHED))
            fail_msg("\"%s\": %d, %llu", cases[i].text, rc, (unsigned long long)value);
    }
}

static void u64_is_strict(void **state)
{
    (void)state;
    static const struct u64_case cases[] = {
        {"0", 0, UINT64_MAX, 0, 0},
        {"007", 0, UINT64_MAX, 0, 7},
        {"18446744073709551615", 0, UINT64_MAX, 0, UINT64_MAX},
        {"18446744073709551616", 0, UINT64_MAX, -ERANGE, 0},
        {"99999999999999999999999", 0, UINT64_MAX, -ERANGE, 0},
        {"5", 6, 10, -ERANGE, 0},
        {"11", 6, 10, -ERANGE, 0},
        {"6", 6, 10, 0, 6},
        {"10", 6, 10, 0, 10},
        {"", 0, 10, -EINVAL, 0},
        {" 1", 0, 10, -EINVAL, 0},
        {"1 ", 0, 10, -EINVAL, 0},
        {"1\n", 0, 10, -EINVAL, 0},
        {"+1", 0, 10, -EINVAL, 0},
        {"-1", 0, 10, -EINVAL, 0},
        {"0x10", 0, 100, -EINVAL, 0},
        {"1e3", 0, 10000, -EINVAL, 0},
        {"99999999999999999999999x", 0, UINT64_MAX, -EINVAL, 0},
    };
    check_u64(cases, KW_ARRAY_SIZE(cases), kw_parse_u64);
}

static void u64_span_needs_no_terminator(void **state)
{
    (void)state;
    uint64_t value = UNTOUCHED;
    assert_int_equal(kw_parse_u64_span("1234", 2, 0, UINT64_MAX, &value), 0);
    assert_int_equal(value, 12);
    assert_int_equal(kw_parse_u64_span("1234", 0, 0, UINT64_MAX, &value), -EINVAL);
    assert_int_equal(kw_parse_u64_span("1\0", 2, 0, UINT64_MAX, &value), -EINVAL);
    assert_int_equal(value, 12);
}

static void i64_reaches_both_ends(void **state)
{
    (void)state;
    int64_t value = 42;
    assert_int_equal(kw_parse_i64("-9223372036854775808", INT64_MIN, INT64_MAX, &value), 0);
    assert_true(value == INT64_MIN);
    assert_int_equal(kw_parse_i64("9223372036854775807", INT64_MIN, INT64_MAX, &value), 0);
    assert_true(value == INT64_MAX);
    assert_int_equal(kw_parse_i64("-0", INT64_MIN, INT64_MAX, &value), 0);
    assert_true(value == 0);
    assert_int_equal(kw_parse_i64("-9223372036854775809", INT64_MIN, INT64_MAX, &value), -ERANGE);
    assert_int_equal(kw_parse_i64("9223372036854775808", INT64_MIN, INT64_MAX, &value), -ERANGE);
    assert_int_equal(kw_parse_i64("-5", -4, 4, &value), -ERANGE);
    assert_int_equal(kw_parse_i64("--5", -9, 4, &value), -EINVAL);
    assert_int_equal(kw_parse_i64("-", -9, 4, &value), -EINVAL);
    assert_int_equal(kw_parse_i64("", -9, 4, &value), -EINVAL);
    assert_true(value == 0);
}

static void double_takes_finite_decimals_only(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int rc;
        double value;
    } cases[] = {
        {"0.25", 0, 0.25},     {"1e-3", 0, 1e-3},     {"-2.5E+2", 0, -250},  {"7", 0, 7},
        {".5", 0, 0.5},        {"5.", 0, 5},          {"1e-999", 0, 0},      {"1e999", -ERANGE, 0},
        {"inf", -EINVAL, 0},   {"nan", -EINVAL, 0},   {"0x1p3", -EINVAL, 0}, {"", -EINVAL, 0},
        {".", -EINVAL, 0},     {"1e", -EINVAL, 0},    {"1e+", -EINVAL, 0},   {" 1", -EINVAL, 0},
        {"1 ", -EINVAL, 0},    {"+1", -EINVAL, 0},    {"1,5", -EINVAL, 0},   {"2000", -ERANGE, 0},
        {"-2000", -ERANGE, 0}, {"1.2.3", -EINVAL, 0},
    };
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        double value = 42;
        int rc = kw_parse_double(cases[i].text, -1000, 1000, &value);
        double expected = rc == 0 ? cases[i].value : 42;
        if (rc != cases[i].rc || value < expected || value > expected)
            fail_msg("\"%s\": %d, %g", cases[i].text, rc, value);
    }
}

static void duration_is_exact(void **state)
{
    (void)state;
    static const struct u64_case cases[] = {
        {"250us", 0, UINT64_MAX, 0, 250000},
        {"100ms", 0, UINT64_MAX, 0, UINT64_C(100000000)},
        {"1.5s", 0, UINT64_MAX, 0, UINT64_C(1500000000)},
        {"2", 0, UINT64_MAX, 0, UINT64_C(2000000000)},
        {"0.1", 0, UINT64_MAX, 0, UINT64_C(100000000)},
        {"5m", 0, UINT64_MAX, 0, UINT64_C(300000000000)},
        {"2h", 0, UINT64_MAX, 0, UINT64_C(7200000000000)},
        {"7d", 0, UINT64_MAX, 0, UINT64_C(604800000000000)},
        {"17ns", 0, UINT64_MAX, 0, 17},
        {"0s", 0, UINT64_MAX, 0, 0},
        /* 2^64 ns are 213503 days and 23.58 hours */
        {"213503d", 0, UINT64_MAX, 0, UINT64_C(213503) * 86400 * 1000000000},
        {"213504d", 0, UINT64_MAX, -ERANGE, 0},
        {"99999999999999999999d", 0, UINT64_MAX, -ERANGE, 0},
        {"0.0000000019s", 0, UINT64_MAX, 0, 1},
        {"0.1234567890123456789999s", 0, UINT64_MAX, 0, 123456789},
        {"5s", UINT64_C(6000000000), UINT64_MAX, -ERANGE, 0},
        {"1.5ns", 0, UINT64_MAX, -EINVAL, 0},
        {"1.s", 0, UINT64_MAX, -EINVAL, 0},
        {".5s", 0, UINT64_MAX, -EINVAL, 0},
        {"5x", 0, UINT64_MAX, -EINVAL, 0},
        {"5 s", 0, UINT64_MAX, -EINVAL, 0},
        {"5sec", 0, UINT64_MAX, -EINVAL, 0},
        {"1h30m", 0, UINT64_MAX, -EINVAL, 0},
        {"-1s", 0, UINT64_MAX, -EINVAL, 0},
        {"s", 0, UINT64_MAX, -EINVAL, 0},
        {"", 0, UINT64_MAX, -EINVAL, 0},
    };
    check_u64(cases, KW_ARRAY_SIZE(cases), kw_parse_duration_ns);
}

static void bytes_know_both_kinds_of_units(void **state)
{
    (void)state;
    static const struct u64_case cases[] = {
        {"512", 0, UINT64_MAX, 0, 512},
        {"64k", 0, UINT64_MAX, 0, 64000},
        {"64Ki", 0, UINT64_MAX, 0, 65536},
        {"10M", 0, UINT64_MAX, 0, 10000000},
        {"10Mi", 0, UINT64_MAX, 0, 10485760},
        {"1.5Gi", 0, UINT64_MAX, 0, UINT64_C(1610612736)},
        {"1G", 0, UINT64_MAX, 0, UINT64_C(1000000000)},
        {"2Ti", 0, UINT64_MAX, 0, UINT64_C(2199023255552)},
        {"2T", 0, UINT64_MAX, 0, UINT64_C(2000000000000)},
        {"16777216Ti", 0, UINT64_MAX, -ERANGE, 0},
        {"1Mi", 0, 1000, -ERANGE, 0},
        {"1.5", 0, UINT64_MAX, -EINVAL, 0},
        {"64K", 0, UINT64_MAX, -EINVAL, 0},
        {"64kb", 0, UINT64_MAX, -EINVAL, 0},
        {"Mi", 0, UINT64_MAX, -EINVAL, 0},
        {"", 0, UINT64_MAX, -EINVAL, 0},
    };
    check_u64(cases, KW_ARRAY_SIZE(cases), kw_parse_bytes);
}

static void bool_knows_eight_words(void **state)
{
    (void)state;
    static const char *const yes[] = {"true", "yes", "on", "1"};
    static const char *const no[] = {"false", "no", "off", "0"};
    static const char *const bad[] = {"", "TRUE", "y", "2", "true ", "of"};
    for (size_t i = 0; i < KW_ARRAY_SIZE(yes); i++) {
        bool value = false;
        assert_int_equal(kw_parse_bool(yes[i], &value), 0);
        assert_true(value);
        assert_int_equal(kw_parse_bool(no[i], &value), 0);
        assert_false(value);
    }
    for (size_t i = 0; i < KW_ARRAY_SIZE(bad); i++) {
        bool value = true;
        assert_int_equal(kw_parse_bool(bad[i], &value), -EINVAL);
        assert_true(value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(u64_is_strict),
        cmocka_unit_test(u64_span_needs_no_terminator),
        cmocka_unit_test(i64_reaches_both_ends),
        cmocka_unit_test(double_takes_finite_decimals_only),
        cmocka_unit_test(duration_is_exact),
        cmocka_unit_test(bytes_know_both_kinds_of_units),
        cmocka_unit_test(bool_knows_eight_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
