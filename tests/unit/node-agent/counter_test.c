/* SPDX-License-Identifier: Apache-2.0 */
#include "api/quality.h"
#include "common/clock.h"
#include "node-agent/counter.h"
#include "tests/support/cmocka.h"

#define S KW_NS_PER_S

static const struct agent_counter_limits limits = {.modulus_uj = 262143328911, .max_mw = 3000000};

static struct agent_counter_step take(struct agent_counter *counter, uint64_t uj, uint64_t t_ns)
{
    struct agent_counter_step step;

    agent_counter_take(counter, &limits, uj, t_ns, 0, &step);
    return step;
}

static void test_first_is_baseline(void **state)
{
    struct agent_counter counter = {0};
    struct agent_counter_step step = take(&counter, 5000, 1 * S);

    (void)state;
    assert_true(step.baseline);
    assert_int_equal(step.delta_uj, 0);
    assert_int_equal(step.quality, 0);
    step = take(&counter, 6000, 2 * S);
    assert_false(step.baseline);
    assert_int_equal(step.delta_uj, 1000);
    assert_int_equal(step.interval_ns, S);
}

static void test_wrap(void **state)
{
    struct agent_counter counter = {0};

    (void)state;
    (void)take(&counter, limits.modulus_uj - 10, 1 * S);
    struct agent_counter_step step = take(&counter, 5, 2 * S);
    assert_int_equal(step.delta_uj, 15);
    assert_int_equal(step.quality, KW_QUALITY_BIT(KW_QUALITY_WRAPPED));
}

static void test_reset(void **state)
{
    struct agent_counter counter = {0};

    (void)state;
    /* taken as a wrap this would be 160 kJ in a second */
    (void)take(&counter, 100000000000, 1 * S);
    struct agent_counter_step step = take(&counter, 5, 2 * S);
    assert_int_equal(step.delta_uj, 0);
    assert_int_equal(step.quality, KW_QUALITY_BIT(KW_QUALITY_RESET));
    step = take(&counter, 25, 3 * S);
    assert_int_equal(step.delta_uj, 20);
    assert_int_equal(step.quality, 0);
}

static void test_no_range(void **state)
{
    struct agent_counter_limits none = {.modulus_uj = 0, .max_mw = 0};
    struct agent_counter counter = {0};
    struct agent_counter_step step;

    (void)state;
    agent_counter_take(&counter, &none, 100, 1 * S, 0, &step);
    agent_counter_take(&counter, &none, 50, 2 * S, 0, &step);
    assert_int_equal(step.delta_uj, 0);
    assert_int_equal(step.quality, KW_QUALITY_BIT(KW_QUALITY_RESET));
    agent_counter_take(&counter, &none, UINT64_MAX, 3 * S, 0, &step);
    assert_int_equal(step.delta_uj, UINT64_MAX - 50);
}

static void test_implausible(void **state)
{
    struct agent_counter counter = {0};

    (void)state;
    (void)take(&counter, 0, 1 * S);
    struct agent_counter_step step = take(&counter, 4000000000, 2 * S); /* 4 kW */
    assert_int_equal(step.delta_uj, 0);
    assert_int_equal(step.quality, KW_QUALITY_BIT(KW_QUALITY_IMPLAUSIBLE));
    step = take(&counter, 4000000100, 3 * S);
    assert_int_equal(step.delta_uj, 100);
}

static void test_gap(void **state)
{
    struct agent_counter counter = {0};

    (void)state;
    /* 3 kW for 80 s is short of a modulus, for 100 s it is more than one */
    (void)take(&counter, 0, 1 * S);
    assert_int_equal(take(&counter, 100, 81 * S).quality, 0);
    struct agent_counter_step step = take(&counter, 200, 181 * S);
    assert_int_equal(step.quality, KW_QUALITY_BIT(KW_QUALITY_GAP));
    assert_int_equal(step.delta_uj, 100);
}

/** In a window in which a whole modulus fits, any step back would be a plausible wrap: none is. */
static void test_gap_hides_reset(void **state)
{
    struct agent_counter counter = {0};

    (void)state;
    (void)take(&counter, 100000000000, 1 * S);
    struct agent_counter_step step = take(&counter, 5, 101 * S);
    assert_int_equal(step.delta_uj, 0);
    assert_int_equal(step.quality,
                     KW_QUALITY_BIT(KW_QUALITY_RESET) | KW_QUALITY_BIT(KW_QUALITY_GAP));
    /* and one in which it does not fit is judged by what can be drawn */
    (void)take(&counter, limits.modulus_uj - 1000, 102 * S);
    assert_int_equal(take(&counter, 250000000000, 182 * S).delta_uj, 0);
    (void)take(&counter, limits.modulus_uj - 1000, 183 * S);
    assert_int_equal(take(&counter, 20000000000, 263 * S).delta_uj, 20000001000);
}

