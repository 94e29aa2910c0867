/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "api/curve.h"
#include "tests/support/cmocka.h"
#include "tests/unit/api/samples.h"

static struct kw_curve three_knots(void)
{
    return (struct kw_curve){
        .capacity_mcpu = 4000,
        .n = 3,
        .knots = {{0, 10000, 0}, {500, 30000, 1000}, {1000, 40000, 1000}},
    };
}

static void test_power_is_linear_between_knots(void **state)
{
    (void)state;
    struct kw_curve curve = three_knots();
    static const struct {
        uint64_t mcpu, mw;
    } rows[] = {
        {0, 10000},    {1000, 20000}, {2000, 30000}, {3000, 35000},
        {4000, 40000}, {4001, 40000}, {1, 10010},    {UINT64_MAX, 40000},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        assert_int_equal(kw_curve_mw_at(&curve, rows[i].mcpu), rows[i].mw);
}

static void test_power_never_falls(void **state)
{
    (void)state;
    uint64_t seed = 5;

    for (unsigned round = 0; round < 50; round++) {
        struct kw_curve curve = kwt_curve(&seed);
        uint64_t last = curve.knots[0].mw;
        assert_null(kw_curve_check(&curve));
        for (uint64_t step = 0; step <= 200; step++) {
            uint64_t mcpu = (uint64_t)((unsigned __int128)curve.capacity_mcpu * step / 200);
            uint64_t mw = kw_curve_mw_at(&curve, mcpu);
            assert_true(mw >= last && mw <= curve.knots[curve.n - 1].mw);
            last = mw;
        }
        assert_int_equal(last, curve.knots[curve.n - 1].mw);
    }
}

static void test_broken_rules_are_named(void **state)
{
    (void)state;
    struct kw_curve curve = three_knots();

    assert_null(kw_curve_check(&curve));
    curve.capacity_mcpu = 0;
    assert_string_equal(kw_curve_check(&curve), "capacity_mcpu must be above 0");
    curve = three_knots();
    curve.n = 1;
    assert_string_equal(kw_curve_check(&curve), "knots must be 2 to 11");
    curve.n = 12;
    assert_string_equal(kw_curve_check(&curve), "knots must be 2 to 11");
    curve = three_knots();
    curve.knots[0].load_permille = 1;
    assert_string_equal(kw_curve_check(&curve), "the first load_permille must be 0");
    curve = three_knots();
    curve.knots[2].load_permille = 999;
    assert_string_equal(kw_curve_check(&curve), "the last load_permille must be 1000");
    curve = three_knots();
    curve.knots[1].load_permille = 1000;
    assert_string_equal(kw_curve_check(&curve), "load_permille must ascend strictly");
    curve = three_knots();
    curve.knots[1].mw = 1;
    assert_string_equal(kw_curve_check(&curve), "mw must not fall");
    curve = three_knots();
    curve.knots[1].confidence_permille = 1001;
    assert_string_equal(kw_curve_check(&curve), "confidence_permille must be 0 to 1000");
    curve = three_knots();
    curve.platform = (struct kw_curve_platform){.present = true, .mw = {50, 50, 49}};
    assert_string_equal(kw_curve_check(&curve), "platform_mw must not fall");
    curve.platform = (struct kw_curve_platform){.present = true, .confidence_permille = {0, 1001}};
    assert_string_equal(kw_curve_check(&curve), "platform_confidence_permille must be 0 to 1000");
    curve.platform.present = false;
    assert_null(kw_curve_check(&curve));
}

static void test_a_refused_curve_names_the_rule(void **state)
{
    (void)state;
    static const char falls[] =
        "{\"schema\":1,\"capacity_mcpu\":1,\"knots\":[{\"load_permille\":0,\"mw\":2},"
        "{\"load_permille\":1000,\"mw\":1}]}";
    struct kw_curve curve;
    const char *why = NULL;

    assert_int_equal(kw_curve_decode(falls, strlen(falls), &curve, &why), -EBADMSG);
    assert_string_equal(why, "mw must not fall");
    static const char part[] =
        "{\"schema\":1,\"capacity_mcpu\":1,\"knots\":[{\"load_permille\":0,\"mw\":2,"
        "\"platform_mw\":3},{\"load_permille\":1000,\"mw\":2}]}";
    assert_int_equal(kw_curve_decode(part, strlen(part), &curve, &why), -EBADMSG);
    assert_string_equal(why, "platform_mw");
}

static void test_power_of_an_unchecked_curve_is_defined(void **state)
{
    (void)state;
    struct kw_curve curve = {0};

    assert_int_equal(kw_curve_mw_at(&curve, 5), 0);
    curve = three_knots();
    curve.n = UINT32_MAX;
    curve.capacity_mcpu = UINT64_MAX;
    (void)kw_curve_mw_at(&curve, UINT64_MAX - 1);
    curve.knots[1].load_permille = 0;
    (void)kw_curve_mw_at(&curve, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_power_is_linear_between_knots),
        cmocka_unit_test(test_power_never_falls),
        cmocka_unit_test(test_broken_rules_are_named),
        cmocka_unit_test(test_a_refused_curve_names_the_rule),
        cmocka_unit_test(test_power_of_an_unchecked_curve_is_defined),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
