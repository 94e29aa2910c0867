/* SPDX-License-Identifier: Apache-2.0 */
/* Who shares a curve with whom, and what comes of it. Curves here have knots at 0, 50 and 100 %. */
#include <string.h>

#include "common/cleanup.h"
#include "extender/pool.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define MAX 5

struct known {
    const char *machine;
    uint32_t mw[3], confidence[3];
    bool shares;
};

static struct ext_node node_of(const struct known *known)
{
    struct kw_curve curve = {.capacity_mcpu = 8000, .n = 3};
    struct ext_node node = {.has_curve = true};

    (void)snprintf(curve.machine, sizeof(curve.machine), "%s", known->machine);
    for (uint32_t k = 0; k < 3; k++)
        curve.knots[k] = (struct kw_curve_knot){500 * k, known->mw[k], known->confidence[k]};
    assert_null(kw_curve_check(&curve));
    ext_pool_take(&node, &curve);
    return node;
}

static bool same_hull(const struct ext_hull *a, const struct ext_hull *b)
{
    return a->n == b->n && memcmp(a->end_mcpu, b->end_mcpu, a->n * sizeof(*a->end_mcpu)) == 0 &&
           memcmp(a->mw_per_mcpu, b->mw_per_mcpu, a->n * sizeof(*a->mw_per_mcpu)) == 0;
}

struct pool_case {
    const char *name;
    struct known nodes[MAX]; /* up to one without a machine's name of NULL */
    uint32_t want_mw[3];     /* what those that share have */
};

#define SURE             \
    {                    \
        1000, 1000, 1000 \
    }
#define UNSURE  \
    {           \
        0, 0, 0 \
    }

static const struct pool_case cases[] = {
    {"alone", {{"a", {10, 20, 30}, SURE, false}}, {0}},
    {"twins",
     {{"a", {100, 200, 300}, SURE, true}, {"a", {110, 210, 330}, SURE, true}},
     {105, 205, 315}},
    {"another model",
     {{"a", {100, 200, 300}, SURE, false}, {"b", {110, 210, 330}, SURE, false}},
     {0}},
    {"no model named",
     {{"", {100, 200, 300}, SURE, false}, {"", {100, 200, 300}, SURE, false}},
     {0}},
    {"who has seen a load knows it",
     {{"a", {100, 200, 900}, {1000, 500, 0}, true}, {"a", {110, 202, 300}, {200, 600, 900}, true}},
     {100, 201, 300}},
    {"a new one has seen nothing",
     {{"a", {100, 200, 300}, SURE, true}, {"a", {500, 500, 500}, UNSURE, true}},
     {100, 200, 300}},
    {"nobody has seen anything",
     {{"a", {100, 200, 300}, UNSURE, true}, {"a", {110, 210, 310}, UNSURE, true}},
     {105, 205, 305}},
    {"one is another machine",
     {{"a", {100, 200, 300}, SURE, true},
      {"a", {300, 500, 700}, SURE, false},
      {"a", {104, 204, 304}, SURE, true}},
     {102, 202, 302}},
    {"idle watts hide nothing",
     {{"a", {1000, 1010, 1020}, SURE, false}, {"a", {1000, 1040, 1080}, SURE, false}},
     {0}},
    {"two that do not agree",
     {{"a", {100, 200, 300}, SURE, false}, {"a", {300, 500, 700}, SURE, false}},
     {0}},
    {"never falls",
     {{"a", {100, 290, 300}, {1000, 1000, 0}, true}, {"a", {100, 280, 280}, {0, 0, 1000}, true}},
     {100, 290, 290}},
};

static void check_case(const struct pool_case *one, bool backwards)
{
    struct ext_node nodes[MAX], alone[MAX];
    size_t n = 0;

    while (n < MAX && one->nodes[n].machine != NULL)
        n++;
    for (size_t i = 0; i < n; i++)
        nodes[i] = alone[i] = node_of(&one->nodes[backwards ? n - 1 - i : i]);
    assert_int_equal(ext_pool_settle(nodes, n), 0);
    struct known want = {.machine = "want"};
    memcpy(want.mw, one->want_mw, sizeof(want.mw));
    struct ext_node shared = node_of(&want);
    for (size_t i = 0; i < n; i++) {
        bool shares = one->nodes[backwards ? n - 1 - i : i].shares;
        const struct ext_hull *hull = shares ? &shared.hull : &alone[i].hull;
        if (nodes[i].pooled != shares || !same_hull(&nodes[i].hull, hull))
            print_error("%s: node %zu\n", one->name, i);
        assert_int_equal(nodes[i].pooled, shares);
        assert_true(same_hull(&nodes[i].hull, hull));
    }
}

