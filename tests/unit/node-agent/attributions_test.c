/* SPDX-License-Identifier: Apache-2.0 */
/* What every method owes: exact conservation and sane answers, whatever comes in. */
#include <stdbool.h>
#include <string.h>

#include "common/clock.h"
#include "node-agent/attribution.h"
#include "tests/support/cmocka.h"

#define MAX 40

static uint64_t seed;

static uint64_t next(void)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return seed ^ (seed >> 31);
}

/** Any magnitude: mostly what machines say, sometimes 0 or absurd. */
static uint64_t any(uint64_t usual)
{
    switch (next() % 16) {
    case 0: return 0;
    case 1: return UINT64_MAX - next() % 3;
    case 2: return next() >> (next() % 64);
    default: return usual == UINT64_MAX ? next() : next() % (usual + 1);
    }
}

static void random_window(struct agent_window *window, struct agent_features *features)
{
    *window = (struct agent_window){
        .domain = (unsigned)(next() % 200),
        .dram = next() % 4 == 0,
        .has = (unsigned)(next() % 8),
        .n_cpus = (unsigned)any(64),
        .mhz = (unsigned)any(4000),
        .interval_ns = any(2 * KW_NS_PER_S),
        .measured_uj = any(200000000),
        .idle_prior_mw = any(100000),
        .n = next() % (MAX + 8),
        .features = features,
    };
    if (window->domain % 5 != 0)
        window->domain = 0;
    for (size_t i = 0; i < window->n; i++) {
        uint64_t ns = any(KW_NS_PER_S);
        features[i] = (struct agent_features){.workload = next() % 8 == 0 ? any(1000) : i,
                                              .kin = any(3),
                                              .cpu_ns = ns,
                                              .shared_ns = any(ns),
                                              .cycles = any(3 * KW_NS_PER_S),
                                              .instructions = any(5 * KW_NS_PER_S),
                                              .llc_misses = any(10000000)};
    }
}

static void conserve(const struct agent_attribution_ops *method)
{
    struct agent_features features[MAX + 8];
    struct agent_share shares[MAX + 8];
    struct agent_window window;
    void *self = NULL;

    assert_int_equal(method->open(MAX, &self), 0);
    for (unsigned k = 0; k < 1500; k++) {
        struct agent_split split = {.shares = shares};
        memset(shares, 0xee, sizeof(shares));
        random_window(&window, features);
        method->split(self, &window, &split);
        unsigned __int128 sum = (unsigned __int128)split.idle_uj + split.unattributed_uj;
        for (size_t i = 0; i < window.n; i++) {
            sum += shares[i].active_uj;
            assert_true(shares[i].sigma_uj <= window.measured_uj);
            if (i < MAX && shares[i].active_uj > 1)
                assert_true(features[i].cpu_ns > 0 || (window.has & AGENT_HAS_COUNTERS) != 0);
        }
        assert_true(sum == window.measured_uj);
        if (next() % 3 == 0)
            method->forget(self, next() % MAX);
    }
    method->close(&self);
    assert_null(self);
}

static void test_conserve(void **state)
{
    (void)state;
    seed = 1;
    for (size_t i = 0; agent_attributions[i] != NULL; i++)
        conserve(agent_attributions[i]);
}

static void test_names(void **state)
{
    (void)state;
    for (size_t i = 0; agent_attributions[i] != NULL; i++)
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(agent_attributions[i]->name, agent_attributions[j]->name);
}

/** What a model makes out of CPU time says nothing of workloads. */
static void test_choice(void **state)
{
    (void)state;
    assert_ptr_equal(agent_attribution_choose(0, true), &agent_attribution_kalman);
    assert_ptr_equal(agent_attribution_choose(0, false), &agent_attribution_ratio_cpu);
    for (unsigned i = 0; agent_attributions[i] != NULL; i++)
        assert_ptr_equal(agent_attribution_choose(i + 1, i % 2 == 0), agent_attributions[i]);
}

/** Half of the CPUs used: Kepler's rule calls half of the energy active. */
static void test_kepler(void **state)
{
    const struct agent_features features[] = {
        {.cpu_ns = 0}, {.workload = 1, .cpu_ns = 1500000000}, {.workload = 2, .cpu_ns = 500000000}};
    struct agent_share shares[3];
    struct agent_window window = {.interval_ns = KW_NS_PER_S,
                                  .n_cpus = 4,
                                  .measured_uj = 80000000,
                                  .idle_prior_mw = 1,
                                  .n = 3,
                                  .features = features};
    struct agent_split split = {.shares = shares};
    void *self = NULL;

    (void)state;
    assert_int_equal(agent_attribution_kepler.open(8, &self), 0);
    agent_attribution_kepler.split(self, &window, &split);
    assert_int_equal(split.idle_uj, 40000000);
    assert_int_equal(split.idle_mw, 40000);
    assert_int_equal(shares[1].active_uj, 30000000);
    assert_int_equal(shares[2].active_uj, 10000000);
    window.n_cpus = 0; /* unknown: nothing is idle */
    agent_attribution_kepler.split(self, &window, &split);
    assert_int_equal(split.idle_uj, 0);
    agent_attribution_kepler.close(&self);
}

