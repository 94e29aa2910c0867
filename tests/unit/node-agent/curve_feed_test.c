/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "api/curve.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/curve_feed.h"
#include "tests/support/cmocka.h"

#define CAPACITY UINT64_C(8000)
#define WINDOW   (KW_NS_PER_S / 10)

static const struct agent_curve_basis metered = {.domains = 1, .capacity_mcpu = CAPACITY};

static uint64_t next(void)
{
    return (uint64_t)random();
}

static struct kw_curve get(const struct agent_curve_feed *feed)
{
    struct kw_curve ret;

    agent_curve_feed_get(feed, &metered, &ret);
    assert_null(kw_curve_check(&ret));
    return ret;
}

/** One window of so much power at so much work. */
static struct agent_curve_window window_of(uint64_t mcpu, uint64_t mw)
{
    return (struct agent_curve_window){.basis = metered,
                                       .fit = true,
                                       .measured_uj = mw * (WINDOW / 1000000),
                                       .work_ns = mcpu * (WINDOW / 1000),
                                       .interval_ns = WINDOW};
}

static void feed_n(struct agent_curve_feed *feed, struct agent_curve_window window, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        agent_curve_feed_take(feed, &window);
}

/** A counter of whole joules: most windows of 100 ms show none. What they come to is what counts.
 */
static void test_steps_of_a_joule(void **state)
{
    struct agent_curve_feed feed;
    uint64_t uj = 0, shown_uj = 0;

    (void)state;
    agent_curve_feed_init(&feed, 1000, 2000);
    for (unsigned i = 0; i < 6000; i++) {
        struct agent_curve_window window = window_of(0, 0);
        uj += 500000 / 10; /* half a watt: a step in two seconds */
        window.measured_uj = uj / 1000000 * 1000000 - shown_uj;
        shown_uj += window.measured_uj;
        agent_curve_feed_take(&feed, &window);
    }
    assert_in_range(get(&feed).knots[0].mw, 495, 505);
}

/** Many short windows say as much as few long ones. */
static void test_weighs_by_time(void **state)
{
    struct agent_curve_feed quick, slow;

    (void)state;
    agent_curve_feed_init(&quick, 10000, 60000);
    agent_curve_feed_init(&slow, 10000, 60000);
    feed_n(&quick, window_of(4000, 30000), 600);
    struct agent_curve_window window = window_of(4000, 30000);
    window.measured_uj *= 50;
    window.work_ns *= 50;
    window.interval_ns *= 50;
    feed_n(&slow, window, 12);
    struct kw_curve a = get(&quick), b = get(&slow);
    for (unsigned k = 0; k < KW_CURVE_KNOTS; k++) {
        assert_in_range(a.knots[k].mw, b.knots[k].mw - 2, b.knots[k].mw + 2);
        assert_in_range(a.knots[k].confidence_permille + 1, b.knots[k].confidence_permille,
                        b.knots[k].confidence_permille + 2);
    }
}

/** Steady load: one knot is known, and no other says that it is. */
static void test_one_load_is_one_knot(void **state)
{
    struct agent_curve_feed feed;

    (void)state;
    agent_curve_feed_init(&feed, 10000, 60000);
    feed_n(&feed, window_of(4000, 42000), 36000);
    struct kw_curve curve = get(&feed);
    for (unsigned k = 0; k < KW_CURVE_KNOTS; k++) {
        if (k != 5)
            assert_int_equal(curve.knots[k].confidence_permille, 0);
    }
    assert_in_range(curve.knots[5].mw, 41900, 42100);
    assert_true(curve.knots[5].confidence_permille > 900);
}

/** What is unreliable is left out, and what was known ages meanwhile. */
static void test_unfit_windows(void **state)
{
    struct agent_curve_feed feed;

    (void)state;
    agent_curve_feed_init(&feed, 10000, 60000);
    feed_n(&feed, window_of(4000, 30000), 3000);
    struct kw_curve before = get(&feed);
    struct agent_curve_window frozen = window_of(4000, 0);
    frozen.fit = false;
    feed_n(&feed, frozen, 36000);
    struct agent_curve_window slept = window_of(0, 5000000);
    slept.slept_ns = 12 * UINT64_C(3600) * KW_NS_PER_S;
    agent_curve_feed_take(&feed, &slept);
    struct kw_curve after = get(&feed);
    assert_in_range(after.knots[5].mw, before.knots[5].mw - 50, before.knots[5].mw + 50);
    assert_int_equal(after.knots[0].confidence_permille, 0);
    assert_true(after.knots[5].confidence_permille + 50 < before.knots[5].confidence_permille);
    /* before it is found out, a frozen counter shows nothing: no point is made of that */
    feed_n(&feed, window_of(4000, 0), 100);
    feed_n(&feed, frozen, 1);
    assert_in_range(get(&feed).knots[5].mw, before.knots[5].mw - 50, before.knots[5].mw + 50);
}