static void test_cases(void **state)
{
    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        check_case(&cases[i], false);
        check_case(&cases[i], true);
    }
}

/* What is shared is settled anew: the twin is gone, its curve is another, it has none. */
static void test_no_longer_shared(void **state)
{
    (void)state;
    const struct known a = {"a", {100, 200, 300}, SURE, true};
    const struct known twin = {"a", {110, 210, 330}, SURE, true};
    const struct known other = {"a", {300, 500, 700}, SURE, true};
    struct ext_node alone = node_of(&a);
    struct ext_node nodes[2] = {node_of(&a), node_of(&twin)};

    assert_int_equal(ext_pool_settle(nodes, 2), 0);
    assert_false(same_hull(&nodes[0].hull, &alone.hull));
    assert_int_equal(ext_pool_settle(nodes, 1), 0);
    assert_true(same_hull(&nodes[0].hull, &alone.hull));
    assert_int_equal(ext_pool_settle(nodes, 2), 0);
    assert_true(nodes[0].pooled);
    nodes[1] = node_of(&other);
    assert_int_equal(ext_pool_settle(nodes, 2), 0);
    assert_true(same_hull(&nodes[0].hull, &alone.hull));
    nodes[1] = node_of(&twin);
    nodes[1].has_curve = false;
    assert_int_equal(ext_pool_settle(nodes, 2), 0);
    assert_false(nodes[0].pooled);
}

/* A node that shares a hull keeps it when it has learnt something, until all are settled; one that
 * is another machine does not. */
static void test_kept_until_settled(void **state)
{
    (void)state;
    const struct known a = {"a", {100, 200, 300}, SURE, true};
    struct ext_node nodes[2] = {node_of(&a), node_of(&a)};
    struct kw_curve learnt = {.capacity_mcpu = 8000, .n = 3, .machine = "a"};
    const uint32_t mw[3] = {100, 210, 330};

    for (uint32_t k = 0; k < 3; k++)
        learnt.knots[k] = (struct kw_curve_knot){500 * k, mw[k], 1000};
    assert_int_equal(ext_pool_settle(nodes, 2), 0);
    ext_pool_take(&nodes[1], &learnt);
    assert_true(nodes[1].pooled && same_hull(&nodes[0].hull, &nodes[1].hull));
    assert_int_equal(ext_pool_settle(nodes, 2), 0);
    assert_true(nodes[1].pooled && same_hull(&nodes[0].hull, &nodes[1].hull));
    (void)snprintf(learnt.machine, sizeof(learnt.machine), "b");
    ext_pool_take(&nodes[1], &learnt);
    assert_false(nodes[1].pooled || same_hull(&nodes[0].hull, &nodes[1].hull));
}

/* One curve, but each is priced by what it is. */
static void test_pricing_stays_its_own(void **state)
{
    (void)state;
    const struct known a = {"a", {100, 200, 300}, SURE, true};
    struct ext_node nodes[3] = {node_of(&a), node_of(&a), node_of(&a)};

    nodes[1].pricing.work_per_mcpu = 2;
    assert_int_equal(ext_pool_settle(nodes, 3), 0);
    assert_true(nodes[1].hull.mw_per_mcpu[0] == nodes[0].hull.mw_per_mcpu[0] / 2);
    assert_true(same_hull(&nodes[0].hull, &nodes[2].hull));
}

/* How full those are that share a curve: sleeping ones and loners do not count. */
static void test_level(void **state)
{
    (void)state;
    const struct known a = {"a", {100, 200, 350}, SURE, true},
                       b = {"b", {100, 200, 350}, SURE, true};
    struct ext_node nodes[] = {node_of(&a), node_of(&b), node_of(&a), node_of(&a), node_of(&a)};

    assert_int_equal(ext_pool_settle(nodes, 5), 0);
    nodes[0].used_mcpu = 2000; /* of 8000 */
    nodes[1].used_mcpu = 8000;
    nodes[2].used_mcpu = 3000;
    nodes[2].in_flight_mcpu = 1000;
    nodes[3].used_mcpu = 9000; /* more than there is */
    nodes[4].pricing.asleep = true;
    assert_true(ext_pool_level(nodes, 5));
    const uint8_t mean = EXT_PEERS_FILL_MIN + EXT_PEERS_FILL_STEPS * 7 / 12;
    assert_int_equal(nodes[0].peers_fill, mean);
    assert_int_equal(nodes[2].peers_fill, mean);
    assert_int_equal(nodes[3].peers_fill, mean);
    assert_int_equal(nodes[1].peers_fill, 0);
    assert_int_equal(nodes[4].peers_fill, 0);
    assert_false(ext_pool_level(nodes, 5));
    /* two of the three sleep: the last has no peers */
    nodes[0].pricing.asleep = nodes[2].pricing.asleep = true;
    assert_true(ext_pool_level(nodes, 5));
    assert_int_equal(nodes[3].peers_fill, 0);
}

