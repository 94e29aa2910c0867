/* SPDX-License-Identifier: Apache-2.0 */
/* A file of zones that comes, changes, goes bad, goes, and comes again. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/cleanup.h"
#include "common/file.h"
#include "extender/zone_file.h"
#include "tests/support/cmocka.h"

#define HEAD "unit = gCO2eq/kWh\nsource = grid operator\n"

static char folder[] = "/tmp/kwatt-zones-XXXXXX";
static char path[64];

static void put(const char *text)
{
    assert_int_equal(kw_file_write_atomic(path, text, strlen(text), 0644), 0);
}

static double value_of(const struct ext_zone_file *file, const char *zone)
{
    const struct ext_zone *found = ext_zones_find(ext_zone_file_zones(file), zone);

    return found == NULL ? -1 : found->value;
}

static void test_a_life(void **state)
{
    (void)state;
    kw_cleanup(ext_zone_file_free) struct ext_zone_file *file = NULL;
    struct kw_err err = {0};
    char want[128];

    assert_int_equal(ext_zone_file_new(path, &file), 0);
    assert_int_equal(ext_zone_file_check(file, &err), -ENOENT); /* it is not there, said once */
    (void)snprintf(want, sizeof(want), "%s: No such file or directory", path);
    assert_string_equal(err.text, want);
    assert_int_equal(ext_zone_file_check(file, &err), 0);
    assert_null(ext_zone_file_zones(file));
    assert_true(ext_zone_file_is_bad(file));

    put(HEAD "north,30\n");
    assert_int_equal(ext_zone_file_check(file, &err), 1);
    assert_true(value_of(file, "north") == 30);
    put(HEAD "north,30\n"); /* another file, the same content */
    assert_int_equal(ext_zone_file_check(file, &err), 0);
    put(HEAD "north,3x\n");
    assert_int_equal(ext_zone_file_check(file, &err), -EBADMSG);
    (void)snprintf(want, sizeof(want), "%s, line 3: north: \"3x\" is no number from 0 to 1000000",
                   path);
    assert_string_equal(err.text, want);
    assert_int_equal(ext_zone_file_check(file, &err), 0); /* said once; the last good one stays */
    assert_true(value_of(file, "north") == 30);
    assert_true(ext_zone_file_is_bad(file));
    put(HEAD "north,40\n");
    assert_int_equal(ext_zone_file_check(file, &err), 1);
    assert_true(value_of(file, "north") == 40);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ext_zone_file_check(file, &err), -ENOENT);
    assert_int_equal(ext_zone_file_check(file, &err), 0);
    assert_true(value_of(file, "north") == 40);
    assert_true(ext_zone_file_is_bad(file));
    put(HEAD "north,40\n"); /* it is back, as it was */
    assert_int_equal(ext_zone_file_check(file, &err), 0);
    assert_false(ext_zone_file_is_bad(file));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(ext_zone_file_check(file, &err), -ENOENT);
}

static void test_too_large(void **state)
{
    (void)state;
    kw_cleanup(ext_zone_file_free) struct ext_zone_file *file = NULL;
    kw_cleanup_free char *text = malloc(600000);
    struct kw_err err = {0};

    assert_non_null(text);
    memset(text, '#', 600000);
    assert_int_equal(kw_file_write_atomic(path, text, 600000, 0644), 0);
    assert_int_equal(ext_zone_file_new(path, &file), 0);
    assert_int_equal(ext_zone_file_check(file, &err), -EFBIG);
    assert_int_equal(ext_zone_file_check(file, &err), 0);
    assert_int_equal(unlink(path), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_life),
                                       cmocka_unit_test(test_too_large)};

    if (mkdtemp(folder) == NULL)
        return 1;
    (void)snprintf(path, sizeof(path), "%s/zones", folder);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    (void)rmdir(folder);
    return failed;
}