static void test_sleep(void **state)
{
    struct agent_counter counter = {0};
    struct agent_counter_step step;

    (void)state;
    (void)take(&counter, limits.modulus_uj - 10, 1 * S);
    /* suspend to RAM cleared the counter; without the sleep it would pass for a wrap */
    agent_counter_take(&counter, &limits, 5, 2 * S, 3600 * S, &step);
    assert_int_equal(step.delta_uj, 0);
    assert_int_equal(step.quality,
                     KW_QUALITY_BIT(KW_QUALITY_RESET) | KW_QUALITY_BIT(KW_QUALITY_GAP));
    /* forward through light sleep: the energy stands */
    agent_counter_take(&counter, &limits, 105, 3 * S, 10 * S, &step);
    assert_int_equal(step.delta_uj, 100);
    assert_int_equal(step.quality, KW_QUALITY_BIT(KW_QUALITY_GAP));
}

static void test_missed_readings(void **state)
{
    struct agent_counter counter = {0};

    (void)state;
    agent_counter_miss(&counter, 5 * S); /* before the baseline it means nothing */
    (void)take(&counter, 100, 1 * S);
    agent_counter_miss(&counter, 0);
    struct agent_counter_step step = take(&counter, 300, 3 * S);
    assert_int_equal(step.delta_uj, 200);
    assert_int_equal(step.interval_ns, 2 * S);
    step = take(&counter, 400, 3 * S); /* no time has passed: nothing is taken */
    assert_int_equal(step.interval_ns, 0);
    assert_int_equal(take(&counter, 400, 4 * S).delta_uj, 100);
}

static void test_standing_still(void **state)
{
    struct agent_counter counter = {0};

    (void)state;
    for (uint64_t t = 1; t <= 4; t++)
        (void)take(&counter, 100, t * S);
    assert_int_equal(counter.still_windows, 3);
    (void)take(&counter, 101, 5 * S);
    assert_int_equal(counter.still_windows, 0);
}

static void test_modulus(void **state)
{
    (void)state;
    assert_int_equal(agent_counter_modulus_uj(0), 0);
    assert_int_equal(agent_counter_modulus_uj(262143328850), 262143328850 + 61);
    assert_int_equal(agent_counter_modulus_uj(262143999938), 262143999938 + 61);
    assert_int_equal(agent_counter_modulus_uj(65532610987), 65532610987 + 15);
    assert_int_equal(agent_counter_modulus_uj(65712999613), 65712999613 + 15);
    assert_int_equal(agent_counter_modulus_uj(4294967295000000), 4294967295000000 + 1000000);
    assert_int_equal(agent_counter_modulus_uj(1000), 1001);
    assert_int_equal(agent_counter_modulus_uj(UINT64_MAX), 0);
}

static uint64_t next_random(uint64_t *seed)
{
    *seed ^= *seed >> 12;
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    return *seed * UINT64_C(2685821657736338717);
}

/** A machine that draws at random, with wraps, resets, missed readings and sleep: what is taken is
 * never more than was drawn, and exactly that where no flag says otherwise. */
static void test_random_walks(void **state)
{
    uint64_t seed = UINT64_C(0x2545f4914f6cdd1d);

    (void)state;
    for (unsigned walk = 0; walk < 200; walk++) {
        struct agent_counter_limits small = {.modulus_uj = 20000000000 + next_random(&seed) % 1000,
                                             .max_mw = 200000};
        struct agent_counter counter = {0};
        struct agent_counter_step step;
        uint64_t raw = next_random(&seed) % small.modulus_uj, t_ns = S;
        uint64_t pending_uj = 0;
        bool was_reset = false;
        agent_counter_take(&counter, &small, raw, t_ns, 0, &step);
        for (unsigned i = 0; i < 500; i++) {
            uint64_t window_ns = S / 10 + next_random(&seed) % (2 * S);
            /* at most half the ceiling, as a real machine */
            uint64_t drawn_uj = next_random(&seed) % (window_ns / 10);
            t_ns += window_ns;
            raw = (raw + drawn_uj) % small.modulus_uj;
            pending_uj += drawn_uj;
            unsigned event = (unsigned)(next_random(&seed) % 50);
            if (event == 0 && raw > small.modulus_uj / 3 && raw < small.modulus_uj / 3 * 2) {
                raw = 0; /* far from a wrap: told apart with certainty */
                was_reset = true;
            }
            if (event == 1) {
                agent_counter_miss(&counter, 0);
                continue;
            }
            agent_counter_take(&counter, &small, raw, t_ns, 0, &step);
            assert_true(step.delta_uj <= pending_uj);
            if (!was_reset)
                assert_int_equal(step.delta_uj, pending_uj);
            else if (step.delta_uj < pending_uj)
                assert_int_equal(step.quality & KW_QUALITY_BIT(KW_QUALITY_RESET),
                                 KW_QUALITY_BIT(KW_QUALITY_RESET));
            was_reset = false;
            pending_uj = 0;
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_first_is_baseline),
        cmocka_unit_test(test_wrap),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_no_range),
        cmocka_unit_test(test_implausible),
        cmocka_unit_test(test_gap),
        cmocka_unit_test(test_gap_hides_reset),
        cmocka_unit_test(test_sleep),
        cmocka_unit_test(test_missed_readings),
        cmocka_unit_test(test_standing_still),
        cmocka_unit_test(test_modulus),
        cmocka_unit_test(test_random_walks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
