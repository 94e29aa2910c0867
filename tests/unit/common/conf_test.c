/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "tests/support/cmocka.h"
#include "tests/unit/common/conf_fixture.h"

static void defaults_fill_every_type(void **state)
{
    (void)state;
    struct kwt_run run;
    kwt_load(&run, NULL, NULL);
    kwt_check_ok(&run);
    assert_true(run.settings.metrics);
    assert_string_equal(run.settings.redis_url, "redis://127.0.0.1:6379");
    assert_null(run.settings.node);
    assert_int_equal(run.settings.shards, 4);
    assert_true(run.settings.idle_share > 0.49 && run.settings.idle_share < 0.51);
    assert_int_equal(run.settings.timeout_ns, 2 * KW_NS_PER_S);
    assert_int_equal(run.settings.body_bytes, 4U << 20);
    assert_int_equal(run.settings.level, 2);
    assert_string_equal(run.settings.tls_name, "");
    assert_int_equal(run.first, 1);
    kwt_done(&run);
    assert_null(run.settings.redis_url);
}

static void flag_beats_environment_beats_file(void **state)
{
    (void)state;
    kwt_write_config("redis: {url: from-file, timeout: 3s}\nfeed: {shards: 5}\nnode: n\n");
    struct kwt_run run;
    kwt_load(&run, KWT_ARGS("--config", "@", "--redis=from-flag"),
             KWT_ARGS("KWATT_REDIS=from-env", "KWATT_REDIS_TIMEOUT=4s", "OTHER=x"));
    kwt_check_ok(&run);
    assert_string_equal(run.settings.redis_url, "from-flag");
    assert_int_equal(run.settings.timeout_ns, 4 * KW_NS_PER_S);
    assert_int_equal(run.settings.shards, 5);
    assert_string_equal(run.settings.node, "n");
    kwt_done(&run);
}

static void the_file_may_come_from_the_environment(void **state)
{
    (void)state;
    kwt_write_config("redis.timeout: 3s\n");
    char variable[96];
    (void)snprintf(variable, sizeof(variable), "KWATT_CONFIG=%s", kwt_config_path);
    struct kwt_run run;
    kwt_load(&run, NULL, KWT_ARGS(variable));
    kwt_check_ok(&run);
    assert_int_equal(run.settings.timeout_ns, 3 * KW_NS_PER_S);
    kwt_done(&run);
    kwt_load(&run, KWT_ARGS("--config=/nowhere/x.yaml"), KWT_ARGS(variable));
    assert_int_equal(run.rc, -ENOENT);
    assert_string_equal(run.err.text,
                        "--config /nowhere/x.yaml: cannot read it: No such file or directory");
    kwt_done(&run);
    kwt_load(&run, NULL, KWT_ARGS("KWATT_CONFIG=/nowhere/y.yaml"));
    assert_string_equal(run.err.text,
                        "KWATT_CONFIG /nowhere/y.yaml: cannot read it: No such file or directory");
    kwt_done(&run);
    kwt_load(&run, NULL, KWT_ARGS("KWATT_CONFIG=", "KWATT_REDIS=", "KWATT_SHARDS="));
    kwt_check_ok(&run);
    assert_string_equal(run.settings.redis_url, "redis://127.0.0.1:6379");
    kwt_done(&run);
}

static void flags_have_all_their_forms(void **state)
{
    (void)state;
    struct kwt_run run;
    kwt_load(&run,
             KWT_ARGS("--shards", "7", "--shards=8", "--no-metrics", "--node", "", "--node=a"),
             NULL);
    assert_int_equal(run.rc, -EINVAL); /* "" is too short, though a later one is fine */
    kwt_done(&run);
    kwt_load(&run, KWT_ARGS("--shards", "7", "--shards=8", "--no-metrics", "--node=a", "--redis="),
             NULL);
    kwt_check_ok(&run);
    assert_int_equal(run.settings.shards, 8);
    assert_false(run.settings.metrics);
    assert_string_equal(run.settings.node, "a");
    assert_string_equal(run.settings.redis_url, "");
    kwt_done(&run);
    kwt_load(&run, KWT_ARGS("--metrics=off", "--metrics"), NULL);
    kwt_check_ok(&run);
    assert_true(run.settings.metrics);
    kwt_done(&run);
    kwt_load(&run, KWT_ARGS("--metrics=off", "--redis=--odd", "--log-level", "debug"), NULL);
    kwt_check_ok(&run);
    assert_false(run.settings.metrics);
    assert_string_equal(run.settings.redis_url, "--odd");
    assert_int_equal(run.settings.level, 3);
    kwt_done(&run);
}

static void positionals_move_to_the_end(void **state)
{
    (void)state;
    struct kwt_run run;
    kwt_load(&run,
             KWT_ARGS("one", "--shards", "7", "-", "--metrics", "two", "--", "--redis", "three"),
             NULL);
    kwt_check_ok(&run);
    static const char *const expected[] = {"kwatt-test", "--shards", "7",   "--metrics", "--",
                                           "one",        "-",        "two", "--redis",   "three"};
    assert_int_equal(run.argc, KW_ARRAY_SIZE(expected));
    for (size_t i = 0; i < KW_ARRAY_SIZE(expected); i++)
        assert_string_equal(run.argv[i], expected[i]);
    assert_int_equal(run.first, 5);
    kwt_done(&run);
}

static void no_arguments_at_all(void **state)
{
    (void)state;
    struct kwt_settings settings = {0};
    struct kw_err err = {0};
    char *argv[] = {NULL};
    size_t first = 9;
    assert_int_equal(kw_conf_load(&kwt_program, 0, argv, NULL, &settings, stdout, &first, &err),
                     KW_CONF_RUN);
    assert_int_equal(first, 0);
    kw_conf_free(&kwt_program, &settings);
}

static void keys_without_a_value_leave_the_default(void **state)
{
    (void)state;
    kwt_write_config("redis:\nfeed:\n  shards: ~\nnode: null\nhttp: {metrics: no}\n");
    struct kwt_run run;
    kwt_load(&run, KWT_ARGS("--config", "@"), NULL);
    kwt_check_ok(&run);
    assert_string_equal(run.settings.redis_url, "redis://127.0.0.1:6379");
    assert_int_equal(run.settings.shards, 4);
    assert_null(run.settings.node);
    assert_false(run.settings.metrics);
    kwt_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_fill_every_type),
        cmocka_unit_test(flag_beats_environment_beats_file),
        cmocka_unit_test(the_file_may_come_from_the_environment),
        cmocka_unit_test(flags_have_all_their_forms),
        cmocka_unit_test(positionals_move_to_the_end),
        cmocka_unit_test(no_arguments_at_all),
        cmocka_unit_test(keys_without_a_value_leave_the_default),
    };
    return cmocka_run_group_tests(tests, NULL, kwt_remove_config);
}
