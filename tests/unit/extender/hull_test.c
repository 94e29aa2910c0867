/* SPDX-License-Identifier: Apache-2.0 */
/* The hull of known curves, and what must hold for every curve: below it, convex, same ends. */
#include <math.h>

#include "extender/hull.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

static double total_mw(const struct ext_hull *hull, double mcpu)
{
    return ext_hull_marginal_mw(hull, 0, mcpu);
}

/* A two-socket server as published for SPECpower: a jump on waking, a flat middle, a steep top. */
static void test_server_curve(void **state)
{
    (void)state;
    struct kw_curve curve = kwt_server_curve(128000);
    struct ext_hull hull;

    ext_hull_build(&curve, &hull);
    /* knots of its hull: idle, 60 %, 70 %, 80 %, 100 % */
    assert_int_equal(hull.n, 4);
    assert_true(fabs(hull.end_mcpu[0] - 76800) < 1e-6);
    assert_true(fabs(hull.end_mcpu[1] - 89600) < 1e-6);
    assert_true(fabs(hull.end_mcpu[2] - 102400) < 1e-6);
    assert_true(fabs(hull.end_mcpu[3] - 128000) < 1e-6);
    assert_true(fabs(total_mw(&hull, 76800) - (442000 - 128000)) < 1e-3);
    assert_true(fabs(total_mw(&hull, 128000) - (817000 - 128000)) < 1e-3);
}

static void test_two_knots(void **state)
{
    (void)state;
    const struct kw_curve curve = {
        .capacity_mcpu = 4000, .n = 2, .knots = {{0, 10000, 0}, {1000, 50000, 0}}};
    struct ext_hull hull;

    ext_hull_build(&curve, &hull);
    assert_int_equal(hull.n, 1);
    assert_true(fabs(ext_hull_marginal_mw(&hull, 1000, 500) - 5000) < 1e-9);
}

static void test_flat_curve_is_free(void **state)
{
    (void)state;
    const struct kw_curve curve = {
        .capacity_mcpu = 4000, .n = 3, .knots = {{0, 7, 0}, {500, 7, 0}, {1000, 7, 0}}};
    struct ext_hull hull;

    ext_hull_build(&curve, &hull);
    assert_int_equal(hull.n, 1);
    assert_true(ext_hull_marginal_mw(&hull, 0, 4000) == 0);
}

/* A node used beyond its capacity goes on at the price of its top: never cheaper, never free. */
static void test_beyond_capacity(void **state)
{
    (void)state;
    struct kw_curve curve = kwt_server_curve(128000);
    struct ext_hull hull;

    ext_hull_build(&curve, &hull);
    double top = ext_hull_marginal_mw(&hull, 127000, 1000);
    assert_true(top > 0);
    assert_true(fabs(ext_hull_marginal_mw(&hull, 300000, 1000) - top) < 1e-6);
    assert_true(fabs(ext_hull_marginal_mw(&hull, 127500, 1000) - top) < 1e-6);
}

/* Equal machines on one segment cost exactly the same, so that ties are ties. */
static void test_same_segment_is_exact(void **state)
{
    (void)state;
    struct kw_curve curve = kwt_server_curve(128000);
    struct ext_hull hull;

    ext_hull_build(&curve, &hull);
    double price = ext_hull_marginal_mw(&hull, 0, 1500);
    for (unsigned used = 1; used < 70000; used += 977)
        assert_true(ext_hull_marginal_mw(&hull, used, 1500) == price);
}

static void test_every_curve(void **state)
{
    (void)state;
    uint64_t seed = 7;

    for (unsigned round = 0; round < 2000; round++) {
        struct kw_curve curve = kwt_random_curve(&seed);
        struct ext_hull hull;
        assert_null(kw_curve_check(&curve));
        ext_hull_build(&curve, &hull);
        assert_in_range(hull.n, 1, KW_CURVE_KNOTS - 1);
        double capacity = (double)curve.capacity_mcpu;
        double rise = (double)curve.knots[curve.n - 1].mw - (double)curve.knots[0].mw;
        double slack = 1e-6 * (rise + 1);
        assert_true(fabs(total_mw(&hull, capacity) - rise) < slack);
        for (uint32_t i = 1; i < hull.n; i++) {
            assert_true(hull.end_mcpu[i] > hull.end_mcpu[i - 1]);
            assert_true(hull.mw_per_mcpu[i] > hull.mw_per_mcpu[i - 1]);
        }
        for (uint32_t i = 0; i < curve.n; i++) {
            double at = capacity * curve.knots[i].load_permille / 1000;
            double above = (double)curve.knots[i].mw - (double)curve.knots[0].mw;
            assert_true(total_mw(&hull, at) <= above + slack);
        }
        /* in two steps as in one, and never cheaper further up */
        double a = capacity * (double)(kwt_next(&seed) % 1000) / 1000;
        double b = capacity * (double)(kwt_next(&seed) % 1000) / 1000;
        double once = ext_hull_marginal_mw(&hull, a, b);
        double twice = ext_hull_marginal_mw(&hull, a, b / 3) +
                       ext_hull_marginal_mw(&hull, a + b / 3, b - b / 3);
        assert_true(once >= 0 && fabs(once - twice) < slack);
        assert_true(ext_hull_marginal_mw(&hull, a + 1, b) >= once - slack);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_server_curve),          cmocka_unit_test(test_two_knots),
        cmocka_unit_test(test_flat_curve_is_free),    cmocka_unit_test(test_beyond_capacity),
        cmocka_unit_test(test_same_segment_is_exact), cmocka_unit_test(test_every_curve),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
