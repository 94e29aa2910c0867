/* SPDX-License-Identifier: Apache-2.0 */
/* Tiers of nodes: when a label is due, which are written first, and that no run of events writes
 * one too often or too many. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/capping.h"
#include "extender/score.h"
#include "extender/tiers.h"
#include "extender/typical.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define SECOND INT64_C(1000000000)
#define NONE   KW_TIER_NONE
#define OTHER  KW_TIER_OTHER

static const struct ext_tier_policy policy = {.every_ns = 60 * SECOND, .patience_ns = 60 * SECOND};

static void test_urgency(void **state)
{
    (void)state;
    static const struct {
        int8_t shown, wanted;
        int changed_s, apart_s; /* how long ago; -1: never, -2: not apart */
        int urgency;
    } cases[] = {
        {NONE, 4, -1, -2, 10},  /* a new node is labelled at once */
        {OTHER, 4, -1, -2, 10}, /* what somebody else wrote is replaced */
        {OTHER, 4, 30, -2, 0},  /* but not again and again */
        {OTHER, NONE, -1, -2, 10}, {4, 4, -1, -2, 0},
        {NONE, NONE, -1, -2, 0},   {4, 6, 60, -2, 2}, /* a large step, a minute after the last */
        {4, 6, 59, -2, 0},         {9, 0, -1, -2, 9},
        {4, 5, 600, -2, 0}, /* a small one must last */
        {4, 5, 600, 59, 0},        {4, 5, 600, 60, 1},
        {4, 3, 600, 60, 1},        {4, 5, 59, 60, 0},
        {4, NONE, 600, 59, 0}, /* so must the loss of knowledge */
        {4, NONE, 600, 60, 1},
    };
    const int64_t now = 10000 * SECOND;

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct ext_tier_mark mark = {.tier = cases[i].shown, .seen = true};
        if (cases[i].changed_s >= 0)
            mark.changed_ns = now - cases[i].changed_s * SECOND;
        if (cases[i].apart_s >= 0) {
            mark.side = (int8_t)(cases[i].wanted < 0                ? 2
                                 : cases[i].wanted > cases[i].shown ? 1
                                                                    : -1);
            mark.apart_ns = now - cases[i].apart_s * SECOND;
        }
        if (ext_tier_urgency(&mark, cases[i].wanted, &policy, now) != cases[i].urgency)
            fail_msg("case %zu", i);
    }
}

/** A tier that goes to and fro around its label is not written. */
static void test_flapping(void **state)
{
    (void)state;
    static const int8_t wanted[] = {5, 4, 3, 4, 5, 3};
    struct ext_tier_mark mark = {.tier = 4, .seen = true};

    for (int s = 1; s < 3600; s++)
        assert_int_equal(
            ext_tier_urgency(&mark, wanted[(s / 50) % 6], &policy, (int64_t)s * SECOND), 0);
}

static void test_seen(void **state)
{
    (void)state;
    struct ext_tier_mark mark = {0};

    ext_tier_seen(&mark, NONE, 5);
    assert_int_equal(mark.changed_ns, 0);
    ext_tier_seen(&mark, 3, 7);
    ext_tier_seen(&mark, 3, 9);
    assert_int_equal(mark.changed_ns, 7);
    ext_tier_seen(&mark, NONE, 11); /* somebody took it away */
    assert_int_equal(mark.changed_ns, 11);
    mark = (struct ext_tier_mark){0};
    ext_tier_seen(&mark, 3, 7); /* another replica may have written it just now */
    assert_int_equal(mark.changed_ns, 7);
}

/** Nodes whose pods cost 4, 1 and 1.05 W a core, one that is stale and one without a curve. */
static struct ext_snapshot *five_nodes(int64_t now_ns)
{
    static const char *const names[] = {"dear", "cheap", "between", "stale", "plain"};
    static const uint32_t full_mw[] = {132000, 108000, 108400, 108000};
    struct ext_node nodes[5];

    for (size_t i = 0; i < 4; i++) {
        const struct kw_curve curve = {
            .capacity_mcpu = 8000, .n = 2, .knots = {{0, 100000, 0}, {1000, full_mw[i], 0}}};
        nodes[i] = kwt_node(names[i], &curve, 4000);
        nodes[i].fresh_ns = i == 3 ? now_ns - 100 * SECOND : now_ns;
        nodes[i].watts.heard = true;
        ext_watts_curve(&nodes[i].watts, &curve);
    }
    nodes[4] = kwt_node(names[4], NULL, 0);
    return ext_snapshot_new(nodes, 5, 7, 30 * (uint64_t)SECOND);
}

static void test_ranks(void **state)
{
    (void)state;
    const int64_t now = 1000 * SECOND;
    struct ext_snapshot *snapshot = five_nodes(now);
    int8_t tiers[5];

    assert_int_equal(ext_tiers_rank(snapshot, 1000, now, tiers), 0);
    assert_int_equal(tiers[1], 0);
    assert_int_equal(tiers[0], 9);
    assert_in_range(tiers[2], 1, 8);
    assert_int_equal(tiers[3], NONE);
    assert_int_equal(tiers[4], NONE);
    ext_snapshot_free(&snapshot);
}

