/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/curve.h"
#include "tests/support/cmocka.h"

#define WINDOW (5 * KW_NS_PER_S)

static struct kw_curve get(const struct agent_curve *curve)
{
    struct kw_curve ret;

    agent_curve_get(curve, 8000, false, &ret);
    assert_null(kw_curve_check(&ret));
    return ret;
}

static void test_prior(void **state)
{
    struct agent_curve curve;

    (void)state;
    agent_curve_init(&curve, 10000, 60000);
    struct kw_curve knots = get(&curve);
    assert_int_equal(knots.n, KW_CURVE_KNOTS);
    assert_int_equal(knots.knots[0].mw, 10000);
    assert_int_equal(knots.knots[5].mw, 35000);
    assert_int_equal(knots.knots[10].mw, 60000);
    assert_int_equal(knots.knots[5].confidence_permille, 0);
    assert_int_equal(agent_curve_marginal_mw(&knots, 0), 6250);
    assert_int_equal(agent_curve_marginal_mw(&knots, 8000), 6250);
    assert_int_equal(agent_curve_marginal_mw(&knots, UINT64_MAX / 2), 6250);
}

static void test_learns_a_bent_curve(void **state)
{
    struct agent_curve curve;

    (void)state;
    srandom(1);
    agent_curve_init(&curve, 1000, 2000);
    for (unsigned i = 0; i < 5000; i++) {
        uint32_t load = (uint32_t)random() % 1001;
        uint64_t mw = load < 500 ? 20000 + 60 * load : 50000 + 20 * (load - 500);
        agent_curve_observe(&curve, load, mw + (uint64_t)random() % 200 - 100, WINDOW);
    }
    struct kw_curve knots = get(&curve);
    assert_in_range(knots.knots[0].mw, 19000, 22500);
    assert_in_range(knots.knots[3].mw, 37000, 39000);
    assert_in_range(knots.knots[8].mw, 55000, 57000);
    assert_true(knots.knots[5].confidence_permille > 900);
    assert_true(agent_curve_marginal_mw(&knots, 1000) > 2 * agent_curve_marginal_mw(&knots, 6000));
}

/** A node that sleeps for less than it takes awake, whose power is S-shaped there: no straight line
 * tells either end. */
static void test_learns_a_step_and_an_s(void **state)
{
    struct agent_curve curve;

    (void)state;
    srandom(2);
    agent_curve_init(&curve, 40000, 250000);
    for (unsigned i = 0; i < 20000; i++) {
        uint32_t load = i % 3 == 0 ? (uint32_t)random() % 5 : (uint32_t)random() % 1001;
        uint64_t square = (uint64_t)load * load; /* 3 z^2 - 2 z^3 rises from 0 to 1 */
        uint64_t mw = 80000 + 200 * (3 * square * 1000 - 2 * square * load) / 1000000;
        agent_curve_observe(&curve, load, load < 10 ? 30000 : mw, KW_NS_PER_S);
    }
    struct kw_curve knots = get(&curve);
    static const uint32_t want_mw[] = {30000,  85600,  100800, 123200, 150400, 180000,
                                       209600, 236800, 259200, 274400, 280000};
    for (size_t k = 0; k < KW_CURVE_KNOTS; k++) {
        uint32_t off_mw = k < 2 ? 12000 : 4000;
        assert_in_range(knots.knots[k].mw, want_mw[k] - off_mw, want_mw[k] + off_mw);
        assert_true(knots.knots[k].confidence_permille > 900);
    }
}

/** What a node draws when it is idle is not known from loads of some percent. */
static void test_idle_is_unsure_until_seen(void **state)
{
    struct agent_curve curve;

    (void)state;
    agent_curve_init(&curve, 40000, 250000);
    for (unsigned i = 0; i < 300; i++)
        agent_curve_observe(&curve, 25 + i % 100, 80000, WINDOW);
    struct kw_curve knots = get(&curve);
    assert_int_equal(knots.knots[0].confidence_permille, 0);
    assert_true(knots.knots[1].confidence_permille > 900);
    for (unsigned i = 0; i < 60; i++)
        agent_curve_observe(&curve, i % 5, 30000, WINDOW);
    assert_true(get(&curve).knots[0].confidence_permille > 800);
}

