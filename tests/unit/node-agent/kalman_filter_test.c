/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>

#include "node-agent/kalman_filter.h"
#include "tests/support/cmocka.h"

#define MAX 24

static struct agent_filter *filter;
static uint64_t seed;

static int setup(void **state)
{
    (void)state;
    seed = 7;
    return agent_filter_new(MAX, &filter);
}

static int teardown(void **state)
{
    (void)state;
    agent_filter_free(&filter);
    return filter == NULL ? 0 : -1;
}

/** In [-1, 1). */
static double random_unit(void)
{
    seed = seed * UINT64_C(6364136223846793005) + 1;
    return (double)(int64_t)(seed ^ (seed >> 29)) * 0x1p-63;
}

static void test_one_state_is_the_mean(void **state)
{
    const double h = 1;

    (void)state;
    assert_int_equal(agent_filter_add(filter, 10, 100), 0);
    double expected = agent_filter_update(filter, &h, 4, 25);
    assert_true(fabs(expected - 125) < 1e-9);
    assert_true(fabs(agent_filter_mean(filter, 0) - 13.2) < 1e-9);
    assert_true(fabs(agent_filter_variance(filter, 0) - 20) < 1e-9);
}

/** Three unknowns behind sums of them. */
static void test_finds_what_sums_hide(void **state)
{
    const double truth[3] = {30, 1.5, 0.4};

    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(agent_filter_add(filter, 10, 400), i);
    for (unsigned k = 0; k < 500; k++) {
        double h[3] = {1, 5 * (1 + random_unit()), 20 * (1 + random_unit())};
        double innovation = 0.1 * random_unit();
        for (size_t i = 0; i < 3; i++)
            innovation += h[i] * (truth[i] - agent_filter_mean(filter, i));
        assert_true(agent_filter_update(filter, h, innovation, 0.01) > 0);
    }
    for (size_t i = 0; i < 3; i++) {
        double error = fabs(agent_filter_mean(filter, i) - truth[i]);
        assert_true(error < 0.05);
        assert_true(error < 4 * sqrt(agent_filter_variance(filter, i)));
    }
}

static void test_states_come_and_go(void **state)
{
    double h[MAX] = {1, 2, 3};

    (void)state;
    for (size_t i = 0; i < 3; i++)
        (void)agent_filter_add(filter, (double)i, 1 + (double)i);
    (void)agent_filter_update(filter, h, 1, 1);
    double variance = agent_filter_variance(filter, 2),
           tied = agent_filter_covariance(filter, 2, 1);
    double mean = agent_filter_mean(filter, 2);
    assert_true(tied < 0);
    agent_filter_remove(filter, 0); /* the last one takes its place */
    assert_int_equal(agent_filter_count(filter), 2);
    assert_true(agent_filter_mean(filter, 0) == mean);
    assert_true(agent_filter_variance(filter, 0) == variance);
    assert_true(agent_filter_covariance(filter, 0, 1) == tied);
    assert_int_equal(agent_filter_add(filter, 9, 4), 2);
    assert_true(agent_filter_covariance(filter, 2, 0) == 0);
    while (agent_filter_count(filter) < MAX)
        (void)agent_filter_add(filter, 0, 1);
    assert_int_equal(agent_filter_add(filter, 0, 1), -ENOSPC);
}

/** One in common and one of each's own: whoever came first, all are the same. */
static void test_states_like_others(void **state)
{
    const double common = 0.91, own = 0.09;
    uint32_t others[MAX];

    (void)state;
    (void)agent_filter_add(filter, 20, 4);
    (void)agent_filter_add(filter, 1, common + own);
    for (uint32_t n = 1; n < 5; n++) {
        others[n - 1] = n;
        double weight = common / (common + own / n);
        struct agent_filter_like like = {others, n, weight, 1, own + weight * own / n};
        assert_int_equal(agent_filter_add_like(filter, &like), n + 1);
    }
    for (size_t i = 1; i < 6; i++) {
        assert_true(fabs(agent_filter_mean(filter, i) - 1) < 1e-12);
        assert_true(agent_filter_covariance(filter, i, 0) == 0);
        for (size_t j = 1; j <= i; j++)
            assert_true(fabs(agent_filter_covariance(filter, i, j) - common - (i == j ? own : 0)) <
                        1e-12);
    }
    /* what is learnt of one says something of the others */
    const double h[MAX] = {0, 1};
    (void)agent_filter_update(filter, h, 1, 1e-6);
    assert_true(fabs(agent_filter_mean(filter, 5) - 1 - common) < 1e-4);
    while (agent_filter_count(filter) < MAX)
        (void)agent_filter_add(filter, 0, 1);
    struct agent_filter_like like = {others, 1, 1, 1, 1};
    assert_int_equal(agent_filter_add_like(filter, &like), -ENOSPC);
}

