/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cluster simulator: energy of what can be added up by hand, the scheduler's own scores, and
 * that equal input gives equal figures.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/sim_impl.h"
#include "extender/sim_plugins.h"
#include "tests/sim/cluster/cluster_sim.h"
#include "tests/support/cmocka.h"

/** 4 cores, 10 W idle, 20 W a core below the middle and 40 W above. */
static struct ext_sim_node node_of(const char *name)
{
    struct ext_sim_node node = {
        .curve = {.capacity_mcpu = 4000,
                  .n = 3,
                  .knots = {{0, 10000, 0}, {500, 50000, 0}, {1000, 130000, 0}}},
        .work_per_mcpu = 1,
        .pods_max = 110,
    };

    (void)snprintf(node.name, sizeof(node.name), "%s", name);
    return node;
}

static void test_energy_by_hand(void **state)
{
    (void)state;
    struct ext_sim_node nodes[] = {node_of("a")};
    struct ext_sim_pod pods[] = {
        {.arrival_s = 10, .end_s = 30, .request_mcpu = 1000, .work_mcpu = 1000},
        {.arrival_s = 20, .end_s = 40, .request_mcpu = 2000, .work_mcpu = 2600},
        {.arrival_s = 25, .end_s = 28, .request_mcpu = 2000, .work_mcpu = 2000}, /* no room */
    };
    const struct ext_sim_input input = {1, nodes, 3, pods, 0, 0};
    struct ext_sim_conf conf = ext_sim_defaults(EXT_SIM_SPREAD, 50);
    struct ext_sim_result result;
    uint32_t placed[3];

    assert_int_equal(ext_sim_run(&input, &conf, &result, placed), 0);
    /* 10 s at 0, 10 s at 1 core, 10 s at 3.6, 10 s at 2.6, 10 s at 0 */
    double want_j = 10 * (10 + 30 + (50 + 1.6 * 40) + (50 + 0.6 * 40) + 10);
    assert_true(fabs(result.energy_uj - want_j * 1e6) < 1);
    assert_true(fabs(result.mean_mw - want_j * 1000 / 50) < 1e-6);
    assert_true(fabs(result.peak_mw - 114000) < 1e-6);
    assert_true(fabs(result.work_mcpu_s - (20 * 1000 + 20 * 2600)) < 1e-6);
    assert_true(fabs(result.over_permille - 1000 * 10 / 50.0) < 1e-6);
    assert_int_equal(result.unplaced, 1);
    assert_int_equal(result.waited, 1);
    assert_int_equal(placed[1], 0);
    assert_int_equal(placed[2], UINT32_MAX);
    /* a part of it */
    conf.from_s = 15;
    conf.to_s = 25;
    assert_int_equal(ext_sim_run(&input, &conf, &result, NULL), 0);
    assert_true(fabs(result.energy_uj - (5 * 30 + 5 * 114) * 1e6) < 1);
}

static void test_sleep_and_price(void **state)
{
    (void)state;
    struct ext_sim_node nodes[] = {node_of("a")};
    struct ext_sim_pod pods[] = {
        {.arrival_s = 1000, .end_s = 1100, .request_mcpu = 1000, .work_mcpu = 1000}};
    const struct ext_sim_input input = {1, nodes, 1, pods, 0, 0};
    struct ext_sim_conf conf = ext_sim_defaults(EXT_SIM_KWATT, 2000);
    struct ext_sim_result result;

    nodes[0].sleepable = true;
    nodes[0].sleep_mw = 2000;
    nodes[0].wake_uj = 7e6;
    nodes[0].energy_price = 2;
    assert_int_equal(ext_sim_run(&input, &conf, &result, NULL), 0);
    /* idle for the tail, asleep, woken, a pod, idle for the tail, asleep */
    double want_j = 300 * 10 + 700 * 2 + 7 + 100 * 30 + 300 * 10 + 600 * 2;
    assert_true(fabs(result.energy_uj - want_j * 1e6) < 1);
    assert_true(fabs(result.priced_uj - 2 * want_j * 1e6) < 1);
    assert_int_equal(result.wakes, 1);
}

