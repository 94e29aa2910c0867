/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "common/clock.h"
#include "node-agent/attribution.h"
#include "node-agent/kalman_parties.h"
#include "tests/sim/node/node_sim.h"
#include "tests/support/cmocka.h"

#define WORKLOADS 3000
#define WINDOW_NS (100 * KW_NS_PER_MS)

static const struct agent_attribution_ops *method = &agent_attribution_kalman;
static void *self;
static struct agent_share shares[WORKLOADS];
static uint64_t seed;

static int setup(void **state)
{
    (void)state;
    seed = 11;
    return method->open(WORKLOADS, &self);
}

static int teardown(void **state)
{
    (void)state;
    method->close(&self);
    return self == NULL ? 0 : -1;
}

static uint64_t below(uint64_t limit)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407u;
    return (seed >> 33) % limit;
}

static struct agent_split split(struct agent_window window)
{
    struct agent_split ret = {.shares = shares};

    window.interval_ns = WINDOW_NS;
    method->split(self, &window, &ret);
    return ret;
}

/** Two workloads that come and go; one draws three times as much in the same CPU time. */
static void test_learns_intensity(void **state)
{
    struct agent_features features[3] = {{.workload = 0}, {.workload = 1}, {.workload = 2}};
    uint64_t got[3] = {0}, truth[3] = {0};

    (void)state;
    for (unsigned k = 0; k < 3000; k++) {
        features[1].cpu_ns = below(2) * (WINDOW_NS / 2 + below(WINDOW_NS / 2));
        features[2].cpu_ns = below(2) * (WINDOW_NS / 2 + below(WINDOW_NS / 2));
        /* 20 W idle; 4 W and 12 W a core */
        uint64_t one = features[1].cpu_ns / 250, two = features[2].cpu_ns * 3 / 250;
        struct agent_split ret = split((struct agent_window){.measured_uj = 2000000 + one + two,
                                                             .idle_prior_mw = 24000,
                                                             .n = 3,
                                                             .features = features});
        if (k < 1000)
            continue;
        got[1] += shares[1].active_uj;
        got[2] += shares[2].active_uj;
        truth[1] += one;
        truth[2] += two;
        assert_true(ret.idle_sigma_mw > 0);
    }
    for (unsigned i = 1; i < 3; i++)
        assert_true(fabs((double)got[i] - (double)truth[i]) < 0.05 * (double)truth[i]);
    /* and idle, which nobody told it */
    struct agent_split ret = split((struct agent_window){
        .measured_uj = 2000000, .idle_prior_mw = 24000, .n = 3, .features = features});
    assert_true(labs((long)ret.idle_mw - 20000) < 1500);
}

/** What came of a run on a simulated node. */
struct outcome {
    double misattributed; /* part of the active energy */
    double inside;        /* part of the workload-windows whose truth is within 2 sigma */
};

static struct outcome simulate(struct sim_node_conf conf, unsigned has, double idle_factor,
                               bool mixed_up)
{
    static struct agent_features others[WORKLOADS];
    struct sim_node *node = sim_node_new(&conf);
    double error = 0, all = 0;
    size_t inside = 0, count = 0;

    assert_non_null(node);
    for (unsigned k = 0; k < 900; k++) {
        const struct sim_window *seen = sim_node_run(node, WINDOW_NS);
        for (size_t i = 0; i < seen->n; i++) {
            others[i] = seen->features[i];
            if (mixed_up && i > 0)
                others[i].instructions = seen->features[i + 1 < seen->n ? i + 1 : 1].instructions;
        }
        struct agent_window window = {
            .has = has,
            .n_cpus = sim_node_cpus(node),
            .mhz = seen->mhz,
            .measured_uj = seen->cpu_uj,
            .idle_prior_mw = (uint64_t)(idle_factor * (double)sim_node_idle_mw(node, false)),
            .n = seen->n,
            .features = others};
        for (size_t i = 0; i < seen->n_departed; i++)
            method->forget(self, seen->departed[i]);
        (void)split(window);
        for (size_t i = 0; i < seen->n && k >= 300; i++) {
            double off = fabs((double)shares[i].active_uj - seen->truth[i].cpu_uj);
            error += off;
            all += seen->truth[i].cpu_uj;
            inside += off <= 2 * (double)shares[i].sigma_uj;
            count++;
        }
    }
    sim_node_free(&node);
    return (struct outcome){.misattributed = error / all, .inside = (double)inside / (double)count};
}

