/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "api/quantity.h"
#include "tests/support/cmocka.h"

#define MAX INT64_MAX

static const struct {
    const char *text;
    int rc_milli;
    uint64_t milli;
    int rc_units;
    uint64_t units;
} rows[] = {
    {"0", 0, 0, 0, 0},
    {"-0", 0, 0, 0, 0},
    {"0Ki", 0, 0, 0, 0},
    {"0e99999999999999999999", 0, 0, 0, 0},
    {"1", 0, 1000, 0, 1},
    {"+1", 0, 1000, 0, 1},
    {"007", 0, 7000, 0, 7},
    {"0.1", 0, 100, 0, 1},
    {".5", 0, 500, 0, 1},
    {"1.", 0, 1000, 0, 1},
    {"1.G", 0, 1000000000000, 0, 1000000000},
    {"250m", 0, 250, 0, 1},
    {"1500m", 0, 1500, 0, 2},
    {"0.0001", 0, 1, 0, 1},
    {"100n", 0, 1, 0, 1},
    {"1n", 0, 1, 0, 1},
    {"1000001n", 0, 2, 0, 1},
    {"3000u", 0, 3, 0, 1},
    {"1e3", 0, 1000000, 0, 1000},
    {"1E3", 0, 1000000, 0, 1000},
    {"1e+3", 0, 1000000, 0, 1000},
    {"1e-3", 0, 1, 0, 1},
    {"1e-2000", 0, 1, 0, 1},
    {"123456e-3", 0, 123456, 0, 124},
    {"1E", -ERANGE, 0, 0, 1000000000000000000},
    {"1k", 0, 1000000, 0, 1000},
    {"2M", 0, 2000000000, 0, 2000000},
    {"1Ki", 0, 1024000, 0, 1024},
    {"1.5Ki", 0, 1536000, 0, 1536},
    {"0.5Mi", 0, 524288000, 0, 524288},
    {"0.1Ki", 0, 102400, 0, 103},
    {"100Mi", 0, 104857600000, 0, 104857600},
    {"1Gi", 0, 1073741824000, 0, 1073741824},
    {"7Ei", -ERANGE, 0, 0, 8070450532247928832},
    {"8Ei", -ERANGE, 0, -ERANGE, 0},
    {"7.999999999999999999Ei", -ERANGE, 0, 0, MAX},
    {"9223372036854775807", -ERANGE, 0, 0, MAX},
    {"9223372036854775808", -ERANGE, 0, -ERANGE, 0},
    {"9223372036854775806.5", -ERANGE, 0, 0, MAX},
    {"9223372036854775807.000000000000000000000000000001", -ERANGE, 0, -ERANGE, 0},
    {"9223372036854775.807", 0, MAX, 0, UINT64_C(9223372036854776)},
    {"1.0000000000000000000000000000000000000000000001", 0, 1001, 0, 2},
    {"0.00000000000000000000000000000000000000000000000001", 0, 1, 0, 1},
    {"1000000000000000000000000000000e-30", 0, 1000, 0, 1},
    {"1e9999999999999999999999", -ERANGE, 0, -ERANGE, 0},
    {"-1", -ERANGE, 0, -ERANGE, 0},
    {"-0.001", -ERANGE, 0, -ERANGE, 0},
};

static void test_good_quantities(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        uint64_t milli = 4711, units = 4711;
        int rc_milli = kw_quantity_milli(rows[i].text, strlen(rows[i].text), &milli);
        int rc_units = kw_quantity_units(rows[i].text, strlen(rows[i].text), &units);
        if (rc_milli != rows[i].rc_milli || milli != (rc_milli ? 4711 : rows[i].milli))
            fail_msg("%s: %d, %lu thousandths", rows[i].text, rc_milli, milli);
        if (rc_units != rows[i].rc_units || units != (rc_units ? 4711 : rows[i].units))
            fail_msg("%s: %d, %lu units", rows[i].text, rc_units, units);
    }
}

static void test_malformed_quantities(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",    " ",   "1 ", " 1",   "+",   "-",     ".",    "+.",   "1..",  "1.1.1", "--1", "1m ",
        "1mi", "1ki", "1K", "1e",   "1e+", "1e1.5", "1ee1", "0x10", "1,5",  "1KiB",  "1kk", "Ki",
        "m",   "e3",  "1i", "1e3m", "NaN", "inf",   "1+1",  "1-",   "1Eii", "\x80",  "1\n", "１",
    };
    uint64_t value = 5;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        if (kw_quantity_milli(bad[i], strlen(bad[i]), &value) != -EINVAL)
            fail_msg("accepted: \"%s\"", bad[i]);
        assert_int_equal(kw_quantity_units(bad[i], strlen(bad[i]), &value), -EINVAL);
    }
    assert_int_equal(kw_quantity_units("1\0", 2, &value), -EINVAL);
    assert_int_equal(kw_quantity_units("1\0i", 3, &value), -EINVAL);
    assert_int_equal(value, 5);
}

static void test_formats(void **state)
{
    (void)state;
    static const struct {
        uint64_t value;
        const char *cpu, *bytes;
    } formats[] = {
        {0, "0", "0"},
        {1, "1m", "1"},
        {587, "587m", "587"},
        {1000, "1", "1k"},
        {1024, "1024m", "1Ki"},
        {1500, "1500m", "1500"},
        {2000, "2", "2000"},
        {2000000, "2k", "2000000"},
        {262144000, "262144", "250Mi"},
        {1073741824, "1073741824m", "1Gi"},
        {1536 * 1024, "1572864m", "1536Ki"},
    };
    char out[KW_QUANTITY_MAX];

    for (size_t i = 0; i < sizeof(formats) / sizeof(formats[0]); i++) {
        kw_quantity_format_mcpu(out, formats[i].value);
        assert_string_equal(out, formats[i].cpu);
        kw_quantity_format_bytes(out, formats[i].value);
        assert_string_equal(out, formats[i].bytes);
    }
}

static void test_what_is_printed_reads_the_same(void **state)
{
    (void)state;
    for (uint64_t value = 1; value < (uint64_t)MAX / 3; value = value * 3 + 1) {
        char out[KW_QUANTITY_MAX];
        uint64_t again = 0;
        kw_quantity_format_mcpu(out, value);
        assert_int_equal(kw_quantity_milli(out, strlen(out), &again), 0);
        assert_true(again == value);
        kw_quantity_format_bytes(out, value);
        assert_int_equal(kw_quantity_units(out, strlen(out), &again), 0);
        assert_true(again == value);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_quantities),
        cmocka_unit_test(test_malformed_quantities),
        cmocka_unit_test(test_formats),
        cmocka_unit_test(test_what_is_printed_reads_the_same),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
