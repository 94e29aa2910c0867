/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes that sleep or may: what is stated, what was seen, and what comes of neither. */
#include <math.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/pool.h"
#include "extender/sleepers.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define LIMIT UINT64_C(30000000000)

/* 8 cores, 40 W idle, 10 W a core */
static struct kw_curve line(void)
{
    struct kw_curve curve = {.capacity_mcpu = 8000, .n = KW_CURVE_KNOTS};

    (void)snprintf(curve.machine, sizeof(curve.machine), "line");
    for (uint32_t k = 0; k < KW_CURVE_KNOTS; k++)
        curve.knots[k] = (struct kw_curve_knot){100 * k, 40000 + 8000 * k, 1000};
    return curve;
}

static struct ext_node node_of(const char *name, const struct kw_curve *curve)
{
    struct ext_node node = kwt_node(name, NULL, 0);

    node.has_curve = true;
    ext_pool_take(&node, curve);
    return node;
}

struct sleep_case {
    const char *name;
    struct kw_node told;
    bool seen_sleep, seen_wake; /* 5 W, 6 kJ */
    bool sleepable;
    uint32_t sleep_mw;
    bool asleep;
    double wake_uj; /* negative: unknown */
};

static void test_cases(void **state)
{
    (void)state;
    static const struct sleep_case cases[] = {
        {"nothing", {.sleepable = false}, false, false, false, 0, false, -1},
        {"nobody knows its watts", {.sleepable = true}, false, false, false, 0, false, -1},
        {"stated",
         {.sleepable = true,
          .has_sleep = true,
          .sleep_mw = 3000,
          .has_wake = true,
          .wake_mj = 9000},
         true,
         true,
         true,
         3000,
         false,
         9e6},
        {"seen", {.sleepable = true}, true, true, true, 5000, false, 6e9},
        {"seen, but it may not", {.sleepable = false}, true, true, false, 0, false, 6e9},
        {"stated as nothing",
         {.sleepable = true, .has_sleep = true},
         true,
         false,
         true,
         0,
         false,
         -1},
        {"asleep", {.sleepable = true, .asleep = true}, true, true, true, 5000, true, 6e9},
        {"asleep, of unknown watts", {.asleep = true}, false, true, false, 0, true, 6e9},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct ext_node_table *table = ext_node_table_new(1);
        struct kw_node told = cases[i].told;
        struct kw_curve curve = line();
        curve.has_sleep = cases[i].seen_sleep;
        curve.sleep_mw = 5000;
        curve.has_wake = cases[i].seen_wake;
        curve.wake_uj = UINT64_C(6000000000);
        const struct ext_node nodes[] = {node_of("a", &curve), kwt_node("bare", NULL, 0)};
        kw_cleanup(ext_snapshot_free) struct ext_snapshot *snapshot =
            ext_snapshot_new(nodes, 2, 1, LIMIT);

        (void)snprintf(told.name, sizeof(told.name), "a");
        assert_int_equal(ext_node_table_put(table, &told, 0), 0);
        assert_true(ext_sleepers_set(snapshot, table, false) >= 0);
        const struct ext_node *got = &snapshot->nodes[0];
        if (got->pricing.sleepable != cases[i].sleepable ||
            got->pricing.sleep_mw != cases[i].sleep_mw || got->pricing.asleep != cases[i].asleep)
            fail_msg("%s: sleepable %d at %u mW, asleep %d", cases[i].name, got->pricing.sleepable,
                     got->pricing.sleep_mw, got->pricing.asleep);
        assert_true(cases[i].wake_uj < 0 ? isinf(got->pricing.wake_uj)
                                         : got->pricing.wake_uj == cases[i].wake_uj);
        assert_true((got->hull.drain_mw_per_mcpu > 0) == cases[i].sleepable);
        assert_true((snapshot->places[0].wake_uj > 0) == cases[i].asleep);
        assert_true((snapshot->live[0].good_until_ns == EXT_ALWAYS_GOOD) == cases[i].asleep);
        assert_int_equal(snapshot->live[1].good_until_ns, EXT_NEVER_GOOD);
        assert_int_equal(ext_sleepers_set(snapshot, table, false), 0);
        assert_int_equal(ext_sleepers_set(snapshot, table, true), 0);
        /* the API server tells of it no more */
        ext_node_table_drop(table, "a");
        assert_true(ext_sleepers_set(snapshot, table, true) >= 0);
        assert_false(got->pricing.sleepable || got->pricing.asleep ||
                     got->hull.drain_mw_per_mcpu > 0);
        ext_node_table_free(&table);
    }
}

/* Of three of one kind, one may sleep: they learn together, and it is priced by its own. */
static void test_pooled(void **state)
{
    (void)state;
    const struct kw_curve curve = line();
    const struct ext_node nodes[] = {node_of("a", &curve), node_of("b", &curve),
                                     node_of("c", &curve)};
    struct ext_node_table *table = ext_node_table_new(1);
    kw_cleanup(ext_snapshot_free) struct ext_snapshot *snapshot =
        ext_snapshot_new(nodes, 3, 1, LIMIT);
    const struct kw_node told = {.name = "b", .sleepable = true, .has_sleep = true};

    assert_int_equal(ext_node_table_put(table, &told, 0), 0);
    assert_int_equal(ext_pool_settle(snapshot->nodes, 3), 0);
    assert_int_equal(ext_sleepers_set(snapshot, table, true), 1);
    assert_true(snapshot->nodes[0].pooled && snapshot->nodes[1].pooled);
    assert_true(snapshot->nodes[1].hull.mw_per_mcpu[0] > snapshot->nodes[0].hull.mw_per_mcpu[0]);
    assert_true(snapshot->places[1].mw_per_mcpu > snapshot->places[2].mw_per_mcpu);
    ext_node_table_free(&table);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_pooled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