/* Whether there is nothing but one kind of machine: sleeping ones and unknown ones do not count. */
static void test_alike(void **state)
{
    (void)state;
    const struct known a = {"a", {100, 200, 350}, SURE, true},
                       b = {"b", {100, 200, 350}, SURE, true},
                       apart = {"a", {100, 400, 900}, SURE, true};
    struct ext_node nodes[] = {node_of(&a), node_of(&a), node_of(&a), node_of(&b)};

    nodes[3].has_curve = false;
    assert_int_equal(ext_pool_settle(nodes, 4), 0);
    assert_true(ext_pool_level(nodes, 4));
    assert_true(nodes[0].alike && nodes[1].alike && nodes[2].alike);
    assert_false(ext_pool_level(nodes, 4));
    nodes[3] = node_of(&b);
    assert_int_equal(ext_pool_settle(nodes, 4), 0);
    assert_true(ext_pool_level(nodes, 4));
    assert_false(nodes[0].alike || nodes[3].alike);
    nodes[3].pricing.asleep = true;
    assert_true(ext_pool_level(nodes, 4));
    assert_true(nodes[0].alike);
    nodes[3] = node_of(&apart);
    assert_int_equal(ext_pool_settle(nodes, 4), 0);
    (void)ext_pool_level(nodes, 4);
    assert_false(nodes[0].alike);
}

/* Equal machines where energy has two prices: no peers, and not all alike. */
static void test_level_by_price(void **state)
{
    (void)state;
    const struct known a = {"a", {100, 200, 350}, SURE, true};
    struct ext_node nodes[] = {node_of(&a), node_of(&a), node_of(&a), node_of(&a)};

    nodes[0].used_mcpu = nodes[1].used_mcpu = 8000;
    nodes[2].pricing.energy_price = nodes[3].pricing.energy_price = 1; /* as those that have none */
    assert_int_equal(ext_pool_settle(nodes, 4), 0);
    assert_true(ext_pool_level(nodes, 4));
    assert_true(nodes[0].alike && nodes[3].alike);
    assert_int_equal(nodes[0].peers_fill, EXT_PEERS_FILL_MIN + EXT_PEERS_FILL_STEPS / 2);
    nodes[2].pricing.energy_price = nodes[3].pricing.energy_price = 1.5F;
    assert_true(ext_pool_level(nodes, 4));
    assert_false(nodes[0].alike || nodes[3].alike);
    assert_int_equal(nodes[1].peers_fill, EXT_PEERS_FILL_MIN + EXT_PEERS_FILL_STEPS);
    assert_int_equal(nodes[2].peers_fill, EXT_PEERS_FILL_MIN);
    assert_true(same_hull(&nodes[0].hull, &nodes[3].hull));
}

