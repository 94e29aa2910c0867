/* SPDX-License-Identifier: Apache-2.0 */
/* Files of zones: what is taken, how zones compare, and what an operator reads of a bad one. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/zones.h"
#include "tests/support/cmocka.h"

#define HEAD "unit = gCO2eq/kWh\nsource = grid operator, week 48\n"

static void near(double value, double want)
{
    assert_true(fabs(value - want) < 1e-9);
}

static double factor_of(const struct ext_zones *zones, const char *name)
{
    const struct ext_zone *zone = ext_zones_find(zones, name);

    assert_non_null(zone);
    return zone->factor;
}

static void test_a_file(void **state)
{
    (void)state;
    static const char text[] =
        "\xef\xbb\xbf# carbon\r\n\n  unit =gCO2eq/kWh\r\nsource\t= a = b, c \n"
        "south , 400\r\n# here and there\nnorth,25.5\n east,200\nwest,0";
    kw_cleanup(ext_zones_free) struct ext_zones *zones = NULL;
    struct kw_err err = {0};

    assert_null(ext_zones_find(zones, "north"));
    assert_int_equal(ext_zones_parse("zones", text, sizeof(text) - 1, &zones, &err), 0);
    assert_string_equal(zones->unit, "gCO2eq/kWh");
    assert_string_equal(zones->source, "a = b, c");
    assert_int_equal(zones->n, 4);
    near(zones->median, 112.75);
    near(factor_of(zones, "south"), 400 / 112.75);
    near(factor_of(zones, "north"), 25.5 / 112.75);
    /* no joule is free, or its nodes would all look alike */
    near(factor_of(zones, "west"), 1 / EXT_ZONE_FACTOR_MAX);
    near(ext_zones_find(zones, "west")->value, 0);
    assert_null(ext_zones_find(zones, "nowhere"));
    assert_null(ext_zones_find(zones, ""));
    assert_null(ext_zones_find(zones, "North"));
    /* whoever holds them has them still */
    struct ext_zones *held = ext_zones_hold(zones);
    ext_zones_free(&zones);
    assert_null(zones);
    near(factor_of(held, "south"), 400 / 112.75);
    zones = held;
    ext_zones_free(&zones);
}

static void test_odd_values(void **state)
{
    (void)state;
    kw_cleanup(ext_zones_free) struct ext_zones *zones = NULL;
    struct kw_err err = {0};

    assert_int_equal(ext_zones_parse("z", HEAD "a,5", strlen(HEAD "a,5"), &zones, &err), 0);
    near(factor_of(zones, "a"), 1);
    ext_zones_free(&zones);
    /* a byte order mark before a key */
    static const char marked[] = "\xef\xbb\xbf" HEAD "a,5";
    assert_int_equal(ext_zones_parse("z", marked, sizeof(marked) - 1, &zones, &err), 0);
    ext_zones_free(&zones);
    /* half of them free: no measure */
    assert_int_equal(
        ext_zones_parse("z", HEAD "a,0\nb,0\nc,7", strlen(HEAD "a,0\nb,0\nc,7"), &zones, &err), 0);
    near(factor_of(zones, "c"), 1);
    ext_zones_free(&zones);
    assert_int_equal(
        ext_zones_parse("z", HEAD "a,1\nb,1\nc,1e6", strlen(HEAD "a,1\nb,1\nc,1e6"), &zones, &err),
        0);
    near(factor_of(zones, "c"), EXT_ZONE_FACTOR_MAX);
    ext_zones_free(&zones);
}

static void test_bad_files(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } rows[] = {
        {"", "z.csv, line 0: no \"zone, value\" is given"},
        {HEAD, "z.csv, line 2: no \"zone, value\" is given"},
        {HEAD "a,ten\n", "z.csv, line 3: a: \"ten\" is no number from 0 to 1000000"},
        {HEAD "a,1\nb,-3\n", "z.csv, line 4: b: \"-3\" is no number from 0 to 1000000"},
        {HEAD "a,\n", "z.csv, line 3: a: \"\" is no number from 0 to 1000000"},
        {HEAD "a,1,2\n", "z.csv, line 3: a: \"1,2\" is no number from 0 to 1000000"},
        {HEAD "a,nan\n", "z.csv, line 3: a: \"nan\" is no number from 0 to 1000000"},
        {HEAD "a,1000001\n", "z.csv, line 3: a: \"1000001\" is no number from 0 to 1000000"},
        {HEAD "a,1\na,2\n", "z.csv, line 4: zone: \"a\" is given a second time"},
        {HEAD "a b,1\n",
         "z.csv, line 3: zone: \"a b\" is no value of a label, of 1 to 63 characters"},
        {HEAD ",1\n", "z.csv, line 3: zone: \"\" is no value of a label, of 1 to 63 characters"},
        {"unit = x\na,1\n",
         "z.csv, line 2: zone: \"a\" comes before \"unit = ...\" and \"source = ...\""},
        {HEAD "a,1\nunit = y\n", "z.csv, line 4: unit: \"y\" comes after the first zone"},
        {HEAD "unit = y\n", "z.csv, line 3: unit: \"y\" is given a second time"},
        {"unit =\n", "z.csv, line 1: unit: \"\" has not 1 to 127 bytes"},
        {"unit = \x1b[1m\n", "z.csv, line 1: unit: \"?[1m\" is not printable ASCII"},
        {"units = x\n", "z.csv, line 1: key: \"units\" is neither unit nor source"},
        {HEAD "north 25\n", "z.csv, line 3: line: \"north 25\" is neither \"unit = ...\", "
                            "\"source = ...\" nor \"zone, value\""},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct ext_zones *zones = NULL;
        struct kw_err err = {0};
        assert_int_equal(ext_zones_parse("z.csv", rows[i].text, strlen(rows[i].text), &zones, &err),
                         -EBADMSG);
        assert_string_equal(err.text, rows[i].why);
        assert_null(zones);
    }
}

static void test_many(void **state)
{
    (void)state;
    static char text[200000];
    size_t len = (size_t)snprintf(text, sizeof(text), HEAD);
    kw_cleanup(ext_zones_free) struct ext_zones *zones = NULL;
    struct kw_err err = {0};

    for (unsigned i = 0; i < EXT_ZONES_MAX; i++)
        len += (size_t)snprintf(text + len, sizeof(text) - len, "zone-%u, %u\n", i, i + 1);
    assert_int_equal(ext_zones_parse("z", text, len, &zones, &err), 0);
    near(ext_zones_find(zones, "zone-4095")->value, 4096);
    ext_zones_free(&zones);
    len += (size_t)snprintf(text + len, sizeof(text) - len, "more, 1\n");
    assert_int_equal(ext_zones_parse("z", text, len, &zones, &err), -EBADMSG);
    assert_string_equal(err.text, "z, line 4099: zone: \"more\" is one more than 4096");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_file),
        cmocka_unit_test(test_odd_values),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_many),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