static double misattributed(struct sim_node_conf conf, unsigned has, double idle_factor)
{
    return simulate(conf, has, idle_factor, false).misattributed;
}

#define TIME     AGENT_HAS_SMT
#define COUNTERS (TIME | AGENT_HAS_COUNTERS)

/** Several times truer than CPU time, which misplaces a fifth; figures are the benchmark's. */
static void test_simulated_node(void **state)
{
    (void)state;
    assert_true(misattributed(sim_node_defaults(2, 20, 14), COUNTERS, 1) < 0.05);
}

static void test_simulated_node_without_counters(void **state)
{
    (void)state;
    assert_true(misattributed(sim_node_defaults(2, 20, 14), TIME, 1) < 0.12);
}

static void test_idle_wrong_by_a_fifth(void **state)
{
    (void)state;
    assert_true(misattributed(sim_node_defaults(2, 20, 14), COUNTERS, 1.2) < 0.08);
}

/** A voltage that hardly moves, cores that draw three times as much: nothing of it is told. */
static void test_unlike_machine(void **state)
{
    struct sim_node_conf conf = sim_node_defaults(3, 20, 14);

    (void)state;
    conf.machine.low_v = 0.95;
    conf.machine.high_v = 1;
    conf.machine.base_w = 3;
    conf.machine.work = 2;
    conf.machine.idle_w = 60;
    assert_true(misattributed(conf, COUNTERS, 1) < 0.1); /* CPU time: 0.23 */
}

/** Instructions that are another workload's leave the sum right: they are found out by what no
 * program does, and cost no more than to have none. */
static void test_instructions_of_another(void **state)
{
    struct sim_node_conf conf = sim_node_defaults(2, 20, 14);
    double without = misattributed(conf, TIME, 1);

    (void)state;
    method->close(&self);
    assert_int_equal(method->open(WORKLOADS, &self), 0);
    assert_true(simulate(conf, COUNTERS, 1, true).misattributed < 1.5 * without + 0.01);
}

/** Counters that appear later: workloads that are known already have states in both filters. */
static void test_counters_come_and_go(void **state)
{
    struct sim_node_conf conf = sim_node_defaults(2, 20, 14);

    (void)state;
    (void)misattributed(conf, TIME, 1);
    double with = misattributed(conf, COUNTERS, 1);
    assert_true(with < 0.05);
    assert_true(misattributed(conf, TIME, 1) < 0.12);
}

static void test_sigma_holds_the_truth(void **state)
{
    struct sim_node_conf conf = sim_node_defaults(4, 40, 40);

    (void)state;
    assert_true(simulate(conf, COUNTERS, 1, false).inside > 0.9);
    method->close(&self);
    assert_int_equal(method->open(WORKLOADS, &self), 0);
    conf.truth = SIM_TRUTH_WORK; /* another convention of what is shared */
    assert_true(simulate(conf, COUNTERS, 1, false).inside > 0.8);
}

/** A successor of the same owner starts where the last one was. */
static void test_owner_is_remembered(void **state)
{
    struct agent_features features[3] = {
        {.workload = 0}, {.workload = 1}, {.workload = 2, .kin = 9}};

    (void)state;
    for (unsigned k = 0; k < 2000; k++) {
        features[1].cpu_ns = below(2) * (WINDOW_NS / 2 + below(WINDOW_NS / 2));
        features[2].cpu_ns = below(2) * (WINDOW_NS / 2 + below(WINDOW_NS / 2));
        (void)split((struct agent_window){.measured_uj = 2000000 + features[1].cpu_ns / 250 +
                                                         features[2].cpu_ns * 3 / 250,
                                          .idle_prior_mw = 20000,
                                          .n = 3,
                                          .features = features});
    }
    method->forget(self, 2);
    features[1].cpu_ns = features[2].cpu_ns = WINDOW_NS;
    features[2].workload = 3;
    (void)split((struct agent_window){.measured_uj = 2000000 + 400000 + 1200000,
                                      .idle_prior_mw = 20000,
                                      .n = 3,
                                      .features = features});
    assert_true(shares[2].active_uj > 2 * shares[1].active_uj);
}

