/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "tests/support/cmocka.h"
#include "tests/unit/common/conf_fixture.h"

static void mistakes_in_the_file_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *yaml, *text;
    } cases[] = {
        {"# x\nredis:\n  timeout: 5x\n",
         ":3: redis.timeout: \"5x\" is no duration (allowed 100ms to 60s; example 2s)"},
        {"redis:\n  timout: 5s\n",
         ":2: unknown key \"redis.timout\"; did you mean \"redis.timeout\"?"},
        {"loglevel: info\n", ":1: unknown key \"loglevel\"; did you mean \"logLevel\"?"},
        {"redis:\n  url: a\n  zzzzzzzzzzzzz: 1\n", ":3: unknown key \"redis.zzzzzzzzzzzzz\""},
        {"foo:\n  bar: 1\n", ":1: unknown key \"foo\""},
        {"node: a\nnode: b\n", ":2: key \"node\" was already given in line 1"},
        {"redis: {url: a}\nredis.url: b\n", ":2: key \"redis.url\" was already given in line 1"},
        {"redis: text\n", ":1: redis: a map is expected, with keys such as \"url\""},
        {"redis:\n- url\n", ":1: redis: a map is expected, with keys such as \"url\""},
        {"node: {a: b}\n", ":1: node: a single value is expected, not a map"},
        {"node: [a]\n", ":1: node: a single value is expected, not a list"},
        {"- a\n", ":1: \"key: value\" lines are expected"},
        {"text\n", ":1: \"key: value\" lines are expected"},
        {"a: &x 1\n", ":1: anchors (&name) are not supported; write it out"},
        {"logLevel: inf\n",
         ":1: logLevel: \"inf\" is none of error, warn, info, debug; did you mean "
         "\"info\"?"},
        {"feed: {shards: 65}\n",
         ":1: feed.shards: \"65\" is out of range (allowed 1 to 64; example 4)"},
        {"http:\n  metrics: \"\"\n",
         ":2: http.metrics: \"\" is no truth value (allowed true, false; example true)"},
    };
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        kwt_write_config(cases[i].yaml);
        struct kwt_run run;
        /* what a flag overrides is checked too */
        kwt_load(&run, KWT_ARGS("--config", "@", "--redis-timeout=1s", "--log-level=warn"), NULL);
        char expected[256];
        (void)snprintf(expected, sizeof(expected), "%s%s" KWT_SEE, kwt_config_path, cases[i].text);
        kwt_check_refused(&run, expected);
        kwt_done(&run);
    }
}

static void keys_longer_than_any_of_ours_are_unknown(void **state)
{
    (void)state;
    char yaml[600];
    memset(yaml, 'k', sizeof(yaml));
    (void)snprintf(yaml + 500, 8, ": 1\n");
    kwt_write_config(yaml);
    struct kwt_run run;
    kwt_load(&run, KWT_ARGS("--config=/dev/null"), NULL);
    kwt_check_ok(&run);
    kwt_done(&run);
    kwt_load(&run, KWT_ARGS("--config", "@"), NULL);
    assert_int_equal(run.rc, -EINVAL);
    assert_non_null(strstr(run.err.text, ":1: unknown key \"kkkkk"));
    kwt_done(&run);
    kwt_load(&run, KWT_ARGS("--config", "/dev/zero"), NULL);
    assert_string_equal(run.err.text, "--config /dev/zero: larger than 1 MiB" KWT_SEE);
    kwt_done(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mistakes_in_the_file_are_named),
        cmocka_unit_test(keys_longer_than_any_of_ours_are_unknown),
    };
    return cmocka_run_group_tests(tests, NULL, kwt_remove_config);
}