/** The covariance as a whole stays one: no direction has a negative variance. */
static void test_stays_positive(void **state)
{
    double h[MAX], times[MAX];

    (void)state;
    for (unsigned k = 0; k < 20000; k++) {
        size_t n = agent_filter_count(filter);
        if (n < 2 || (n < MAX && k % 7 == 0))
            (void)agent_filter_add(filter, random_unit(), exp(10 * random_unit()));
        else if (k % 11 == 0)
            agent_filter_remove(filter, (size_t)(fabs(random_unit()) * (double)n));
        n = agent_filter_count(filter);
        if (n < MAX && k % 13 == 0) {
            const uint32_t others[] = {(uint32_t)(k % n), (uint32_t)(n - 1)};
            struct agent_filter_like like = {others, 2, fabs(random_unit()), 1, 0.01};
            (void)agent_filter_add_like(filter, &like);
            n++;
        }
        double scale = exp(12 * random_unit());
        for (size_t i = 0; i < n; i++)
            h[i] = k % 3 == (unsigned)i % 3 ? 0 : scale * random_unit();
        double one = sqrt(agent_filter_drift(filter, k % n, 1e-3, 10));
        double other = sqrt(agent_filter_drift(filter, (k + 1) % n, 1e-3, 10));
        if (n > 1)
            agent_filter_tie(filter, k % n, (k + 1) % n, one * other);
        double got = agent_filter_update(filter, h, scale * random_unit(), exp(6 * random_unit()));
        assert_true(got > 0);
        for (size_t i = 0; i < n; i++)
            h[i] = random_unit();
        agent_filter_times(filter, h, times);
        double variance = 0;
        for (size_t i = 0; i < n; i++) {
            assert_true(agent_filter_variance(filter, i) > 0);
            assert_true(isfinite(agent_filter_mean(filter, i)));
            variance += h[i] * times[i];
        }
        assert_true(variance >= -1e-9 * exp(12));
    }
}

static void test_refuses_what_is_not_finite(void **state)
{
    double h = NAN;

    (void)state;
    (void)agent_filter_add(filter, 1, 1);
    assert_true(agent_filter_update(filter, &h, 1, 1) < 0);
    h = 1;
    assert_true(agent_filter_update(filter, &h, INFINITY, 1) < 0);
    assert_true(agent_filter_update(filter, &h, 1, 0) < 0);
    assert_true(agent_filter_mean(filter, 0) == 1);
    assert_true(agent_filter_variance(filter, 0) == 1);
}

static void test_drift_and_clamp(void **state)
{
    (void)state;
    (void)agent_filter_add(filter, 5, 1);
    assert_true(fabs(agent_filter_drift(filter, 0, 0.5, 1.2) - 0.2) < 1e-12);
    assert_true(agent_filter_variance(filter, 0) == 1.2);
    assert_true(agent_filter_drift(filter, 0, 0.5, 1.2) == 0);
    assert_true(agent_filter_variance(filter, 0) == 1.2);
    agent_filter_clamp(filter, 0, 6, 7);
    assert_true(agent_filter_mean(filter, 0) == 6);
    agent_filter_reset(filter);
    assert_int_equal(agent_filter_count(filter), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_one_state_is_the_mean, setup, teardown),
        cmocka_unit_test_setup_teardown(test_finds_what_sums_hide, setup, teardown),
        cmocka_unit_test_setup_teardown(test_states_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_states_like_others, setup, teardown),
        cmocka_unit_test_setup_teardown(test_stays_positive, setup, teardown),
        cmocka_unit_test_setup_teardown(test_refuses_what_is_not_finite, setup, teardown),
        cmocka_unit_test_setup_teardown(test_drift_and_clamp, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