/** So does one of which the owner becomes known after its first windows, while the last one runs.
 */
static void test_owner_is_told_late(void **state)
{
    struct agent_features features[4] = {
        {.workload = 0}, {.workload = 1}, {.workload = 2, .kin = 9}, {.workload = 3}};

    (void)state;
    for (unsigned k = 0; k < 2000; k++) {
        features[1].cpu_ns = below(2) * (WINDOW_NS / 2 + below(WINDOW_NS / 2));
        features[2].cpu_ns = below(2) * (WINDOW_NS / 2 + below(WINDOW_NS / 2));
        (void)split((struct agent_window){.measured_uj = 2000000 + features[1].cpu_ns / 250 +
                                                         features[2].cpu_ns * 3 / 250,
                                          .idle_prior_mw = 20000,
                                          .n = 3,
                                          .features = features});
    }
    for (size_t i = 1; i < 4; i++)
        features[i].cpu_ns = WINDOW_NS;
    for (unsigned k = 0; k < 2; k++) {
        (void)split((struct agent_window){.measured_uj = 2000000 + 400000 + 2 * 1200000,
                                          .idle_prior_mw = 20000,
                                          .n = 4,
                                          .features = features});
        features[3].kin = 9;
    }
    assert_true(shares[3].active_uj > 2 * shares[1].active_uj);
    assert_true(shares[3].active_uj * 10 > shares[2].active_uj * 8);
}

/** Two equal ones that always run, in about the same time, while their power changes with their
 * phases, as in recordings of real twins. @return how far they come out apart, of their mean. */
static double twins_apart(const uint64_t kin[2])
{
    struct agent_features features[3] = {
        {.workload = 0}, {.workload = 1, .kin = kin[0]}, {.workload = 2, .kin = kin[1]}};
    double got[2] = {0}, power[2] = {1, 1};

    for (unsigned k = 0; k < 70; k++) {
        double uj = 10000000;
        for (size_t i = 0; i < 2; i++) {
            if (k % 5 == 0)
                power[i] = 0.5 + 0.1 * (double)below(11);
            features[i + 1].cpu_ns = 98 * WINDOW_NS / 10 + below(4 * WINDOW_NS / 10);
            uj += power[i] * (double)features[i + 1].cpu_ns / 50;
        }
        (void)split((struct agent_window){.measured_uj = (uint64_t)uj,
                                          .n_cpus = 20,
                                          .idle_prior_mw = 100000,
                                          .n = 3,
                                          .features = features});
        for (size_t i = 0; i < 2; i++)
            got[i] += (double)shares[i + 1].active_uj;
    }
    return fabs(got[0] - got[1]) / (got[0] + got[1]) * 2;
}

/** Without counters, programs that nothing but noise and phases tells apart stay together, whether
 * or not they are of one owner. */
static void test_twins_stay_together(void **state)
{
    double most = 0, strangers = 0;

    (void)state;
    for (unsigned k = 0; k < 20; k++) {
        most = fmax(most, twins_apart((const uint64_t[2]){9, 9}));
        method->close(&self);
        assert_int_equal(method->open(WORKLOADS, &self), 0);
        strangers = fmax(strangers, twins_apart((const uint64_t[2]){8, 9}));
        method->close(&self);
        assert_int_equal(method->open(WORKLOADS, &self), 0);
    }
    print_message("apart: replicas %.1f %%, others %.1f %%\n", 100 * most, 100 * strangers);
    assert_true(most < 0.02);
    assert_true(strangers < 0.04);
}

/** What is learnt of replicas that are there is what a further one starts from, with and without
 * counters, and an owner that is not known for a while is not forgotten. */
