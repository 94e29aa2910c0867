/* SPDX-License-Identifier: Apache-2.0 */
/* Simulated days with stale data, bursts and lost messages: what the extender lets in never passes
 * a cap. The figures are printed. `scripts/bench caps` runs many more days. */
#include <stdio.h>

#include "tests/sim/caps/caps_sim.h"
#include "tests/support/cmocka.h"

#define SEED    20261130
#define A_DAY_S 86400
#define SIGMAS  2.5 /* --cap-sigma-permille, its default */

static struct kwt_caps_result live(const struct kwt_caps_options *options)
{
    struct kwt_caps_result result;

    assert_int_equal(kwt_caps_run(options, &result), 0);
    print_message(
        "%u replica(s), pods %s: passed by %.3f W (%.3f %%) in %llu s, %.1f %% were left "
        "at the least; %llu of %llu pods let in, %llu refusals; the cluster draws %.0f %% "
        "of its cap by day, %.1f %% at most\n",
        options->replicas, options->restless > 0 ? "restless" : "steady", result.over_mw / 1000,
        result.over_part * 100, (unsigned long long)result.over_seconds, result.nearest * 100,
        (unsigned long long)result.let_in, (unsigned long long)result.pods,
        (unsigned long long)result.refusals, result.fill * 100, result.peak * 100);
    return result;
}

/** The caps hold, and not by refusing all. */
static void holds(const struct kwt_caps_options *options)
{
    struct kwt_caps_result result = live(options);

    assert_true(result.over_mw == 0 && result.nearest >= 0);
    assert_int_equal(result.over_seconds, 0);
    assert_true(result.peak > 0.9);
    assert_true(result.let_in > result.pods / 2);
}

static void test_a_day(void **state)
{
    (void)state;
    const struct kwt_caps_options options = {
        .seed = SEED, .seconds = A_DAY_S, .losses = true, .replicas = 1, .sigmas = SIGMAS};

    holds(&options);
}

/** Pods that wander by a tenth of what they asked for, and whoever is asked may be lost. */
static void test_restless_pods_and_two_replicas(void **state)
{
    (void)state;
    const struct kwt_caps_options options = {.seed = SEED + 1,
                                             .seconds = A_DAY_S,
                                             .losses = true,
                                             .replicas = 2,
                                             .restless = 0.1,
                                             .sigmas = SIGMAS};

    holds(&options);
}

/** Pods whose use is nothing like their requests: twice as much, and all of it only after ten
 * minutes. */
static void test_pods_unlike_their_requests(void **state)
{
    (void)state;
    const struct kwt_caps_options twice = {.seed = SEED + 2,
                                           .seconds = A_DAY_S / 2,
                                           .losses = true,
                                           .replicas = 1,
                                           .greedy = 1,
                                           .sigmas = SIGMAS};
    const struct kwt_caps_options slow = {.seed = SEED + 3,
                                          .seconds = A_DAY_S / 2,
                                          .losses = true,
                                          .replicas = 1,
                                          .ramp_s = 600,
                                          .sigmas = SIGMAS};
    struct kwt_caps_result result = live(&twice);

    assert_int_equal(result.over_seconds, 0);
    assert_true(result.peak > 0.8);
    result = live(&slow);
    assert_int_equal(result.over_seconds, 0);
    assert_true(result.peak > 0.7 && result.let_in > result.pods * 9 / 10);
}

/** Without caps there is something that they hold back. */
static void test_a_morning_without_caps(void **state)
{
    (void)state;
    const struct kwt_caps_options options = {
        .seed = SEED, .seconds = A_DAY_S / 2, .losses = true, .replicas = 1, .no_caps = true};

    assert_true(live(&options).over_seconds > 3600);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_day),
        cmocka_unit_test(test_restless_pods_and_two_replicas),
        cmocka_unit_test(test_pods_unlike_their_requests),
        cmocka_unit_test(test_a_morning_without_caps),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
