/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "tests/support/cmocka.h"
#include "tests/unit/common/conf_fixture.h"

static void mistakes_in_flags_and_environment_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *args[3], *env, *text;
    } cases[] = {
        {{"--redis-timeout=5x"},
         NULL,
         "--redis-timeout: \"5x\" is no duration (allowed 100ms to 60s; example 2s)"},
        {{"--redis-timeout", "2m"},
         NULL,
         "--redis-timeout: \"2m\" is out of range (allowed 100ms to 60s; example 2s)"},
        {{NULL},
         "KWATT_REDIS_TIMEOUT=1ms",
         "KWATT_REDIS_TIMEOUT: \"1ms\" is out of range (allowed 100ms to 60s; example 2s)"},
        {{"--redis-timeout=2s"},
         "KWATT_REDIS_TIMEOUT=never",
         "KWATT_REDIS_TIMEOUT: \"never\" is no duration (allowed 100ms to 60s; example 2s)"},
        {{"--shards=0"}, NULL, "--shards: \"0\" is out of range (allowed 1 to 64; example 4)"},
        {{"--shards=x"}, NULL, "--shards: \"x\" is no whole number (allowed 1 to 64; example 4)"},
        {{"--shards="}, NULL, "--shards: \"\" is no whole number (allowed 1 to 64; example 4)"},
        {{"--node=a!"}, NULL, "--node: a node of '!' is none"},
        {{"--node=a"}, "KWATT_NODE=b!", "KWATT_NODE: a node of '!' is none"},
        {{"--idle-share=2"},
         NULL,
         "--idle-share: \"2\" is out of range (allowed 0 to 1; example 0.5)"},
        {{"--max-body=5"},
         NULL,
         "--max-body: \"5\" is out of range (allowed 1Ki or more; example 4Mi)"},
        {{"--max-body=5MB"},
         NULL,
         "--max-body: \"5MB\" is no size (allowed 1Ki or more; example 4Mi)"},
        {{"--metrics=maybe"},
         NULL,
         "--metrics: \"maybe\" is no truth value (allowed true, false; example true)"},
        {{"--log-level=wran"},
         NULL,
         "--log-level: \"wran\" is none of error, warn, info, debug; did you mean \"warn\"?"},
        {{"--log-level=x"}, NULL, "--log-level: \"x\" is none of error, warn, info, debug"},
        {{"--node="}, NULL, "--node: \"\" has 0 bytes (allowed 1 to 63 bytes)"},
        {{"--reddis=x"}, NULL, "unknown option \"--reddis=x\"; did you mean --redis?"},
        {{"--no-metrix"}, NULL, "unknown option \"--no-metrix\""},
        {{"--dump-confg"}, NULL, "unknown option \"--dump-confg\"; did you mean --dump-config?"},
        {{"--zzzzzzzzz"}, NULL, "unknown option \"--zzzzzzzzz\""},
        {{"-x"}, NULL, "unknown option \"-x\""},
        {{"-redis"}, NULL, "unknown option \"-redis\"; did you mean --redis?"},
        {{"--=x"}, NULL, "unknown option \"--=x\""},
        {{"--no-redis"}, NULL, "unknown option \"--no-redis\"; did you mean --redis?"},
        {{"--no-metrics=true"}, NULL, "--no-metrics takes no value"},
        {{"--help=x"}, NULL, "--help takes no value"},
        {{"--redis"}, NULL, "--redis needs a value: --redis URL"},
        {{"--redis", "--metrics"}, NULL, "--redis needs a value: --redis URL"},
        {{"--config"}, NULL, "--config needs a value: --config FILE"},
        {{"--shards=\x1b[31m"},
         NULL,
         "--shards: \"?[31m\" is no whole number (allowed 1 to 64; example 4)"},
    };
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct kwt_run run;
        const char *args[3] = {cases[i].args[0], cases[i].args[1], NULL};
        const char *env[2] = {cases[i].env, NULL};
        kwt_load(&run, args, env);
        char expected[256];
        (void)snprintf(expected, sizeof(expected), "%s" KWT_SEE, cases[i].text);
        kwt_check_refused(&run, expected);
        kwt_done(&run);
    }
}

static void unexpected_arguments_are_named(void **state)
{
    (void)state;
    struct kw_conf_program strict = kwt_program;
    strict.positionals = false;
    strict.name = "kwatt up";
    struct kwt_run run;
    kwt_load_as(&run, &strict, KWT_ARGS("--metrics", "extra"), NULL);
    assert_int_equal(run.rc, -EINVAL);
    assert_string_equal(run.err.text, "unexpected argument \"extra\" (see kwatt up --help)");
    kwt_done(&run);
}

static void long_values_do_not_hide_what_is_allowed(void **state)
{
    (void)state;
    char flag[3000] = "--shards=";
    memset(flag + 9, 'y', sizeof(flag) - 10);
    struct kwt_run run;
    kwt_load(&run, KWT_ARGS(flag), NULL);
    assert_non_null(
        strstr(run.err.text, "yyy\" is no whole number (allowed 1 to 64; example 4)" KWT_SEE));
    kwt_done(&run);
}

static void a_bad_default_is_found_at_once(void **state)
{
    (void)state;
    static const struct kw_conf_option bad[] = {{"x", NULL, NULL, KW_CONF_U64,
                                                 offsetof(struct kwt_settings, shards), "many", 0,
                                                 0, NULL, "N", "", "X", NULL}};
    struct kw_conf_program broken = {.name = "p", .options = bad, .n_options = 1};
    struct kwt_run run;
    kwt_load_as(&run, &broken, NULL, NULL);
    assert_int_equal(run.rc, -EINVAL);
    assert_string_equal(run.err.text,
                        "default of --x: \"many\" is no whole number (example many) (see "
                        "p --help)");
    kwt_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_in_flags_and_environment_are_named),
        cmocka_unit_test(unexpected_arguments_are_named),
        cmocka_unit_test(long_values_do_not_hide_what_is_allowed),
        cmocka_unit_test(a_bad_default_is_found_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, kwt_remove_config);
}