/* How far the work that is there would fill a node of 8 cores, whose knots are at 0, 4 and 8. */
static void test_reach(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        double used_mcpu[2], in_flight_mcpu, work_per_mcpu;
        bool asleep; /* the first */
        uint8_t want;
    } rows[] = {
        {"none", {0, 0}, 0, 0, false, 1},
        {"half of one, with what may come", {1600, 1600}, 0, 0, false, 1},
        {"more", {1601, 1601}, 0, 0, false, 0},
        {"more, in flight", {1600, 1600}, 1, 0, false, 0},
        {"less on machines that do more", {3200, 3200}, 0, 2, false, 0},
        {"what sleeps does nothing", {8000, 1600}, 0, 0, true, 1},
        {"no more than it can", {1e9, 0}, 0, 0, false, 0},
    };
    const struct known a = {"a", {100, 200, 350}, SURE, true}, b = {"b", {100, 250, 300}, SURE, 1};

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        struct ext_node nodes[] = {node_of(&a), node_of(&a), node_of(&b), {.has_curve = false}};
        struct ext_node turned[4];
        for (size_t k = 0; k < 3; k++)
            nodes[k].pricing.work_per_mcpu = rows[i].work_per_mcpu;
        nodes[0].used_mcpu = rows[i].used_mcpu[0];
        nodes[1].used_mcpu = rows[i].used_mcpu[1];
        nodes[2].in_flight_mcpu = rows[i].in_flight_mcpu;
        nodes[0].pricing.asleep = rows[i].asleep;
        for (size_t k = 0; k < 4; k++)
            turned[k] = nodes[3 - k];
        assert_int_equal(ext_pool_settle(nodes, 4), 0);
        assert_int_equal(ext_pool_reach(nodes, 4), rows[i].want > 0);
        assert_int_equal(ext_pool_settle(turned, 4), 0);
        assert_int_equal(ext_pool_reach(turned, 4), rows[i].want > 0);
        for (size_t k = 0; k < 3; k++) {
            if (nodes[k].pricing.reach != rows[i].want)
                fail_msg("%s: %u", rows[i].name, nodes[k].pricing.reach);
            assert_true(same_hull(&nodes[k].hull, &turned[3 - k].hull));
            assert_true(nodes[k].pooled == (k < 2));
        }
        assert_true(same_hull(&nodes[0].hull, &nodes[1].hull));
        assert_int_equal(ext_pool_reach(nodes, 4), 0); /* nothing new */
        nodes[1].used_mcpu = nodes[1].pricing.work_per_mcpu = 8000;
        (void)ext_pool_reach(nodes, 4);
        assert_int_equal(nodes[0].pricing.reach, 0);
    }
}

/* More kinds of machines than are told apart: no more than no mean. */
static void test_level_of_many(void **state)
{
    (void)state;
    enum { N = 1400 };
    static struct ext_node nodes[N];

    for (size_t i = 0; i < N; i++) {
        char name[16];
        (void)snprintf(name, sizeof(name), "%zu", i / 2);
        const struct known known = {name, {100, 200, 350}, SURE, true};
        nodes[i] = node_of(&known);
        nodes[i].used_mcpu = 4000;
    }
    assert_int_equal(ext_pool_settle(nodes, N), 0);
    assert_true(ext_pool_level(nodes, N));
    size_t told = 0;
    for (size_t i = 0; i < N; i++) {
        assert_true(nodes[i].peers_fill == 0 ||
                    nodes[i].peers_fill == EXT_PEERS_FILL_MIN + EXT_PEERS_FILL_STEPS / 2);
        told += nodes[i].peers_fill > 0;
    }
    assert_int_equal(told, 1024);
}

/* Any nodes, in any order: the same hulls, and equal ones within what is shared. */
static void test_any_nodes(void **state)
{
    (void)state;
    enum { N = 40 };
    uint64_t seed = 3;

    for (unsigned round = 0; round < 300; round++) {
        static struct ext_node nodes[N], turned[N];
        size_t n = 1 + kwt_next(&seed) % N;
        struct kw_curve curve = kwt_random_curve(&seed);
        for (size_t i = 0; i < n; i++) {
            if (kwt_next(&seed) % 8 == 0)
                curve = kwt_random_curve(&seed);
            (void)snprintf(curve.machine, sizeof(curve.machine), "%u",
                           (unsigned)(kwt_next(&seed) % 2));
            nodes[i] = (struct ext_node){.has_curve = true};
            ext_pool_take(&nodes[i], &curve);
        }
        size_t by = kwt_next(&seed) % n;
        for (size_t i = 0; i < n; i++)
            turned[i] = nodes[(i + by) % n];
        assert_int_equal(ext_pool_settle(nodes, n), 0);
        assert_int_equal(ext_pool_settle(turned, n), 0);
        for (size_t i = 0; i < n; i++)
            assert_true(same_hull(&turned[i].hull, &nodes[(i + by) % n].hull));
        for (size_t i = 1; i < n; i++) {
            if (nodes[i].pooled && nodes[0].pooled && nodes[i].machine == nodes[0].machine)
                assert_true(same_hull(&nodes[i].hull, &nodes[0].hull));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cases),
        cmocka_unit_test(test_no_longer_shared),
        cmocka_unit_test(test_kept_until_settled),
        cmocka_unit_test(test_pricing_stays_its_own),
        cmocka_unit_test(test_alike),
        cmocka_unit_test(test_level_by_price),
        cmocka_unit_test(test_reach),
        cmocka_unit_test(test_level),
        cmocka_unit_test(test_level_of_many),
        cmocka_unit_test(test_any_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