/** A node that a request finds better never has a higher tier; tiers are closer together, so that
 * one that is a little dearer than the best is not far from it. */
static void test_as_scores(void **state)
{
    (void)state;
    enum { NODES = 12 };
    static const char *const names[NODES] = {"a", "b", "c", "d", "e", "f",
                                             "g", "h", "i", "j", "k", "l"};
    uint64_t seed = 5;

    for (int round = 0; round < 300; round++) {
        const struct ext_score_pod pod = {.mcpu = (double)(1 + kwt_next(&seed) % 4000)};
        const struct ext_place *places[NODES];
        struct ext_score_scratch scratch[NODES];
        struct ext_node nodes[NODES];
        struct ext_score score;
        int8_t tiers[NODES];
        uint8_t levels[NODES];

        for (size_t i = 0; i < NODES; i++) {
            struct kw_curve curve = kwt_random_curve(&seed);
            nodes[i] =
                kwt_node(names[i], &curve, (double)(kwt_next(&seed) % (curve.capacity_mcpu + 1)));
        }
        struct ext_snapshot *snapshot = ext_snapshot_new(nodes, NODES, 3, 30 * (uint64_t)SECOND);
        for (size_t i = 0; i < NODES; i++)
            places[i] = &snapshot->places[i];
        ext_score_begin(&score, &pod, scratch);
        ext_score_take(&score, places, NODES);
        (void)ext_score_end(&score, levels);
        assert_int_equal(ext_tiers_rank(snapshot, pod.mcpu, 0, tiers), 0);
        for (size_t i = 0; i < NODES; i++) {
            assert_true(tiers[i] <= 10 - levels[i]);
            for (size_t k = 0; k < NODES; k++)
                assert_true(levels[i] <= levels[k] || tiers[i] <= tiers[k]);
        }
        ext_snapshot_free(&snapshot);
    }
}

/** Peers on a curve that rises ever more steeply: those near their mean share a tier. */
static void test_peers(void **state)
{
    (void)state;
    enum { NODES = 4 };
    static const char *const names[NODES] = {"a", "b", "c", "far"};
    static const double fills[NODES] = {0.2, 0.35, 0.6, 0.95};
    const struct kw_curve curve = {.capacity_mcpu = 8000,
                                   .n = 5,
                                   .knots = {{0, 100000, 0},
                                             {250, 104000, 0},
                                             {500, 112000, 0},
                                             {750, 130000, 0},
                                             {1000, 170000, 0}}};
    struct ext_node nodes[NODES];
    int8_t tiers[NODES];

    for (int peers = 0; peers < 2; peers++) {
        for (size_t i = 0; i < NODES; i++) {
            nodes[i] = kwt_node(names[i], &curve, fills[i] * 8000);
            nodes[i].peers_fill =
                peers == 0 ? 0 : EXT_PEERS_FILL_MIN + (uint8_t)(EXT_PEERS_FILL_STEPS * 0.42);
        }
        struct ext_snapshot *snapshot = ext_snapshot_new(nodes, NODES, 3, 30 * (uint64_t)SECOND);
        assert_int_equal(ext_tiers_rank(snapshot, 200, 0, tiers), 0);
        assert_int_equal(tiers[0], 0);
        assert_true((tiers[1] == 0) == (peers == 1));
        assert_true((tiers[2] == 0) == (peers == 1));
        assert_true(tiers[3] > 0);
        ext_snapshot_free(&snapshot);
    }
}

/** A cap that has no room for the pod makes a cheap node dear. */
static void test_caps(void **state)
{
    (void)state;
    const int64_t now = 1000 * SECOND;
    struct ext_snapshot *snapshot = five_nodes(now);
    struct ext_stats *stats = calloc(1, sizeof(*stats));
    struct kw_log *log = kw_log_new("test", KW_LOG_ERROR, NULL);
    const struct ext_capping_conf conf = {
        .policy = {.soft_permille = 1000}, .stats = stats, .log = log};
    static const char *const texts[] = {
        "{\"metadata\":{\"name\":\"cheap\",\"annotations\":{\"kwatt.io/"
        "power-cap-watts\":\"105\"}}}",
        "{\"metadata\":{\"name\":\"between\",\"labels\":{\"kwatt.io/power-tier\":\"0\"}}}"};
    struct ext_held held[5] = {{0}};
    struct ext_capping *capping = NULL;
    struct ext_tier_order orders[2];
    struct kw_err err;
    int8_t tiers[5];
    size_t due = 0;

    assert_non_null(stats);
    assert_int_equal(ext_capping_new(&conf, &capping, &err), 0);
    for (size_t i = 0; i < KW_ARRAY_SIZE(texts); i++)
        ext_capping_event(capping, KW_KUBE_ADDED, texts[i], strlen(texts[i]), now - 100 * SECOND);
    assert_int_equal(ext_capping_settle(capping, snapshot, held, NULL, now), 0);
    assert_int_equal(ext_tiers_rank(snapshot, 2000, now, tiers), 0);
    assert_int_equal(tiers[1], 9);
    /* of the nodes that the API server tells of, the one without a label comes first */
    assert_int_equal(
        ext_capping_plan_tiers(capping, snapshot, tiers, &policy, 1, now, orders, &due), 1);
    assert_int_equal(due, 2);
    assert_string_equal(orders[0].node, "cheap");
    assert_int_equal(orders[0].tier, 9);
    assert_int_equal(
        ext_capping_plan_tiers(capping, snapshot, tiers, &policy, 2, now + 1, orders, &due), 1);
    assert_string_equal(orders[0].node, "between");
    assert_int_equal(
        ext_capping_plan_tiers(capping, snapshot, tiers, &policy, 2, now + 2, orders, &due), 0);
    ext_capping_free(&capping);
    ext_snapshot_free(&snapshot);
    kw_log_free(&log);
    free(stats);
}

