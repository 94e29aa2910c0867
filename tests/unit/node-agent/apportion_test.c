/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "node-agent/attribution.h"
#include "tests/support/cmocka.h"

#define N 50

static uint64_t given[N], scratch[N];

static void test_exact_parts(void **state)
{
    const uint64_t weights[] = {1, 2, 3, 4};

    (void)state;
    assert_int_equal(agent_apportion(100, weights, 4, given, scratch), 100);
    assert_int_equal(given[0], 10);
    assert_int_equal(given[1], 20);
    assert_int_equal(given[2], 30);
    assert_int_equal(given[3], 40);
}

static void test_largest_remainder(void **state)
{
    const uint64_t weights[] = {47000, 16000, 15900,
                                12000, 6000,  3100}; /* Hamilton's textbook case */

    (void)state;
    assert_int_equal(agent_apportion(10, weights, 6, given, scratch), 10);
    const uint64_t expected[] = {5, 2, 1, 1, 1, 0};
    for (unsigned i = 0; i < 6; i++)
        assert_int_equal(given[i], expected[i]);
}

static void test_ties_go_to_the_first(void **state)
{
    const uint64_t weights[] = {1, 1, 1};

    (void)state;
    assert_int_equal(agent_apportion(4, weights, 3, given, scratch), 4);
    assert_int_equal(given[0], 2);
    assert_int_equal(given[1], 1);
    assert_int_equal(given[2], 1);
}

static void test_nothing_to_weigh(void **state)
{
    const uint64_t weights[] = {0, 0};

    (void)state;
    assert_int_equal(agent_apportion(4, weights, 2, given, scratch), 0);
    assert_int_equal(given[0] + given[1], 0);
    assert_int_equal(agent_apportion(4, weights, 0, given, scratch), 0);
}

static void test_largest_numbers(void **state)
{
    const uint64_t weights[] = {UINT64_MAX, UINT64_MAX, UINT64_MAX, 1};

    (void)state;
    assert_int_equal(agent_apportion(UINT64_MAX, weights, 4, given, scratch), UINT64_MAX);
    assert_int_equal(given[0] + given[1] + given[2] + given[3], UINT64_MAX);
    assert_true(given[0] - given[2] <= 1);
    assert_int_equal(given[3], 0);
}

/** Sum exact, each part within one of its share, no weight no part. */
static void test_random_parts(void **state)
{
    uint64_t weights[N];

    (void)state;
    srandom(1);
    for (unsigned round = 0; round < 5000; round++) {
        size_t n = 1 + (size_t)random() % N;
        uint64_t total = (uint64_t)random() >> (random() % 31);
        unsigned __int128 sum = 0;
        for (size_t i = 0; i < n; i++) {
            weights[i] = random() % 4 == 0 ? 0 : (uint64_t)random() >> (random() % 31);
            sum += weights[i];
        }
        uint64_t all = 0;
        assert_int_equal(agent_apportion(total, weights, n, given, scratch), sum > 0 ? total : 0);
        for (size_t i = 0; i < n; i++) {
            all += given[i];
            if (weights[i] == 0 || sum == 0) {
                assert_int_equal(given[i], 0);
                continue;
            }
            uint64_t share = (uint64_t)((unsigned __int128)total * weights[i] / sum);
            assert_true(given[i] == share || given[i] == share + 1);
        }
        assert_int_equal(all, sum > 0 ? total : 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_parts),          cmocka_unit_test(test_largest_remainder),
        cmocka_unit_test(test_ties_go_to_the_first), cmocka_unit_test(test_nothing_to_weigh),
        cmocka_unit_test(test_largest_numbers),      cmocka_unit_test(test_random_parts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