/** What waking a node is spread over, by what is known of a pod's life. */
static void test_lives(void **state)
{
    (void)state;
    struct ext_sim_pod pods[] = {{.end_s = 600, .owner = 1},
                                 {.end_s = 600, .owner = 1},
                                 {.arrival_s = 600, .end_s = 660, .owner = 1},
                                 {.arrival_s = 600, .end_s = 9999, .owner = 2},
                                 {.arrival_s = 600, .end_s = 700}};
    const struct ext_sim_input input = {.n_pods = 5, .pods = pods, .n_owners = 2};
    static const struct {
        enum ext_sim_lives lives;
        double wake_s[3]; /* of pods 2 to 4 */
    } rows[] = {
        /* two of the first owner's were there for 600 s each and ended; the second's runs on */
        {EXT_SIM_LIVES_PLAIN, {(1200 + 3600) / 3.0, 600 + 3600, 3600}},
        {EXT_SIM_LIVES_LEARNT, {1800, 600 + 3600, 3600}},
        {EXT_SIM_LIVES_TOLD, {60, 9399, 100}},
        {EXT_SIM_LIVES_ASSUMED, {3600, 3600, 3600}},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct ext_sim sim = {.input = &input, .conf = {.lives = rows[i].lives}};
        assert_int_equal(ext_sim_lives_init(&sim), 0);
        for (uint32_t pod = 0; pod < 4; pod++)
            ext_sim_lives_begin(&sim, pod == 2 ? 4 : pod);
        sim.now_s = 600;
        ext_sim_lives_end(&sim, 0);
        ext_sim_lives_end(&sim, 1);
        for (uint32_t pod = 2; pod < 5; pod++)
            assert_true(fabs(ext_sim_wake_s(&sim, pod) - rows[i].wake_s[pod - 2]) < 1e-9);
        free(sim.lives);
    }
}

static void test_plugins(void **state)
{
    (void)state;
    static const struct ext_sim_candidate candidates[] = {
        {.capacity_mcpu = 4000, .capacity_mib = 8192},
        {.capacity_mcpu = 4000, .capacity_mib = 8192, .requested_mcpu = 2000},
        {.capacity_mcpu = 4000, .requested_mcpu = 2000, .replicas = 2},
    };
    struct ext_sim_question question = {
        .request_mcpu = 1000, .request_mib = 2048, .fit = true, .balanced = true};
    double scratch[3];
    int64_t points[3];

    ext_sim_plugins(&question, candidates, 3, scratch, points);
    assert_int_equal(points[0], 75 + 100);
    assert_int_equal(points[1], (25 + 75) / 2 + 75);
    assert_int_equal(points[2], 25 + 100);
    question.most_allocated = true;
    ext_sim_plugins(&question, candidates, 3, scratch, points);
    assert_int_equal(points[1], (75 + 25) / 2 + 75);
    question.balanced = false;
    ext_sim_plugins(&question, candidates, 3, scratch, points);
    assert_int_equal(points[1], (75 + 25) / 2);
    question = (struct ext_sim_question){.has_workload = true};
    ext_sim_plugins(&question, candidates, 3, scratch, points);
    assert_int_equal(points[0], 200);
    assert_int_equal(points[2], 2 * (int64_t)(100 * 2 / round(2 * log(5) + 2)));
    /* nodes that the scheduler looks for, as its adaptive percentage gives them */
    static const size_t sizes[][2] = {{1, 1},      {99, 99},    {100, 100},  {500, 230},
                                      {1000, 420}, {5000, 500}, {15000, 750}};
    for (size_t i = 0; i < KW_ARRAY_SIZE(sizes); i++)
        assert_int_equal(ext_sim_sample_size(sizes[i][0]), sizes[i][1]);
}