static void test_a_model_is_not_mixed_in(void **state)
{
    struct agent_curve_feed feed;
    struct agent_curve_window model = window_of(4000, 99000);

    (void)state;
    model.basis.estimated = true;
    agent_curve_feed_init(&feed, 10000, 60000);
    feed_n(&feed, model, 600);
    assert_true(get(&feed).estimated);
    assert_in_range(get(&feed).knots[5].mw, 98000, 100000);
    feed_n(&feed, window_of(4000, 30000), 600); /* a meter appears */
    assert_false(get(&feed).estimated);
    assert_in_range(get(&feed).knots[5].mw, 29900, 30100);
    unsigned known = get(&feed).knots[5].confidence_permille;
    feed_n(&feed, model, 36000); /* and goes again */
    assert_false(get(&feed).estimated);
    assert_in_range(get(&feed).knots[5].mw, 29900, 30100);
    assert_true(get(&feed).knots[5].confidence_permille < known);
    for (unsigned i = 0; i < 600; i++) { /* a meter that comes and goes */
        feed_n(&feed, model, 1);
        feed_n(&feed, window_of(4000, 30000), 20);
    }
    assert_in_range(get(&feed).knots[5].mw, 29900, 30100);
}

/** CPUs that come and go: another machine, once it lasts. */
static void test_another_size(void **state)
{
    struct agent_curve_feed feed;
    struct agent_curve_window half = window_of(4000, 30000);

    (void)state;
    half.basis.capacity_mcpu = CAPACITY / 2;
    agent_curve_feed_init(&feed, 10000, 60000);
    feed_n(&feed, window_of(800, 15000), 600);
    feed_n(&feed, half, 300);
    assert_int_equal(get(&feed).capacity_mcpu, CAPACITY);
    assert_int_equal(get(&feed).knots[10].confidence_permille, 0);
    feed_n(&feed, half, 600);
    struct kw_curve curve = get(&feed);
    assert_int_equal(curve.capacity_mcpu, CAPACITY / 2);
    assert_true(curve.knots[10].confidence_permille > 0);
    assert_int_equal(curve.knots[1].confidence_permille, 0);
    /* more than the node can do: CPUs that nobody told of */
    feed_n(&feed, window_of(9000, 70000), 300);
    struct agent_curve_window more = window_of(9000, 70000);
    more.basis.capacity_mcpu = CAPACITY / 2;
    feed_n(&feed, more, 600);
    assert_in_range(get(&feed).knots[10].mw, 29000, 31000);
}

/** The machine's own meter: what it shows beyond the domains, where load was steady. */
static void test_platform(void **state)
{
    struct agent_curve_feed feed;
    struct agent_curve_window window;

    (void)state;
    agent_curve_feed_init(&feed, 10000, 60000);
    feed_n(&feed, window_of(4000, 30000), 300);
    assert_false(get(&feed).platform.present);
    for (unsigned i = 0; i < 6000; i++) { /* a reading each second: 50 W more, 60 W at half load */
        bool half = i / 100 % 2 == 1;
        window = half ? window_of(4000, 30000) : window_of(0, 10000);
        window.platform_t_ns = (1 + i / 10) * KW_NS_PER_S;
        window.platform_mw = half ? 90000 : 60000;
        if (i % 100 < 10)
            window.platform_mw = 500000; /* it lags */
        agent_curve_feed_take(&feed, &window);
    }
    struct kw_curve curve = get(&feed);
    assert_true(curve.platform.present);
    assert_in_range(curve.knots[0].mw, 9900, 10100);
    assert_in_range(curve.platform.mw[0], 59000, 61000);
    assert_in_range(curve.platform.mw[5], 89000, 91000);
    assert_true(curve.platform.confidence_permille[5] > 500);
    assert_int_equal(curve.platform.confidence_permille[10], 0);
    /* a reading that does not move says nothing more; nor does one below the domains */
    unsigned sure = curve.platform.confidence_permille[5];
    window = window_of(4000, 30000);
    window.platform_t_ns = 600 * KW_NS_PER_S;
    window.platform_mw = 200000;
    feed_n(&feed, window, 300);
    window.platform_mw = 1000;
    for (unsigned i = 0; i < 300; i++) {
        window.platform_t_ns += KW_NS_PER_S;
        agent_curve_feed_take(&feed, &window);
    }
    assert_in_range(get(&feed).platform.mw[5], 89000, 91000);
    assert_true(get(&feed).platform.confidence_permille[5] <= sure);
}

