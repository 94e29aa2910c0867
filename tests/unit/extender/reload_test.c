/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/reload.h"
#include "tests/support/cmocka.h"

static void load(struct ext_settings *settings, int argc, char **argv)
{
    struct kw_err err = {0};

    *settings = (struct ext_settings){0};
    assert_int_equal(kw_conf_load(&ext_program, argc, argv, NULL, settings, stdout, NULL, &err),
                     KW_CONF_RUN);
}

static void test_settings_become_policies(void **state)
{
    char *argv[] = {"x",
                    "--stale-after=7s",
                    "--default-cpu-mcpu=11",
                    "--request-use-percent=50",
                    "--own-namespace=orchard",
                    "--dry-run",
                    "--cap-soft-permille=800",
                    "--cap-sigma-permille=1500",
                    NULL};
    struct ext_settings settings;

    (void)state;
    load(&settings, KW_ARRAY_SIZE(argv) - 1, argv);
    struct ext_policy policy = ext_reload_policy(&settings);
    struct ext_cap_policy caps = ext_reload_caps(&settings);
    kw_conf_free(&ext_program, &settings); /* nothing of it is borrowed */
    assert_int_equal(policy.stale_after_ns, UINT64_C(7000000000));
    assert_int_equal(policy.assumptions.default_cpu_mcpu, 11);
    assert_int_equal(policy.assumptions.request_use_percent, 50);
    assert_string_equal(policy.own_namespace, "orchard");
    assert_true(policy.dry_run);
    assert_true(policy.cap_sigmas == 1.5);
    assert_true(caps.sigmas == 1.5);
    assert_int_equal(caps.soft_permille, 800);
}

/** Only what cannot change while it serves is named, texts by what they say. */
static void test_what_wants_a_restart(void **state)
{
    static const struct {
        const char *flags[4], *later;
    } cases[] = {
        {{NULL}, ""},
        {{"--dry-run", "--log-level=debug", "--stale-after=1h"}, ""},
        {{"--own-namespace=orchard", "--cap-soft-permille=1"}, ""},
        {{"--threads=2"}, ""}, /* the default */
        {{"--threads=3", "--dry-run"}, "--threads"},
        {{"--caps=/a", "--listen=:1", "--redis-timeout=9s"}, "--listen --redis-timeout --caps"},
    };
    char *none[] = {"x", NULL};
    struct ext_settings running;

    (void)state;
    load(&running, 1, none);
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        kw_cleanup(kw_buf_free) struct kw_buf later = {0};
        struct ext_settings fresh;
        char *argv[6] = {"x"};
        int argc = 1;
        for (; cases[i].flags[argc - 1] != NULL; argc++)
            argv[argc] = strdup(cases[i].flags[argc - 1]);
        load(&fresh, argc, argv);
        assert_int_equal(ext_reload_later(&running, &fresh, &later), 0);
        assert_string_equal(later.len == 0 ? "" : later.data, cases[i].later);
        kw_conf_free(&ext_program, &fresh);
        while (--argc > 0)
            free(argv[argc]);
    }
    kw_conf_free(&ext_program, &running);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_settings_become_policies),
        cmocka_unit_test(test_what_wants_a_restart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
