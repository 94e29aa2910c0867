/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/pace.h"
#include "tests/support/cmocka.h"

#define MS KW_NS_PER_MS
#define S  KW_NS_PER_S
#define US UINT64_C(1000)

static const struct {
    uint64_t interval_ns, cost_ns;
    size_t workloads;
    unsigned now, expected;
} cases[] = {
    /* nothing is known yet: half a second */
    {5 * S, 0, 0, 0, 10},
    {S, 0, 1000, 0, 2},
    {300 * MS, 0, 40, 0, 1},
    /* cheap windows are short, down to 100 ms: in a second they take half of 60 us and one more for
     * each workload */
    {5 * S, 10 * US, 40, 10, 25},
    {5 * S, 5 * US, 40, 10, 50},
    {5 * S, 1, 0, 10, 50},
    {S, 5 * US, 40, 2, 10},
    {100 * MS, 1, 40, 1, 1},
    {250 * MS, 1, 40, 1, 2},
    {5 * S, 106 * US, 1000, 10, 25},
    /* ordinary ones stay at half a second */
    {5 * S, 25 * US, 40, 10, 10},
    {5 * S, 50 * US, 40, 10, 10},
    {5 * S, 400 * US, 1000, 10, 10},
    /* dear ones become long: all of it at most */
    {5 * S, 100 * US, 40, 10, 5},
    {5 * S, 250 * US, 40, 10, 2},
    {5 * S, 5 * MS, 40, 10, 1},
    {5 * S, 50 * MS, 1000, 10, 1},
    {5 * S, 1060 * US, 1000, 10, 5},
    {300 * S, 5 * MS, 140, 600, 12},
    {300 * S, UINT64_MAX, 40, 600, 1},
    /* a little better is not worth setting the clock again */
    {5 * S, 22 * US, 40, 10, 10},
    {5 * S, 21 * US, 40, 10, 10},
    {5 * S, 19 * US, 40, 10, 13},
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        unsigned windows = agent_pace_windows(cases[i].interval_ns, cases[i].cost_ns,
                                              cases[i].workloads, cases[i].now);
        if (windows != cases[i].expected)
            fail_msg("case %zu: %u windows, not %u", i, windows, cases[i].expected);
    }
}

/** Never below 100 ms where the interval allows it, never none, whatever a window costs. */
static void test_bounds(void **state)
{
    (void)state;
    for (uint64_t interval_ns = 100 * MS; interval_ns <= 300 * S;
         interval_ns += interval_ns / 3 + 1) {
        for (uint64_t cost_ns = 1; cost_ns < 1000 * S; cost_ns *= 3) {
            unsigned windows = agent_pace_windows(interval_ns, cost_ns, 100, 0);
            assert_true(windows >= 1);
            assert_true(interval_ns / windows >= AGENT_WINDOW_MIN_NS);
            /* settled: asked again at the same cost, the answer stands */
            assert_int_equal(agent_pace_windows(interval_ns, cost_ns, 100, windows), windows);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