/** What a second and an instruction cost changes with the frequency: weights of each are their own.
 */
static void test_layers_of_frequency(void **state)
{
    struct agent_features features[] = {{.cpu_ns = 0}, {.workload = 1}, {.workload = 2}};
    struct agent_share shares[3];
    struct agent_split split = {.shares = shares};
    void *self = NULL;

    (void)state;
    assert_int_equal(agent_attribution_polynomial.open(8, &self), 0);
    for (unsigned k = 0; k < 4000; k++) {
        struct agent_window window = {.interval_ns = KW_NS_PER_S,
                                      .has = AGENT_HAS_COUNTERS,
                                      .mhz = k % 2 == 0 ? 1000 : 3000,
                                      .n = 3,
                                      .features = features};
        bool measure = k >= 3998;
        features[1].cpu_ns = measure ? KW_NS_PER_S : next() % KW_NS_PER_S;
        features[2].instructions = measure ? KW_NS_PER_S : next() % KW_NS_PER_S;
        /* uJ: 20 W and 10 W at 1 GHz, 10 W and 40 W at 3 GHz */
        window.measured_uj = features[1].cpu_ns / (k % 2 == 0 ? 50 : 100) +
                             features[2].instructions / (k % 2 == 0 ? 100 : 25);
        agent_attribution_polynomial.split(self, &window, &split);
        if (measure && k % 2 == 0)
            assert_true(shares[1].active_uj > shares[2].active_uj * 3 / 2);
        else if (measure)
            assert_true(shares[2].active_uj > shares[1].active_uj * 3);
    }
    agent_attribution_polynomial.close(&self);
}

/** What the weights do not explain is nobody's, and where they explain too much, all get less.
 * Counters that all say about the same do not drive the weights apart. */
static void test_not_rescaled(void **state)
{
    struct agent_features features[] = {{.cpu_ns = 0}, {.workload = 1}};
    struct agent_share shares[2];
    struct agent_split split = {.shares = shares};
    void *self = NULL;

    (void)state;
    assert_int_equal(agent_attribution_regression_raw.open(8, &self), 0);
    for (unsigned k = 0; k < 4000; k++) {
        features[1].cpu_ns = next() % KW_NS_PER_S;
        struct agent_window window = {.interval_ns = KW_NS_PER_S,
                                      .has = AGENT_HAS_COUNTERS,
                                      .idle_prior_mw = 10000,
                                      .measured_uj = 10000000 + features[1].cpu_ns / 50,
                                      .n = 2,
                                      .features = features};
        bool more = k == 3998, less = k == 3999;
        if (more || less)
            features[1].cpu_ns = KW_NS_PER_S / 2; /* 10 J of its own */
        features[1].cycles = 3 * features[1].cpu_ns + next() % 10000000;
        features[1].instructions = 4 * features[1].cpu_ns + next() % 50000000;
        if (more || less)
            window.measured_uj = more ? 30000000 : 14000000;
        agent_attribution_regression_raw.split(self, &window, &split);
        assert_int_equal(split.idle_uj, 10000000);
        assert_int_equal(split.idle_uj + split.unattributed_uj + shares[0].active_uj +
                             shares[1].active_uj,
                         window.measured_uj);
        if (more)
            assert_in_range(shares[1].active_uj, 9000000, 11000000);
        else if (less)
            assert_int_equal(shares[1].active_uj, 4000000);
    }
    agent_attribution_regression_raw.close(&self);
}

static void test_instructions(void **state)
{
    const struct agent_features features[] = {
        {.cpu_ns = 0},
        {.workload = 1, .cpu_ns = 1000, .instructions = 3000},
        {.workload = 2, .cpu_ns = 3000, .instructions = 1000}};
    struct agent_share shares[3];
    struct agent_window window = {.interval_ns = KW_NS_PER_S,
                                  .has = AGENT_HAS_COUNTERS,
                                  .measured_uj = 50000000,
                                  .idle_prior_mw = 10000,
                                  .n = 3,
                                  .features = features};
    struct agent_split split = {.shares = shares};
    void *self = NULL;

    (void)state;
    assert_int_equal(agent_attribution_ratio_instructions.open(8, &self), 0);
    agent_attribution_ratio_instructions.split(self, &window, &split);
    assert_int_equal(shares[1].active_uj, 30000000);
    window.has = 0; /* no counters: by time */
    agent_attribution_ratio_instructions.split(self, &window, &split);
    assert_int_equal(shares[1].active_uj, 10000000);
    agent_attribution_ratio_instructions.close(&self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_conserve),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_choice),
        cmocka_unit_test(test_kepler),
        cmocka_unit_test(test_not_rescaled),
        cmocka_unit_test(test_instructions),
        cmocka_unit_test(test_layers_of_frequency),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