/** Whatever is wanted when: no node twice within the time, no more than there is room for, the most
 * urgent first, and in the end each label is right. */
static void test_any_events(void **state)
{
    (void)state;
    enum { NODES = 40 };
    uint64_t seed = 11;

    for (int round = 0; round < 20; round++) {
        struct ext_tier_mark marks[NODES] = {{0}};
        int64_t wrote_s[NODES];
        int8_t wanted[NODES] = {0};
        for (size_t i = 0; i < NODES; i++) {
            ext_tier_seen(&marks[i], (int8_t)((int)(kwt_next(&seed) % 12) - 2), 0);
            wrote_s[i] = -1000;
        }
        for (int64_t s = 1; s <= 1000; s++) {
            int64_t now = s * SECOND;
            struct ext_tier_plan plan = {.room = 3};
            int chosen = KW_POWER_TIERS, left = 0;
            for (size_t i = 0; i < NODES; i++) {
                if (s < 600 && kwt_next(&seed) % 20 == 0)
                    wanted[i] = (int8_t)((int)(kwt_next(&seed) % 11) - 1);
                ext_tier_plan_offer(&plan, i, &marks[i], wanted[i], &policy, now);
            }
            ext_tier_plan_end(&plan, now);
            assert_true(plan.n <= 3 && plan.n <= plan.due);
            for (size_t w = 0; w < plan.n; w++) {
                const struct ext_tier_write *write = &plan.writes[w];
                assert_true(s - wrote_s[write->index] >= 60);
                assert_int_equal(write->tier, wanted[write->index]);
                wrote_s[write->index] = s;
                chosen = write->urgency < chosen ? write->urgency : chosen;
                ext_tier_seen(write->mark, write->tier, now);
            }
            for (size_t i = 0; i < NODES; i++) {
                int urgency = ext_tier_urgency(&marks[i], wanted[i], &policy, now);
                left = urgency > left ? urgency : left;
            }
            assert_true(plan.n < 3 ? left == 0 : left <= chosen);
        }
        for (size_t i = 0; i < NODES; i++)
            assert_int_equal(marks[i].tier, wanted[i]);
    }
}

static void test_typical(void **state)
{
    (void)state;
    struct ext_typical typical = {0};

    assert_int_equal(ext_typical_mcpu(&typical, 100), 100);
    ext_typical_note(&typical, 500);
    assert_int_equal(ext_typical_mcpu(&typical, 100), 500);
    ext_typical_note(&typical, 8000);
    ext_typical_note(&typical, 250);
    assert_int_equal(ext_typical_mcpu(&typical, 100), 500);
    for (int i = 0; i < EXT_TYPICAL_PODS; i++)
        ext_typical_note(&typical, UINT64_MAX); /* the others are forgotten */
    assert_int_equal(ext_typical_mcpu(&typical, 100), UINT32_MAX);
    for (int i = 0; i < EXT_TYPICAL_PODS; i++)
        ext_typical_note(&typical, 0);
    assert_int_equal(ext_typical_mcpu(&typical, 100), 1);
}

/** The terms that `kwatt scheduler-config --tiers` prints come to these. */
static void test_weights(void **state)
{
    (void)state;

    assert_int_equal(kw_tier_weight(0), 99);
    assert_int_equal(kw_tier_weight(9), 0);
    assert_int_equal(kw_tier_weight(NONE), 44);
    assert_int_equal(kw_tier_weight(OTHER), 44);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urgency),   cmocka_unit_test(test_flapping),
        cmocka_unit_test(test_seen),      cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_peers),     cmocka_unit_test(test_caps),
        cmocka_unit_test(test_as_scores), cmocka_unit_test(test_any_events),
        cmocka_unit_test(test_typical),   cmocka_unit_test(test_weights),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
