/* SPDX-License-Identifier: Apache-2.0 */
/* A simulated day with stale data, bursts and lost messages: what the extender lets in never passes
 * a cap. The figures are printed. */
#include <stdio.h>

#include "tests/sim/caps/caps_sim.h"
#include "tests/support/cmocka.h"

static void test_a_day(void **state)
{
    (void)state;
    const struct kwt_caps_options options = {
        .seed = 20261130, .seconds = 86400, .losses = true, .sigmas = 2};
    const struct kwt_caps_options free_options = {
        .seed = 20261130, .seconds = 86400, .losses = true, .no_caps = true};
    struct kwt_caps_result result;
    struct kwt_caps_result without;

    assert_int_equal(kwt_caps_run(&options, &result), 0);
    assert_int_equal(kwt_caps_run(&free_options, &without), 0);
    print_message(
        "passed by %.3f W (%.3f %%) in %llu s; %llu of %llu pods let in, %llu refusals; "
        "the cluster draws %.0f %% of its cap by day, %.1f %% at most; without caps passed "
        "by %.0f W in %llu s\n",
        result.over_mw / 1000, result.over_part * 100, (unsigned long long)result.over_seconds,
        (unsigned long long)result.let_in, (unsigned long long)result.pods,
        (unsigned long long)result.refusals, result.fill * 100, result.peak * 100,
        without.over_mw / 1000, (unsigned long long)without.over_seconds);
    assert_true(result.over_mw == 0);
    assert_int_equal(result.over_seconds, 0);
    /* the caps had something to hold back, and did not do so by refusing all */
    assert_true(without.over_seconds > 3600);
    assert_true(result.peak > 0.9);
    assert_true(result.let_in > result.pods / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_a_day)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
