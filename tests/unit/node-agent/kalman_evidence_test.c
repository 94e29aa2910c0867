/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "node-agent/kalman_evidence.h"
#include "tests/support/cmocka.h"

/** Errors whose sign comes and goes. */
static void take(struct agent_evidence *evidence, unsigned windows, double apart, double alike,
                 double seconds)
{
    for (unsigned k = 0; k < windows; k++)
        agent_evidence_take(evidence, apart, k * 5 % 7 < 4 ? alike : -alike, seconds);
}

static struct agent_evidence after(unsigned windows, double apart, double alike, double seconds)
{
    struct agent_evidence evidence = {0};

    take(&evidence, windows, apart, alike, seconds);
    return evidence;
}

static double told(unsigned windows, double apart, double alike, double seconds)
{
    struct agent_evidence evidence = after(windows, apart, alike, seconds);

    return agent_evidence_told(&evidence);
}

static void test_nothing_seen(void **state)
{
    struct agent_evidence evidence = {0};

    (void)state;
    assert_true(agent_evidence_told(&evidence) == 0);
    assert_true(told(100, 0, 0, 1) == 0);
}

/** Equal errors, or larger ones, are none; a few lucky windows neither. */
static void test_no_evidence(void **state)
{
    (void)state;
    assert_true(told(1000, 0.02, 0.02, 0.1) < 0.01);
    assert_true(told(1000, 0.03, 0.02, 0.1) < 0.01);
    assert_true(told(3, 0.001, 0.1, 5) == 0);
    assert_true(told(60, 0.02, 0.0202, 5) < 0.02);
}

static void test_evidence(void **state)
{
    (void)state;
    assert_true(told(100, 0.01, 0.02, 0.1) > 0.99);
    assert_true(told(600, 0.02, 0.021, 0.1) > 0.99);
    assert_true(told(20, 0.01, 0.02, 5) > 0.99);
    assert_true(told(20, 0, 0.02, 5) > 0.99);
}

/** Errors that last over many windows are as few as they are long. */
static void test_lasting_errors(void **state)
{
    struct agent_evidence evidence = {0};

    (void)state;
    for (unsigned k = 0; k < 600; k++)
        agent_evidence_take(&evidence, 0.018, k / 50 % 2 == 0 ? 0.02 : -0.02, 0.1);
    assert_true(agent_evidence_told(&evidence) < 0.05);
    assert_true(told(600, 0.018, 0.02, 0.1) > 0.99);
}

/** What was once told apart is not for ever. */
static void test_fades(void **state)
{
    struct agent_evidence evidence = after(300, 0.01, 0.02, 0.1);

    (void)state;
    assert_true(agent_evidence_told(&evidence) > 0.99);
    take(&evidence, 3000, 0.02, 0.02, 0.1);
    assert_true(agent_evidence_told(&evidence) < 0.02);
}

static void test_not_finite(void **state)
{
    struct agent_evidence evidence = after(100, 0.01, 0.02, 0.1);
    double before = agent_evidence_told(&evidence);

    (void)state;
    agent_evidence_take(&evidence, NAN, 1, 1);
    agent_evidence_take(&evidence, 1, INFINITY, 1);
    assert_true(agent_evidence_told(&evidence) == before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_seen), cmocka_unit_test(test_no_evidence),
        cmocka_unit_test(test_evidence),     cmocka_unit_test(test_lasting_errors),
        cmocka_unit_test(test_fades),        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