/* Tiers have NodeResourcesFit beside them and no balance, whatever the extender has. */
static void test_profile_of_tiers(void **state)
{
    (void)state;
    const struct sim_setting setting = {
        .fleet = SIM_FLEET_OLD, .load = 0.3, .scale = 0.1, .seed = 2};
    struct ext_sim_conf conf = ext_sim_defaults(EXT_SIM_TIERS, 6000);
    struct ext_sim_result with, without;
    struct ext_sim_input input;

    assert_int_equal(sim_cluster_make(&setting, &input), 0);
    assert_int_equal(ext_sim_run(&input, &conf, &with, NULL), 0);
    conf.profile = EXT_SIM_PROFILE_QUIET;
    assert_int_equal(ext_sim_run(&input, &conf, &without, NULL), 0);
    assert_memory_equal(&with, &without, sizeof(with));
    ext_sim_input_free(&input);
}

/* What a node is asked for beyond its capacity is not done. */
static void test_work_beyond_capacity(void **state)
{
    (void)state;
    struct ext_sim_node nodes[] = {node_of("a")};
    struct ext_sim_pod pods[] = {
        {.arrival_s = 0, .end_s = 30, .request_mcpu = 1000, .work_mcpu = 3000},
        {.arrival_s = 10, .end_s = 20, .request_mcpu = 1000, .work_mcpu = 9000},
    };
    const struct ext_sim_input input = {.n_nodes = 1, .nodes = nodes, .n_pods = 2, .pods = pods};
    struct ext_sim_conf conf = ext_sim_defaults(EXT_SIM_SPREAD, 40);
    struct ext_sim_result result;

    nodes[0].work_per_mcpu = 2;
    assert_int_equal(ext_sim_run(&input, &conf, &result, NULL), 0);
    assert_true(fabs(result.work_mcpu_s - (20 * 3000 + 10 * 8000)) < 1e-6);
}

/* Machines of one kind that are filled evenly best: kwatt has no opinion, whatever its data say. */
static void test_alike_is_spread(void **state)
{
    (void)state;
    struct sim_setting setting = {.fleet = SIM_FLEET_OLD, .load = 0.6, .scale = 0.1, .seed = 5};
    struct ext_sim_result spread, kwatt;
    struct ext_sim_input input;

    assert_int_equal(sim_cluster_make(&setting, &input), 0);
    struct ext_sim_conf conf = ext_sim_defaults(EXT_SIM_SPREAD, 5000);
    assert_int_equal(ext_sim_run(&input, &conf, &spread, NULL), 0);
    for (unsigned i = 0; i < 4; i++) {
        conf = ext_sim_defaults(EXT_SIM_KWATT, 5000);
        conf.noise = i == 1 ? 0.05 : 0;
        conf.interval_s = i == 2 ? 60 : 5;
        conf.late_s = i == 3 ? 60 : 0;
        assert_int_equal(ext_sim_run(&input, &conf, &kwatt, NULL), 0);
        assert_memory_equal(&kwatt, &spread, sizeof(kwatt));
    }
    ext_sim_input_free(&input);
}

/* Equal figures again, and what each policy is known for. */
/* Where spreading is hard to beat: unlike machines with next to no work, which a new one is too
 * dear to wake for; equal ones whose energy has two prices; straight lines, and pods that use far
 * more than they request, whose work is lost where nodes are filled. */
static void test_no_more_than_spreading(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        struct sim_setting setting;
        double price;  /* of each second node */
        bool straight; /* all curves */
        double use;    /* of requests */
    } rows[] = {
        {"unlike", {.fleet = SIM_FLEET_UNLIKE, .load = 0.02, .scale = 1, .seed = 5}, 1, false, 1},
        {"prices", {.fleet = SIM_FLEET_OLD, .load = 0.3, .scale = 0.2, .seed = 5}, 2, false, 1},
        {"straight", {.fleet = SIM_FLEET_OLD, .load = 0.6, .scale = 0.2, .seed = 5}, 1, true, 2},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct ext_sim_input input;
        double by_work[2];
        assert_int_equal(sim_cluster_make(&rows[i].setting, &input), 0);
        for (size_t k = 0; k < input.n_nodes; k++) {
            struct kw_curve *curve = &input.nodes[k].curve;
            input.nodes[k].energy_price = k % 2 == 0 ? 1 : rows[i].price;
            for (uint32_t knot = 0; rows[i].straight && knot < curve->n; knot++)
                curve->knots[knot].mw = 100000 + 100 * curve->knots[knot].load_permille;
        }
        for (size_t k = 0; k < input.n_pods; k++)
            input.pods[k].request_mcpu /= rows[i].use;
        for (unsigned kwatt = 0; kwatt < 2; kwatt++) {
            struct ext_sim_conf conf =
                ext_sim_defaults(kwatt ? EXT_SIM_KWATT : EXT_SIM_SPREAD, SIM_TO_S);
            struct ext_sim_result result;
            conf.from_s = SIM_FROM_S;
            assert_int_equal(ext_sim_run(&input, &conf, &result, NULL), 0);
            by_work[kwatt] = result.priced_uj / result.work_mcpu_s;
        }
        if (by_work[1] > by_work[0] * (1 + 1e-9))
            fail_msg("%s: %.9g times as much", rows[i].name, by_work[1] / by_work[0]);
        ext_sim_input_free(&input);
    }
}

