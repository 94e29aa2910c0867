/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "tests/support/cmocka.h"
#include "tests/unit/common/conf_fixture.h"

static void help_shows_every_row(void **state)
{
    (void)state;
    struct kwt_run run;
    kwt_load(&run, KWT_ARGS("--shards=3", "--help", "--unknown"), NULL);
    assert_int_equal(run.rc, KW_CONF_DONE);
    static const char *const parts[] = {
        "Usage: kwatt-test [options] [FILE...]\n\nTests the configuration. Second line.\n\nNew "
        "paragraph.\n",
        "\nRedis:\n  --redis URL\n        Where to publish: ",
        "        [default: redis://127.0.0.1:6379; env: KWATT_REDIS; file: redis.url]\n",
        "  --redis-timeout TIME\n        Longest wait for an answer.\n"
        "        [default: 2s; allowed: 100ms to 60s; env: KWATT_REDIS_TIMEOUT;\n"
        "        file: redis.timeout]\n",
        "[default: none; allowed: 1 to 63 bytes; env: KWATT_NODE; file: node]\n",
        "  --[no-]metrics\n        Serve /metrics.\n"
        "        [default: true; env: KWATT_METRICS; file: http.metrics]\n",
        "[default: info; allowed: error, warn, info, debug; env: KWATT_LOG_LEVEL;\n"
        "        file: logLevel]\n",
        "[default: 4Mi; allowed: 1Ki or more; env: KWATT_MAX_BODY; file: http.maxBody]\n",
        "  --config FILE\n",
        "KWATT_CONFIG",
        "  --dump-config\n",
        "  --dump-options\n",
        "  --version\n",
        "\nExamples:\n  kwatt-test --redis unix:///run/redis.sock\n",
    };
    for (size_t i = 0; i < KW_ARRAY_SIZE(parts); i++) {
        if (strstr(run.out, parts[i]) == NULL)
            fail_msg("\"%s\" is missing in:\n%s", parts[i], run.out);
    }
    for (const char *line = run.out; *line != '\0';) {
        size_t len = strcspn(line, "\n");
        if (len > 90)
            fail_msg("line of %zu columns: %.*s", len, (int)len, line);
        line += len + 1;
    }
    kwt_done(&run);
    kwt_load(&run, KWT_ARGS("-h"), NULL);
    assert_int_equal(run.rc, KW_CONF_DONE);
    kwt_done(&run);
}

static void version_is_one_line(void **state)
{
    (void)state;
    struct kwt_run run;
    kwt_load(&run, KWT_ARGS("--version"), NULL);
    assert_int_equal(run.rc, KW_CONF_DONE);
    assert_memory_equal(run.out, "kwatt-test 0.", 13);
    assert_non_null(strstr(run.out, " (commit "));
    assert_ptr_equal(strchr(run.out, '\n'), run.out + run.out_len - 1);
    kwt_done(&run);
}

static void dump_names_sources_and_can_be_loaded(void **state)
{
    (void)state;
    kwt_write_config("feed:\n  shards: 9\n");
    struct kwt_run run;
    kwt_load(&run,
             KWT_ARGS("--config", "@", "--dump-config", "--redis=a\"b\\\x01\x7fö\n\t\xff",
                      "--redis-timeout=1.5s"),
             KWT_ARGS("KWATT_METRICS=off"));
    assert_int_equal(run.rc, KW_CONF_DONE);
    char expected[1024];
    (void)snprintf(expected, sizeof(expected),
                   "# Settings in force of kwatt-test 0.1.0; comments say where each comes from.\n"
                   "redis:\n"
                   "  url: \"a\\\"b\\\\\\u0001\\u007fö\\u000a\\u0009\\ufffd\" # --redis\n"
                   "  timeout: 1.5s # --redis-timeout\n"
                   "  tls:\n"
                   "    name: \"\" # default\n"
                   "# node: # default\n"
                   "feed:\n"
                   "  shards: 9 # %s:2\n"
                   "idleShare: 0.5 # default\n"
                   "http:\n"
                   "  maxBody: 4Mi # default\n"
                   "  metrics: off # KWATT_METRICS\n"
                   "logLevel: info # default\n"
                   "# --only-flag \"x\" (has no key) # default\n",
                   kwt_config_path);
    assert_string_equal(run.out, expected);

    kwt_write_config(run.out);
    kwt_done(&run);
    kwt_load(&run, KWT_ARGS("--config", "@"), NULL);
    kwt_check_ok(&run);
    assert_string_equal(run.settings.redis_url, "a\"b\\\x01\x7fö\n\t\xef\xbf\xbd");
    assert_int_equal(run.settings.timeout_ns, 1500 * KW_NS_PER_MS);
    assert_int_equal(run.settings.shards, 9);
    assert_false(run.settings.metrics);
    assert_null(run.settings.node);
    kwt_done(&run);
}

