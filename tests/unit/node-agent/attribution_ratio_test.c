/* SPDX-License-Identifier: Apache-2.0 */
#include "common/clock.h"
#include "node-agent/attribution.h"
#include "tests/support/cmocka.h"

#define S KW_NS_PER_S

static const struct agent_attribution_ops *method;
static void *self;

static int setup(void **state)
{
    (void)state;
    method = agent_attributions[0];
    return method->open(16, &self);
}

static int teardown(void **state)
{
    (void)state;
    method->close(&self);
    return self == NULL ? 0 : -1;
}

static struct agent_split split(uint64_t measured_uj, uint64_t idle_mw, size_t n,
                                const struct agent_features *features, struct agent_share *shares)
{
    struct agent_window window = {.domain = 0,
                                  .interval_ns = S,
                                  .measured_uj = measured_uj,
                                  .idle_prior_mw = idle_mw,
                                  .n = n,
                                  .features = features};
    struct agent_split ret = {.shares = shares};
    uint64_t sum;

    method->split(self, &window, &ret);
    sum = ret.idle_uj + ret.unattributed_uj;
    for (size_t i = 0; i < n; i++)
        sum += shares[i].active_uj;
    assert_int_equal(sum, measured_uj);
    return ret;
}

static void test_named(void **state)
{
    (void)state;
    assert_string_equal(method->name, "ratio-cpu");
}

static void test_idle_first_then_by_time(void **state)
{
    const struct agent_features features[] = {{.cpu_ns = 0}, {.cpu_ns = 300}, {.cpu_ns = 100}};
    struct agent_share shares[3];
    struct agent_split ret = split(50000000, 10000, 3, features, shares);

    (void)state;
    assert_int_equal(ret.idle_uj, 10000000);
    assert_int_equal(ret.idle_mw, 10000);
    assert_int_equal(shares[1].active_uj, 30000000);
    assert_int_equal(shares[2].active_uj, 10000000);
}

static void test_nobody_ran(void **state)
{
    const struct agent_features features[] = {{.cpu_ns = 0}, {.cpu_ns = 0}};
    struct agent_share shares[2];
    struct agent_split ret = split(50000000, 10000, 2, features, shares);

    (void)state;
    assert_int_equal(ret.idle_uj, 50000000);
    assert_int_equal(ret.unattributed_uj, 0);
}

static void test_features_unknown(void **state)
{
    struct agent_split ret = split(50000000, 10000, 0, NULL, NULL);

    (void)state;
    assert_int_equal(ret.idle_uj, 10000000);
    assert_int_equal(ret.unattributed_uj, 40000000);
}

/** A counter in steps of 20 J every two seconds at 5 W idle: idle is paid in the end. */
static void test_idle_is_carried(void **state)
{
    const struct agent_features features[] = {{.cpu_ns = 1}};
    struct agent_share shares[1];
    uint64_t idle_uj = 0;

    (void)state;
    for (unsigned i = 0; i < 100; i++)
        idle_uj += split(i % 2 == 0 ? 0 : 20000000, 5000, 1, features, shares).idle_uj;
    assert_int_equal(idle_uj, 500000000);
}

/** Idle set too high for hours must not eat the load that comes. */
static void test_debt_is_bounded(void **state)
{
    const struct agent_features features[] = {{.cpu_ns = 1}};
    struct agent_share shares[1];

    (void)state;
    for (unsigned i = 0; i < 10000; i++)
        (void)split(1000000, 20000, 1, features, shares);
    struct agent_split ret = split(200000000, 20000, 1, features, shares);
    assert_int_equal(ret.idle_uj, 60000000); /* this second and two more */
    ret = split(200000000, 20000, 1, features, shares);
    assert_int_equal(ret.idle_uj, 20000000);
}

static void test_absurd_values(void **state)
{
    const struct agent_features features[] = {{.cpu_ns = UINT64_MAX}, {.cpu_ns = UINT64_MAX}};
    struct agent_share shares[2];
    struct agent_window window = {.domain = 12345,
                                  .interval_ns = UINT64_MAX,
                                  .measured_uj = UINT64_MAX,
                                  .idle_prior_mw = UINT64_MAX,
                                  .n = 2,
                                  .features = features};
    struct agent_split ret = {.shares = shares};

    (void)state;
    method->split(self, &window, &ret);
    assert_int_equal(ret.idle_uj + shares[0].active_uj + shares[1].active_uj, UINT64_MAX);
    method->forget(self, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_named, setup, teardown),
        cmocka_unit_test_setup_teardown(test_idle_first_then_by_time, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nobody_ran, setup, teardown),
        cmocka_unit_test_setup_teardown(test_features_unknown, setup, teardown),
        cmocka_unit_test_setup_teardown(test_idle_is_carried, setup, teardown),
        cmocka_unit_test_setup_teardown(test_debt_is_bounded, setup, teardown),
        cmocka_unit_test_setup_teardown(test_absurd_values, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
