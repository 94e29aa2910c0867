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
    unsigned now, expected;
} cases[] = {
    /* nothing is known yet: half a second */
    {5 * S, 0, 0, 10},
    {S, 0, 0, 2},
    {300 * MS, 0, 0, 1},
    /* cheap windows are short, down to 100 ms */
    {5 * S, 20 * US, 10, 25},
    {5 * S, 10 * US, 10, 50},
    {5 * S, 1, 10, 50},
    {S, 10 * US, 2, 10},
    {100 * MS, 1, 1, 1},
    {250 * MS, 1, 1, 2},
    /* ordinary ones stay at half a second */
    {5 * S, 50 * US, 10, 10},
    {5 * S, 100 * US, 10, 10},
    /* dear ones become long: a 5000th of a CPU at most */
    {5 * S, 200 * US, 10, 5},
    {5 * S, 500 * US, 10, 2},
    {5 * S, 5 * MS, 10, 1},
    {5 * S, 50 * MS, 10, 1},
    {300 * S, 5 * MS, 600, 12},
    {300 * S, UINT64_MAX, 600, 1},
    /* a little better is not worth setting the clock again */
    {5 * S, 44 * US, 10, 10},
    {5 * S, 41 * US, 10, 10},
    {5 * S, 40 * US, 10, 10},
    {5 * S, 38 * US, 10, 13},
};

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        unsigned windows = agent_pace_windows(cases[i].interval_ns, cases[i].cost_ns, cases[i].now);
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
            unsigned windows = agent_pace_windows(interval_ns, cost_ns, 0);
            assert_true(windows >= 1);
            assert_true(interval_ns / windows >= AGENT_WINDOW_MIN_NS);
            /* settled: asked again at the same cost, the answer stands */
            assert_int_equal(agent_pace_windows(interval_ns, cost_ns, windows), windows);
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