/** Only idle was seen, at half of the prior: the unseen rest is scaled with it. */
static void test_scales_what_was_not_seen(void **state)
{
    struct agent_curve curve;

    (void)state;
    agent_curve_init(&curve, 10000, 60000);
    for (unsigned i = 0; i < 100; i++)
        agent_curve_observe(&curve, 0, 5000, WINDOW);
    struct kw_curve knots = get(&curve);
    assert_in_range(knots.knots[0].mw, 4900, 5100);
    assert_in_range(knots.knots[10].mw, 29000, 31000);
    assert_int_equal(knots.knots[10].confidence_permille, 0);
}

/** A node that was idle and a little busy: what lies above goes on as it began, not flat. */
static void test_goes_on_where_nothing_was_seen(void **state)
{
    const uint64_t prior_full_mw[] = {20000, 40000, 400000}; /* the first: a flat prior */

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(prior_full_mw); i++) {
        struct agent_curve curve;
        agent_curve_init(&curve, 20000, prior_full_mw[i]);
        for (unsigned w = 0; w < 60; w++) {
            uint32_t load = w % 2 == 0 ? 12 : 160 + w % 7;
            agent_curve_observe(&curve, load, 20000 + 60 * load, WINDOW);
        }
        struct kw_curve knots = get(&curve);
        assert_in_range(knots.knots[0].mw, 19800, 20300);
        assert_in_range(knots.knots[2].mw, 31700, 32300);
        assert_in_range(knots.knots[10].mw, 77000, 83000);
        assert_int_equal(knots.knots[10].confidence_permille, 0);
    }
}

/** Power that falls with load (a noisy or capped machine) still gives a curve that never falls. */
static void test_stays_monotone(void **state)
{
    struct agent_curve curve;

    (void)state;
    srandom(2);
    agent_curve_init(&curve, 0, 0);
    for (unsigned i = 0; i < 3000; i++) {
        uint32_t load = (uint32_t)random() % 2000; /* above 1000 counts as 1000 */
        agent_curve_observe(&curve, load, 90000 - 20 * (uint64_t)load + (uint64_t)random() % 30000,
                            WINDOW);
        if (i % 100 == 0)
            (void)get(&curve);
    }
    (void)get(&curve);
}

static void test_follows_a_change(void **state)
{
    struct agent_curve curve;

    (void)state;
    agent_curve_init(&curve, 10000, 60000);
    for (unsigned i = 0; i < 5000; i++)
        agent_curve_observe(&curve, 500, 30000, WINDOW);
    for (unsigned i = 0; i < 1000; i++)
        agent_curve_observe(&curve, 500, 45000, WINDOW);
    assert_in_range(get(&curve).knots[5].mw, 44000, 46000);
    unsigned before = get(&curve).knots[5].confidence_permille;
    agent_curve_observe(&curve, 0, 10000, 3 * 86400 * KW_NS_PER_S);
    assert_true(get(&curve).knots[5].confidence_permille < before);
}

static void test_absurd_values(void **state)
{
    struct agent_curve curve;

    (void)state;
    agent_curve_init(&curve, UINT64_MAX, 0);
    agent_curve_observe(&curve, UINT32_MAX, UINT64_MAX, UINT64_MAX);
    agent_curve_observe(&curve, 0, 0, 0);
    (void)get(&curve);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_prior),
        cmocka_unit_test(test_learns_a_bent_curve),
        cmocka_unit_test(test_learns_a_step_and_an_s),
        cmocka_unit_test(test_idle_is_unsure_until_seen),
        cmocka_unit_test(test_scales_what_was_not_seen),
        cmocka_unit_test(test_goes_on_where_nothing_was_seen),
        cmocka_unit_test(test_stays_monotone),
        cmocka_unit_test(test_follows_a_change),
        cmocka_unit_test(test_absurd_values),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
