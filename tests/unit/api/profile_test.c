/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/profile.h"
#include "common/cleanup.h"
#include "tests/support/cmocka.h"

static const struct kw_profile press = {
    .ns = "orchard",
    .owner = {.kind = "Deployment", .name = "press"},
    .t_unix_ms = INT64_C(1760000000000),
    .pods_permille = 7250,
    .used_mcpu = 410,
    .sigma_mcpu = 35,
    .core_mw = 3900,
    .request_uj = 18000,
    .request_unit = "turn",
    .estimated = true,
    .lived_ms = 86400000,
    .ended_permille = 12500,
};

static void test_what_is_written_reads_back(void **state)
{
    (void)state;
    kw_cleanup_free char *text = NULL;
    struct kw_profile again;
    size_t len = 0;

    assert_int_equal(kw_profile_encode(&press, &text, &len), 0);
    assert_int_equal(kw_profile_decode(text, len, &again, NULL), 0);
    assert_string_equal(again.ns, press.ns);
    assert_string_equal(again.owner.kind, press.owner.kind);
    assert_string_equal(again.owner.name, press.owner.name);
    assert_string_equal(again.request_unit, press.request_unit);
    assert_int_equal(again.t_unix_ms, press.t_unix_ms);
    assert_int_equal(again.pods_permille, press.pods_permille);
    assert_int_equal(again.used_mcpu, press.used_mcpu);
    assert_int_equal(again.sigma_mcpu, press.sigma_mcpu);
    assert_int_equal(again.core_mw, press.core_mw);
    assert_int_equal(again.request_uj, press.request_uj);
    assert_true(again.estimated);
    assert_int_equal(again.lived_ms, press.lived_ms);
    assert_int_equal(again.ended_permille, press.ended_permille);
}

#define HEAD "{\"schema\":1,\"namespace\":\"a\",\"kind\":\"Job\",\"name\":\"b\",\"t_unix_ms\":1,"

static void test_absurd_ones_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *why;
    } rows[] = {
        {HEAD "\"pods_permille\":1,\"used_mcpu\":0}", NULL},
        {HEAD "\"pods_permille\":0,\"used_mcpu\":0}", "pods_permille"},
        {HEAD "\"pods_permille\":10000001,\"used_mcpu\":0}", "pods_permille"},
        {HEAD "\"pods_permille\":1,\"used_mcpu\":1021000}", NULL},
        {HEAD "\"pods_permille\":1,\"used_mcpu\":1021001}", "used_mcpu"},
        {HEAD "\"pods_permille\":1,\"used_mcpu\":-1}", "used_mcpu"},
        {HEAD "\"pods_permille\":1,\"used_mcpu\":1.5}", "used_mcpu"},
        {HEAD "\"pods_permille\":1}", "used_mcpu"},
        {HEAD "\"pods_permille\":1,\"used_mcpu\":1,\"sigma_mcpu\":1021001}", "sigma_mcpu"},
        {HEAD "\"pods_permille\":1,\"used_mcpu\":1,\"core_mw\":1000001}", "core_mw"},
        {HEAD "\"pods_permille\":1,\"used_mcpu\":1,\"lived_ms\":1000000000000,"
              "\"ended_permille\":10000000}",
         NULL},
        {HEAD "\"pods_permille\":1,\"used_mcpu\":1,\"lived_ms\":1000000000001}", "lived_ms"},
        {HEAD "\"pods_permille\":1,\"used_mcpu\":1,\"lived_ms\":-1}", "lived_ms"},
        {HEAD "\"pods_permille\":1,\"used_mcpu\":1,\"lived_ms\":\"1h\"}", "lived_ms"},
        {HEAD "\"pods_permille\":1,\"used_mcpu\":1,\"ended_permille\":10000001}", "ended_permille"},
        {"{\"schema\":1,\"namespace\":\"a/b\",\"kind\":\"Job\",\"name\":\"b\",\"t_unix_ms\":1,"
         "\"pods_permille\":1,\"used_mcpu\":1}",
         "the workload's name"},
        {"{\"schema\":1,\"namespace\":\"a\",\"kind\":\"\",\"name\":\"b\",\"t_unix_ms\":1,"
         "\"pods_permille\":1,\"used_mcpu\":1}",
         "the workload's name"},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct kw_profile profile;
        const char *why = NULL;
        int rc = kw_profile_decode(rows[i].text, strlen(rows[i].text), &profile, &why);
        print_message("%s\n", rows[i].text);
        assert_int_equal(rc, rows[i].why == NULL ? 0 : -EBADMSG);
        if (rows[i].why != NULL)
            assert_string_equal(why, rows[i].why);
    }
    struct kw_profile absurd = press;
    char *text = NULL;
    size_t len;
    absurd.used_mcpu = KW_PROFILE_MCPU_MAX + 1;
    assert_int_equal(kw_profile_encode(&absurd, &text, &len), -EINVAL);
    assert_null(text);
}

/** One that was written before lives were learnt says nothing of them. */
static void test_older_ones(void **state)
{
    (void)state;
    static const char text[] = HEAD "\"pods_permille\":1,\"used_mcpu\":7}";
    struct kw_profile profile;

    assert_int_equal(kw_profile_decode(text, sizeof(text) - 1, &profile, NULL), 0);
    assert_int_equal(profile.lived_ms, 0);
    assert_int_equal(profile.ended_permille, 0);
}

static void test_lives(void **state)
{
    (void)state;
    static const struct {
        uint64_t lived_ms, ended_permille;
        double life_s;
    } rows[] = {
        {0, 0, 3600},           {3600000, 0, 7200}, {300000, 1000, 1950},
        {29700000, 99000, 333}, {0, 1000, 1800},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        double life_s = kw_profile_life_s(rows[i].lived_ms, rows[i].ended_permille);
        assert_true(life_s > rows[i].life_s - 1e-9 && life_s < rows[i].life_s + 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_written_reads_back),
        cmocka_unit_test(test_absurd_ones_are_refused),
        cmocka_unit_test(test_older_ones),
        cmocka_unit_test(test_lives),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
