/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/recording.h"
#include "tests/support/cmocka.h"

static struct cli_recording recording;
static struct kw_err err;

static int setup(void **state)
{
    (void)state;
    memset(&recording, 0, sizeof(recording));
    memset(&err, 0, sizeof(err));
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cli_recording_free(&recording);
    return 0;
}

static int add(const char *csv, const char *group_column, const char *group)
{
    return cli_recording_add(&recording, csv, strlen(csv), group_column, group, &err);
}

static void test_columns(void **state)
{
    (void)state;
    assert_int_equal(add("t_s,bpf_cpu_time_ms,note,cpu_cycles,package_w,dram_w\r\n"
                         "0,1500,x,4e9,30.5,5\r\n\r\n3,2500,y,5e9,40,6",
                         NULL, "a.csv"),
                     0);
    assert_int_equal(recording.n, 2);
    assert_int_equal(recording.n_features, 2);
    assert_string_equal(recording.features[0], "cpu_time");
    assert_string_equal(recording.features[1], "cycles");
    assert_true(fabs(recording.x[0] - 1.5) < 1e-12); /* CPU seconds a second */
    assert_true(fabs(recording.x[3] - 5e9) < 1);
    assert_int_equal(recording.parts, 1u << KW_MODEL_PACKAGE | 1u << KW_MODEL_DRAM);
    assert_true(fabs(recording.watts[KW_MODEL__MAX + KW_MODEL_DRAM] - 6) < 1e-12);
    assert_string_equal(recording.groups[recording.group[1]], "a.csv");
}

/** Another file may have its columns in another order, and more of them. */
static void test_files(void **state)
{
    (void)state;
    assert_int_equal(add("cpu_time,package_w\n1,10\n", NULL, "a"), 0);
    assert_int_equal(add("dram_w,package_w,cycles,cpu_time\n3,20,1e9,2\n", NULL, "b"), 0);
    assert_int_equal(recording.n, 2);
    assert_int_equal(recording.n_features, 1);
    assert_true(fabs(recording.x[1] - 2) < 1e-12);
    assert_int_equal(recording.n_groups, 2);
    assert_int_equal(add("cpu_time\n1\n", NULL, "c"), -EBADMSG);
}

static void test_groups_from_a_column(void **state)
{
    (void)state;
    assert_int_equal(
        add("program,cpu_time,package_w\nx,1,10\ny\x1b,2,20\nx,3,30\n", "program", "file"), 0);
    assert_int_equal(recording.n_groups, 2);
    assert_string_equal(recording.groups[1], "y?");
    assert_int_equal(recording.group[2], 0);
}

static void test_threads_of_the_machine(void **state)
{
    (void)state;
    assert_int_equal(add("\xef\xbb\xbf"
                         "cpu_time,package_w,threads\n1,10,4\n",
                         NULL, "a"),
                     0);
    assert_int_equal(recording.threads, 0); /* somebody else's column */
    assert_int_equal(add("machine_threads,cpu_time,package_w\n8,1,10\n", NULL, "b"), 0);
    assert_int_equal(recording.threads, 8);
    assert_int_equal(add("machine_threads,cpu_time,package_w\n16,1,10\n", NULL, "c"), -EBADMSG);
    assert_non_null(strstr(err.text, "of one of 8; a model is of one machine"));
}

static void test_missing_values_are_passed_over(void **state)
{
    (void)state;
    assert_int_equal(add("cpu_time,package_w\n1,10\n,20\n3,NaN\n4,40\n", NULL, "a"), 0);
    assert_int_equal(recording.n, 2);
    assert_int_equal(recording.n_skipped, 2);
    assert_true(fabs(recording.x[1] - 4) < 1e-12);
}

static void test_choice_of_features(void **state)
{
    (void)state;
    assert_int_equal(cli_recording_choose(&recording, "cycles", &err), 0);
    assert_int_equal(add("cpu_time,cycles,package_w\n1,2,10\n", NULL, "a"), 0);
    assert_int_equal(recording.n_features, 1);
    assert_int_equal(add("cpu_time,package_w\n1,10\n", NULL, "b"), -EBADMSG);
    assert_non_null(strstr(err.text, "cycles"));
    assert_int_equal(cli_recording_choose(&recording, "cycles", &err), -EINVAL); /* twice */
    assert_int_equal(cli_recording_choose(&recording, "watts", &err), -EINVAL);
}

static void test_what_is_refused(void **state)
{
    static const struct {
        const char *csv, *group_column, *why;
    } rows[] = {
        {"", NULL, "empty"},
        {"a,b\n", NULL, "no column of cpu_time"},
        {"\"cpu_time\",\"package_w\"\n", NULL, "line 1: names are separated by commas"},
        {"cpu_time;package_w\n1,5;2\n", NULL, "line 1: names are separated by commas"},
        {"cpu_time\tpackage_w\n", NULL, "line 1: names are separated by commas"},
        {"cpu_time,package_w,machine_threads\n1,2,8\n1,2,4\n", NULL, "line 3: of a machine of 4"},
        {"cpu_time,package_w,machine_threads\n1,2,x\n", NULL, "line 2, column 3"},
        {"cpu_time,package_w,machine_threads,machine_threads\n", NULL, "another one"},
        {"cpu_time\n", NULL, "no column of package_w"},
        {"cpu_time,bpf_cpu_time_ms,package_w\n", NULL, "another one"},
        {"cpu_time,package_w\n", "program", "no column \"program\""},
        {"cpu_time,package_w\n1\n", NULL, "line 2"},
        {"cpu_time,package_w\n1,2,3\n", NULL, "line 2"},
        {"cpu_time,package_w\n1,2\nx,3\n", NULL, "line 3, column 1: \"x\""},
        {"cpu_time,package_w\n1,1e9\n", NULL, "line 2, column 2"},
        {"cpu_time,package_w\n-1,1\n", NULL, "line 2, column 1"},
        {"cpu_time,package_w\n1,2\033[2J\n", NULL, "line 2, column 2: \"2?[2J\" is no number"},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        (void)setup(state);
        assert_int_equal(add(rows[i].csv, rows[i].group_column, "a"), -EBADMSG);
        assert_non_null(strstr(err.text, rows[i].why));
        cli_recording_free(&recording);
    }
}

static void test_too_many_groups(void **state)
{
    char csv[4096] = "program,cpu_time,package_w\n";
    size_t len = strlen(csv);

    (void)state;
    for (unsigned i = 0; i <= KW_MODEL_GROUPS_MAX; i++)
        len += (size_t)snprintf(csv + len, sizeof(csv) - len, "p%u,1,2\n", i);
    assert_int_equal(add(csv, "program", ""), -EBADMSG);
    assert_non_null(strstr(err.text, "groups"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_columns, setup, teardown),
        cmocka_unit_test_setup_teardown(test_files, setup, teardown),
        cmocka_unit_test_setup_teardown(test_groups_from_a_column, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads_of_the_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(test_missing_values_are_passed_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_choice_of_features, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(test_too_many_groups, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