static void test_replicas_join(void **state)
{
    struct sim_node_conf conf = sim_node_defaults(5, 20, 14);

    (void)state;
    conf.owners = 4;
    conf.unlike = 0.05;
    conf.churn_per_s = 0.5;
    assert_true(misattributed(conf, COUNTERS, 1) < 0.06);
    method->close(&self);
    assert_int_equal(method->open(WORKLOADS, &self), 0);
    assert_true(misattributed(conf, TIME, 1) < 0.12);
}

/** More workloads than states: conserved, and the large ones have states of their own. */
static void test_crowd(void **state)
{
    static struct agent_features features[WORKLOADS];
    uint64_t measured = 100000000;

    (void)state;
    for (size_t i = 0; i < WORKLOADS; i++)
        features[i] = (struct agent_features){.workload = i, .cpu_ns = 1000 + i};
    for (unsigned k = 0; k < 3; k++) {
        struct agent_split ret = split((struct agent_window){
            .measured_uj = measured, .idle_prior_mw = 20000, .n = WORKLOADS, .features = features});
        uint64_t sum = ret.idle_uj + ret.unattributed_uj;
        for (size_t i = 0; i < WORKLOADS; i++)
            sum += shares[i].active_uj;
        assert_int_equal(sum, measured);
    }
    for (size_t i = 0; i < WORKLOADS; i += 2)
        method->forget(self, i);
    (void)split((struct agent_window){
        .measured_uj = measured, .idle_prior_mw = 20000, .n = WORKLOADS, .features = features});
}

/** Memory whose idle power no table gives. */
static void test_dram_idle_is_found(void **state)
{
    struct agent_features features[2] = {{.workload = 0}, {.workload = 1}};
    struct agent_split ret = {0};

    (void)state;
    for (unsigned k = 0; k < 3000; k++) {
        features[1].cpu_ns = below(WINDOW_NS);
        features[1].llc_misses = below(4000000);
        ret =
            split((struct agent_window){.domain = 1,
                                        .dram = true,
                                        .has = AGENT_HAS_COUNTERS,
                                        .measured_uj = 700000 + features[1].llc_misses * 18 / 1000,
                                        .n = 2,
                                        .features = features});
    }
    assert_true(labs((long)ret.idle_mw - 7000) < 700);
}

/** A meter that stands still for a window and then catches up. */
static void test_steps(void **state)
{
    struct agent_features features[2] = {{.workload = 0}, {.workload = 1, .cpu_ns = WINDOW_NS}};
    uint64_t idle_uj = 0, active_uj = 0;

    (void)state;
    for (unsigned k = 0; k < 2000; k++) {
        struct agent_split ret =
            split((struct agent_window){.measured_uj = k % 2 == 0 ? 0 : 4000000,
                                        .idle_prior_mw = 12000,
                                        .n = 2,
                                        .features = features});
        idle_uj += ret.idle_uj;
        active_uj += shares[1].active_uj;
    }
    assert_int_equal(idle_uj + active_uj, UINT64_C(4000000000));
    assert_true(idle_uj > UINT64_C(1000000000));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_learns_intensity, setup, teardown),
        cmocka_unit_test_setup_teardown(test_simulated_node, setup, teardown),
        cmocka_unit_test_setup_teardown(test_simulated_node_without_counters, setup, teardown),
        cmocka_unit_test_setup_teardown(test_idle_wrong_by_a_fifth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_unlike_machine, setup, teardown),
        cmocka_unit_test_setup_teardown(test_instructions_of_another, setup, teardown),
        cmocka_unit_test_setup_teardown(test_counters_come_and_go, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sigma_holds_the_truth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_owner_is_remembered, setup, teardown),
        cmocka_unit_test_setup_teardown(test_owner_is_told_late, setup, teardown),
        cmocka_unit_test_setup_teardown(test_twins_stay_together, setup, teardown),
        cmocka_unit_test_setup_teardown(test_replicas_join, setup, teardown),
        cmocka_unit_test_setup_teardown(test_crowd, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dram_idle_is_found, setup, teardown),
        cmocka_unit_test_setup_teardown(test_steps, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