static void test_policies(void **state)
{
    (void)state;
    const struct sim_setting setting = {
        .fleet = SIM_FLEET_MIXED, .load = 0.3, .scale = 0.3, .seed = 3};
    struct ext_sim_result results[EXT_SIM_POLICY__MAX], again;
    struct ext_sim_input input;

    assert_int_equal(sim_cluster_make(&setting, &input), 0);
    for (unsigned policy = 0; policy < EXT_SIM_POLICY__MAX; policy++) {
        struct ext_sim_conf conf = ext_sim_defaults(policy, 6000);
        conf.noise = 0.02;
        assert_int_equal(ext_sim_run(&input, &conf, &results[policy], NULL), 0);
        assert_int_equal(ext_sim_run(&input, &conf, &again, NULL), 0);
        assert_memory_equal(&again, &results[policy], sizeof(again));
        /* the same work, but where nodes are filled beyond their capacity */
        if (policy != EXT_SIM_PACK)
            assert_true(fabs(again.work_mcpu_s - results[0].work_mcpu_s) <
                        1e-6 * again.work_mcpu_s);
    }
    assert_true(results[EXT_SIM_KWATT].energy_uj < 0.85 * results[EXT_SIM_SPREAD].energy_uj);
    assert_true(results[EXT_SIM_KWATT].energy_uj < results[EXT_SIM_PACK].energy_uj);
    assert_true(results[EXT_SIM_TIERS].energy_uj < 0.9 * results[EXT_SIM_SPREAD].energy_uj);
    ext_sim_input_free(&input);
}

static void test_bad_input(void **state)
{
    (void)state;
    struct ext_sim_node nodes[] = {node_of("a")};
    struct ext_sim_pod pods[] = {{.arrival_s = 5, .end_s = 6}, {.arrival_s = 4, .end_s = 6}};
    struct ext_sim_input input = {1, nodes, 2, pods, 0, 0};
    struct ext_sim_conf conf = ext_sim_defaults(EXT_SIM_KWATT, 10);
    struct ext_sim_result result;

    assert_int_equal(ext_sim_run(&input, &conf, &result, NULL), -EINVAL); /* not by arrival */
    pods[1] = (struct ext_sim_pod){.arrival_s = 7, .end_s = 7};
    assert_int_equal(ext_sim_run(&input, &conf, &result, NULL), -EINVAL);
    input.n_pods = 0;
    assert_int_equal(ext_sim_run(&input, &conf, &result, NULL), 0);
    conf.seed = 0;
    assert_int_equal(ext_sim_run(&input, &conf, &result, NULL), -EINVAL);
    conf.seed = 1;
    nodes[0].work_per_mcpu = (double)NAN;
    assert_int_equal(ext_sim_run(&input, &conf, &result, NULL), -EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_energy_by_hand),
        cmocka_unit_test(test_sleep_and_price),
        cmocka_unit_test(test_lives),
        cmocka_unit_test(test_plugins),
        cmocka_unit_test(test_profile_of_tiers),
        cmocka_unit_test(test_work_beyond_capacity),
        cmocka_unit_test(test_alike_is_spread),
        cmocka_unit_test(test_no_more_than_spreading),
        cmocka_unit_test(test_policies),
        cmocka_unit_test(test_bad_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
