/* SPDX-License-Identifier: Apache-2.0 */
/* What a node draws, and may draw, by its samples and its curve. */
#include <math.h>

#include "extender/watts.h"
#include "tests/support/cmocka.h"

/** Where the machine's own meter was learnt from, its curve counts, not that of the domains. */
static void test_platform_curve(void **state)
{
    struct kw_curve curve = {.capacity_mcpu = 8000,
                             .n = 2,
                             .knots = {{0, 100000, 0}, {1000, 180000, 0}},
                             .platform = {.present = true, .mw = {150000, 270000}}};
    struct kw_sample sample = {.watts_mw = 110000, .platform = {.present = true, .mw = 165000}};
    struct ext_watts watts = {0};

    (void)state;
    ext_watts_sample(&watts, &sample);
    ext_watts_curve(&watts, &curve);
    const struct ext_watts_load load = {.used_mcpu = 1000, .held_mcpu = 2000};
    struct ext_watts_slope slope = ext_watts_slope(&watts, &load);
    assert_true(slope.base_mw == 165000 + 2 * 15000 && slope.mw_per_mcpu == 15);
    curve.platform.present = false;
    ext_watts_curve(&watts, &curve);
    assert_true(ext_watts_slope(&watts, &load).mw_per_mcpu == 10);
}

/** Half a core to both sides, from sample to sample. */
static struct ext_watts restless_watts(const struct kw_curve *curve, double at_mcpu, unsigned n)
{
    struct ext_watts watts = {0};

    ext_watts_curve(&watts, curve);
    for (unsigned i = 0; i < n; i++) {
        double mcpu = at_mcpu + (i % 2 == 0 ? 500 : -500);
        const struct kw_sample sample = {.watts_mw = (uint64_t)(100000 + 10 * mcpu),
                                         .used_mcpu = (uint64_t)mcpu};
        ext_watts_sample(&watts, &sample);
    }
    return watts;
}

/** What a node runs may go beyond a knot for a moment, where a core is dearer than any sample said;
 * a lull is not what it will run at, nor are all its processors ever passed. */
static void test_restless_use(void **state)
{
    (void)state;
    const struct kw_curve curve = {.capacity_mcpu = 8000,
                                   .n = 3,
                                   .knots = {{0, 100000, 0}, {500, 140000, 0}, {1000, 260000, 0}}};
    struct ext_watts watts = restless_watts(&curve, 3000, 400);
    struct ext_watts_load load = {.used_mcpu = 2500, .sigmas = 4};
    struct ext_watts_slope slope = ext_watts_slope(&watts, &load);

    /* 2 cores above 3: a core of 10 W and one of 30 W, where watts alone wandered by 4 x 5 W */
    assert_true(fabs(slope.base_mw - 130000) < 500);
    assert_true(fabs(slope.risk_mw - 40000) < 2000);
    assert_true(slope.mw_per_mcpu == 30 && isinf(slope.room_mcpu));
    /* so many deviations are taken as are wanted */
    load.sigmas = 0;
    slope = ext_watts_slope(&watts, &load);
    assert_true(slope.risk_mw == 0 && slope.mw_per_mcpu == 10 && fabs(slope.room_mcpu - 1000) < 50);
    /* pods in flight wander as well: 2 cores in flight, 0.5 and 1.2 cores together 1.3 */
    load = (struct ext_watts_load){
        .used_mcpu = 2500, .held_mcpu = 2000, .held_variance_mcpu2 = 1200 * 1200, .sigmas = 2};
    slope = ext_watts_slope(&watts, &load);
    assert_true(fabs(slope.base_mw - 170000) < 2000 && fabs(slope.risk_mw - 78000) < 3000);
    /* and no longer when the node has no more to give */
    load.sigmas = 9;
    assert_true(fabs(ext_watts_slope(&watts, &load).risk_mw - 90000) < 2000);
    /* those that samples show since a moment are not in what was seen of the past */
    load = (struct ext_watts_load){.used_mcpu = 3000, .sigmas = 1};
    double before_mw = ext_watts_slope(&watts, &load).risk_mw;
    ext_watts_join(&watts, 1200 * 1200);
    assert_true(ext_watts_slope(&watts, &load).risk_mw > before_mw + 8000);
}

/** A node that was restless a while ago, and has been calm by chance, is not taken to be calm. */
static void test_past_restlessness(void **state)
{
    (void)state;
    const struct kw_curve curve = {
        .capacity_mcpu = 8000, .n = 2, .knots = {{0, 100000, 0}, {1000, 180000, 0}}};
    struct ext_watts watts = restless_watts(&curve, 3000, 400);
    const struct ext_watts_load load = {.used_mcpu = 3000, .sigmas = 4};
    const struct kw_sample calm = {.watts_mw = 130000, .used_mcpu = 3000};

    for (unsigned i = 0; i < 30; i++)
        ext_watts_sample(&watts, &calm);
    assert_true(ext_watts_slope(&watts, &load).risk_mw > 16000);
    for (unsigned i = 0; i < 1000; i++)
        ext_watts_sample(&watts, &calm);
    assert_true(ext_watts_slope(&watts, &load).risk_mw < 1000);
    /* without a curve, by watts alone */
    ext_watts_curve(&watts, NULL);
    const struct ext_watts_load held = {.held_mcpu = 1000, .held_variance_mcpu2 = 1e6, .sigmas = 2};
    struct ext_watts_slope slope = ext_watts_slope(&watts, &held);
    assert_true(fabs(slope.base_mw - 136000) < 10 && fabs(slope.risk_mw - 12000) < 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_platform_curve),
        cmocka_unit_test(test_restless_use),
        cmocka_unit_test(test_past_restlessness),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