static void the_table_is_json(void **state)
{
    (void)state;
    struct kwt_run run;
    kwt_load(&run, KWT_ARGS("--shards=3", "--dump-options", "--unknown"),
             KWT_ARGS("KWATT_SHARDS=x"));
    assert_int_equal(run.rc, KW_CONF_DONE);
    static const char *const parts[] = {
        "{\"program\": \"kwatt-test\", \"version\": \"0.1.0\", \"options\": [\n  {\"flag\": "
        "\"redis\", ",
        "{\"flag\": \"redis-timeout\", \"env\": \"KWATT_REDIS_TIMEOUT\", \"key\": "
        "\"redis.timeout\", "
        "\"type\": \"duration\", \"default\": \"2s\", \"min\": 100000000, \"max\": 60000000000, "
        "\"metavar\": \"TIME\", \"help\": \"Longest wait for an answer.\", \"group\": "
        "\"Redis\"},\n",
        "\"key\": \"node\", \"type\": \"string\", \"min\": 1, \"max\": 63,",
        "\"type\": \"number\", \"default\": \"0.5\", \"min\": 0, \"max\": 1,",
        "\"min\": 1024, \"max\": 18446744073709551615,",
        "\"type\": \"bool\", \"default\": \"true\", \"help\"",
        "\"choices\": [\"error\", \"warn\", \"info\", \"debug\"], \"metavar\": \"LEVEL\",",
        "{\"flag\": \"only-flag\", \"type\": \"string\", \"default\": \"x\",",
        "\"help\": \"No key.\", \"group\": \"Log\"}\n]}\n",
    };
    for (size_t i = 0; i < KW_ARRAY_SIZE(parts); i++) {
        if (strstr(run.out, parts[i]) == NULL)
            fail_msg("\"%s\" is missing in:\n%s", parts[i], run.out);
    }
    kwt_done(&run);
}

static void a_dump_onto_a_full_disk_fails(void **state)
{
    (void)state;
    kw_cleanup_file FILE *full = fopen("/dev/full", "w");
    assert_non_null(full);
    static const char *const flags[] = {"--dump-config", "--dump-options", "--help", "--version"};
    for (size_t i = 0; i < KW_ARRAY_SIZE(flags); i++) {
        struct kwt_settings settings = {0};
        struct kw_err err = {0};
        char *argv[] = {(char *)"kwatt-test", (char *)flags[i], NULL};
        assert_int_equal(kw_conf_load(&kwt_program, 2, argv, NULL, &settings, full, NULL, &err),
                         -EIO);
        assert_string_equal(err.text, "cannot write the output");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(help_shows_every_row),
        cmocka_unit_test(version_is_one_line),
        cmocka_unit_test(dump_names_sources_and_can_be_loaded),
        cmocka_unit_test(the_table_is_json),
        cmocka_unit_test(a_dump_onto_a_full_disk_fails),
    };
    return cmocka_run_group_tests(tests, NULL, kwt_remove_config);
}