/** Whatever comes: monotone, within what was seen at loads that were, and nothing is known of loads
 * that were not. */
static void test_random_streams(void **state)
{
    (void)state;
    srandom(11);
    for (unsigned round = 0; round < 300; round++) {
        struct agent_curve_feed feed;
        bool near[KW_CURVE_KNOTS] = {false};
        uint64_t low_mw = UINT64_MAX, high_mw = 0;
        agent_curve_feed_init(&feed, next() % 100000, next() % 400000);
        uint64_t from = next() % CAPACITY, width = 1 + next() % (CAPACITY - from);
        unsigned n = 1 + (unsigned)(next() % 200);
        for (unsigned i = 0; i < n; i++) {
            uint64_t mcpu = from + next() % width, mw = 1000 + next() % 300000;
            struct agent_curve_window window = window_of(mcpu, mw);
            window.fit = next() % 8 != 0;
            window.measured_uj *= 10;
            window.work_ns *= 10;
            window.interval_ns *= 10;
            window.platform_t_ns = i / 2;
            window.platform_mw = next() % 600000;
            agent_curve_feed_take(&feed, &window);
            if (!window.fit)
                continue;
            uint64_t at = mcpu * 10;
            near[at / CAPACITY] = true;
            near[(at + CAPACITY - 1) / CAPACITY] = true;
            low_mw = mw < low_mw ? mw : low_mw;
            high_mw = mw > high_mw ? mw : high_mw;
            struct kw_curve curve = get(&feed);
            for (unsigned k = 0; k < KW_CURVE_KNOTS; k++)
                assert_true(near[k] || curve.knots[k].confidence_permille == 0);
        }
        struct kw_curve curve = get(&feed);
        struct agent_curve_feed old = feed;
        agent_curve_age(&old.curve, (1 + next() % 100) * 3600 * KW_NS_PER_S);
        struct kw_curve aged = get(&old);
        for (unsigned k = 0; k < KW_CURVE_KNOTS; k++)
            assert_true(aged.knots[k].confidence_permille <= curve.knots[k].confidence_permille);
        if (high_mw == 0)
            continue;
        /* somewhere among the loads that were seen, the curve is within the powers that were */
        assert_true(kw_curve_mw_at(&curve, from) <= high_mw + 1);
        assert_true(kw_curve_mw_at(&curve, from + width) + 1 >= low_mw);
    }
}

static void test_work(void **state)
{
    static struct agent_topology topology = {.n_cpus = 6, .n_online = 6};

    (void)state;
    assert_int_equal(agent_work_ns(1000, 0), 1000);
    assert_int_equal(agent_work_ns(1000, 1000), 650);
    assert_int_equal(agent_work_ns(1000, 400), 860);
    assert_int_equal(agent_work_ns(1000, UINT64_MAX), 650);
    assert_int_equal(agent_work_ns(UINT64_MAX, 0), UINT64_MAX);
    for (unsigned cpu = 0; cpu < 4; cpu++) /* two cores of two threads, two of one */
        topology.cpu_sibling[cpu] = (uint16_t)(1 + (cpu ^ 1));
    assert_int_equal(agent_work_capacity_mcpu(&topology, false), 6000);
    assert_int_equal(agent_work_capacity_mcpu(&topology, true), 2 * 1300 + 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_steps_of_a_joule),
        cmocka_unit_test(test_weighs_by_time),
        cmocka_unit_test(test_one_load_is_one_knot),
        cmocka_unit_test(test_unfit_windows),
        cmocka_unit_test(test_a_model_is_not_mixed_in),
        cmocka_unit_test(test_another_size),
        cmocka_unit_test(test_platform),
        cmocka_unit_test(test_random_streams),
        cmocka_unit_test(test_work),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
