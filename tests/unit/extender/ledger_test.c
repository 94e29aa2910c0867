/* SPDX-License-Identifier: Apache-2.0 */
/* Who counts on which node, by how much and how long; and that nothing counts twice. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/ledger.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define SECOND INT64_C(1000000000)
#define LIMIT  (30 * (uint64_t)SECOND)

struct fixture {
    struct ext_ledger *ledger;
    double mcpu[2]; /* in flight on a and b, as settled last */
};

static int set_up(void **state)
{
    static struct fixture f;

    f = (struct fixture){0};
    *state = &f;
    return ext_ledger_new(5, &f.ledger);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    ext_ledger_free(&f->ledger);
    return 0;
}

static int bound(struct fixture *f, const char *uid, const char *node, uint64_t mcpu,
                 int64_t now_ns)
{
    struct ext_bound_pod pod = {.mcpu = mcpu};

    (void)snprintf(pod.uid, sizeof(pod.uid), "%s", uid);
    (void)snprintf(pod.node, sizeof(pod.node), "%s", node);
    return ext_ledger_bound(f->ledger, &pod, now_ns);
}

/** Nodes whose samples came at `fresh_ns`, `late_ns` late, and speak of ten seconds. */
static struct ext_snapshot *seen_at(int64_t fresh_ns, int64_t late_ns)
{
    struct ext_node nodes[] = {kwt_node("a", NULL, 0), kwt_node("b", NULL, 0)};

    for (unsigned i = 0; i < 2; i++) {
        nodes[i].fresh_ns = fresh_ns;
        nodes[i].covered_ns = fresh_ns - late_ns;
        nodes[i].interval_ns = 10 * (uint64_t)SECOND;
    }
    struct ext_snapshot *snapshot = ext_snapshot_new(nodes, 2, 1, LIMIT);
    assert_non_null(snapshot);
    return snapshot;
}

static bool settle_late(struct fixture *f, int64_t fresh_ns, int64_t late_ns, int64_t now_ns)
{
    kw_cleanup(ext_snapshot_free) struct ext_snapshot *snapshot = seen_at(fresh_ns, late_ns);

    return ext_ledger_settle(f->ledger, snapshot, now_ns, f->mcpu, NULL);
}

static bool settle(struct fixture *f, int64_t fresh_ns, int64_t now_ns)
{
    return settle_late(f, fresh_ns, 0, now_ns);
}

static void test_pods_add_up(void **state)
{
    struct fixture *f = *state;

    assert_false(settle(f, 0, 0));
    assert_int_equal(bound(f, "1", "a", 1000, 0), 1);
    assert_int_equal(bound(f, "2", "a", 500, 0), 1);
    assert_int_equal(bound(f, "3", "b", 250, 0), 1);
    assert_int_equal(bound(f, "4", "elsewhere", 250, 0), 1);
    assert_true(settle(f, 0, 0));
    assert_true(f->mcpu[0] == 1500 && f->mcpu[1] == 250);
    assert_int_equal(ext_ledger_count(f->ledger), 4);
}

/** However often, and in whatever order, the same is told. */
static void test_told_again(void **state)
{
    struct fixture *f = *state;

    for (unsigned i = 0; i < 3; i++)
        (void)bound(f, "1", "a", 1000, i * SECOND);
    assert_int_equal(bound(f, "1", "a", 1000, 3 * SECOND), 0);
    (void)settle(f, 0, 4 * SECOND);
    assert_true(f->mcpu[0] == 1000);
    for (unsigned i = 0; i < 2; i++)
        ext_ledger_left(f->ledger, "1", (int64_t)(10 + i * 5) * SECOND); /* the first one counts */
    (void)settle(f, 15 * SECOND, 15 * SECOND);
    assert_true(f->mcpu[0] == 500);
    for (unsigned i = 0; i < 2; i++)
        ext_ledger_gone(f->ledger, "1");
    assert_false(settle(f, 15 * SECOND, 15 * SECOND));
    assert_int_equal(ext_ledger_count(f->ledger), 0);
    ext_ledger_left(f->ledger, "never seen", 0);
    ext_ledger_gone(f->ledger, "never seen");
}

/** What samples show of a pod is told once, whatever is settled meanwhile; and not of one that is
 * gone, or that nobody knows the samples of. */
static void test_what_samples_show(void **state)
{
    struct fixture *f = *state;
    static const struct {
        int64_t covered_s;
        double seen, square; /* of a pod of 1000 mcpu on a that left at 10 s */
    } steps[] = {{5, 0, 0},      {12, 200, 2e5}, {12, 0, 0}, {11, 0, 0},
                 {15, 300, 3e5}, {40, 500, 5e5}, {50, 0, 0}};
    struct ext_held held[2];

    (void)bound(f, "1", "a", 1000, 0);
    (void)bound(f, "waits", "a", 1000, 0);
    (void)bound(f, "gone", "a", 1000, 0);
    (void)bound(f, "elsewhere", "z", 1000, 0);
    ext_ledger_left(f->ledger, "1", 10 * SECOND);
    ext_ledger_left(f->ledger, "gone", 45 * SECOND);
    ext_ledger_left(f->ledger, "elsewhere", 10 * SECOND);
    ext_ledger_gone(f->ledger, "gone");
    for (size_t i = 0; i < sizeof(steps) / sizeof(*steps); i++) {
        int64_t now_ns = steps[i].covered_s * SECOND;
        kw_cleanup(ext_snapshot_free) struct ext_snapshot *snapshot = seen_at(now_ns, 0);
        (void)ext_ledger_settle(f->ledger, snapshot, now_ns, f->mcpu, held);
        assert_true(fabs(held[0].seen_mcpu - steps[i].seen) < 1e-6);
        assert_true(fabs(held[0].seen_square_mcpu2 - steps[i].square) < 1e-3);
        assert_true(held[1].seen_mcpu == 0);
        assert_true(held[0].square_mcpu2 == held[0].mcpu * 1000);
    }
}

static void test_a_pod_is_taken_over_by_the_samples(void **state)
{
    struct fixture *f = *state;
    static const struct {
        int64_t left_s, fresh_s, now_s; /* left 0: it waits */
        double want;
    } cases[] = {
        {0, 0, 0, 1000},    {0, 290, 299, 1000}, /* pulling its image */
        {0, 300, 301, 0},                        /* and never to have it */
        {20, 15, 20, 1000},                      /* the sample is of before */
        {20, 20, 20, 1000}, {20, 24, 25, 600},   {20, 25, 25, 500}, {20, 30, 30, 0},
        {20, 99, 99, 0},    {20, 20, 79, 1000},  {20, 20, 81, 0}, /* samples come no more */
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        (void)bound(f, "1", "a", 1000, 0);
        if (cases[i].left_s > 0)
            ext_ledger_left(f->ledger, "1", cases[i].left_s * SECOND);
        (void)settle(f, cases[i].fresh_s * SECOND, cases[i].now_s * SECOND);
        if (fabs(f->mcpu[0] - cases[i].want) > 1e-6)
            fail_msg("case %zu: %f, not %f", i, f->mcpu[0], cases[i].want);
        /* what counts no more is forgotten, but for a pod that still waits: it would come back */
        assert_int_equal(ext_ledger_count(f->ledger),
                         cases[i].want > 0 || cases[i].left_s == 0 ? 1 : 0);
        ext_ledger_gone(f->ledger, "1");
    }
}

/* Samples that come late do not show what started meanwhile, as long as they come. */
static void test_late_samples(void **state)
{
    struct fixture *f = *state;
    static const struct {
        int64_t fresh_s, late_s, now_s; /* it starts at 20 */
        double want;
    } cases[] = {
        {79, 60, 80, 1000},   {85, 60, 86, 500},  {90, 60, 91, 0},  {99, 200, 99, 1000},
        {225, 200, 225, 500}, {230, 200, 230, 0}, {79, 60, 140, 0}, /* and then no more */
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        (void)bound(f, "1", "a", 1000, 0);
        ext_ledger_left(f->ledger, "1", 20 * SECOND);
        (void)settle_late(f, cases[i].fresh_s * SECOND, cases[i].late_s * SECOND,
                          cases[i].now_s * SECOND);
        if (fabs(f->mcpu[0] - cases[i].want) > 1e-6)
            fail_msg("case %zu: %f, not %f", i, f->mcpu[0], cases[i].want);
        ext_ledger_gone(f->ledger, "1");
    }
}

static void test_lists(void **state)
{
    struct fixture *f = *state;

    (void)bound(f, "1", "a", 1000, 0);
    (void)bound(f, "2", "b", 1000, 0);
    ext_ledger_list_begin(f->ledger);
    assert_int_equal(bound(f, "2", "b", 1000, SECOND), 0);
    assert_int_equal(bound(f, "3", "b", 100, SECOND), 1);
    ext_ledger_list_end(f->ledger, 10 * SECOND);
    (void)settle(f, 15 * SECOND, 15 * SECOND);
    assert_true(f->mcpu[0] == 500 && f->mcpu[1] == 1100); /* 1 has started or is gone */
    /* it was not so: the next list names it again */
    ext_ledger_list_begin(f->ledger);
    (void)bound(f, "1", "a", 1000, 16 * SECOND);
    (void)bound(f, "2", "b", 1000, 16 * SECOND);
    (void)bound(f, "3", "b", 100, 16 * SECOND);
    ext_ledger_list_end(f->ledger, 16 * SECOND);
    (void)settle(f, 30 * SECOND, 30 * SECOND);
    assert_true(f->mcpu[0] == 1000 && f->mcpu[1] == 1100);
}

static void test_many(void **state)
{
    struct fixture *f = *state;
    char uid[40];

    for (unsigned round = 0; round < 3; round++) {
        for (unsigned i = 0; i < EXT_FLIGHTS_MAX; i++) {
            (void)snprintf(uid, sizeof(uid), "%08x-0000-4000-8000-000000000000", i);
            assert_int_equal(bound(f, uid, i % 2 == 0 ? "a" : "b", 1, 0), 1);
        }
        assert_int_equal(bound(f, "one more", "a", 1, 0), -ENOSPC);
        (void)settle(f, 0, 0);
        assert_true(f->mcpu[0] == EXT_FLIGHTS_MAX / 2.0 && f->mcpu[1] == EXT_FLIGHTS_MAX / 2.0);
        for (unsigned i = 0; i < EXT_FLIGHTS_MAX; i++) {
            unsigned which = round == 0 ? i : EXT_FLIGHTS_MAX - 1 - i;
            (void)snprintf(uid, sizeof(uid), "%08x-0000-4000-8000-000000000000", which);
            ext_ledger_gone(f->ledger, uid);
        }
        assert_int_equal(ext_ledger_count(f->ledger), 0);
        assert_false(settle(f, 0, 0));
    }
}

/** Any sequence of events leaves what a plain list of pods leaves. */
static void test_any_events(void **state)
{
    struct fixture *f = *state;
    enum { PODS = 40 };
    bool waits[PODS] = {false};
    uint64_t seed = 3;

    for (unsigned step = 0; step < 20000; step++) {
        unsigned i = (unsigned)(kwt_next(&seed) % PODS);
        char uid[8];
        double want = 0;
        (void)snprintf(uid, sizeof(uid), "%u", i);
        switch (kwt_next(&seed) % 4) {
        case 0:
        case 1:
            assert_int_equal(bound(f, uid, "a", 1 + i, 0), !waits[i]);
            waits[i] = true;
            break;
        case 2:
            ext_ledger_gone(f->ledger, uid);
            waits[i] = false;
            break;
        default: /* it left, and a sample has covered it */
            ext_ledger_left(f->ledger, uid, 0);
            (void)settle(f, 20 * SECOND, 20 * SECOND);
            waits[i] = false;
        }
        for (unsigned k = 0; k < PODS; k++)
            want += waits[k] ? 1 + k : 0;
        (void)settle(f, 20 * SECOND, 20 * SECOND);
        assert_true(f->mcpu[0] == want);
    }
}

/** Of pods that left before the first list nobody tells: a node is unseen until a sample covers the
 * window after that, is stale, or has been silent for three windows. */
static void test_what_ran_before(void **state)
{
    struct fixture *f = *state;
    static const struct {
        int64_t fresh_s, late_s, now_s; /* of both nodes; the list ended at 100 s */
        bool unseen;
    } cases[] = {
        {95, 0, 100, true},   {105, 0, 105, true},  {109, 0, 109, true},
        {110, 0, 110, false}, {112, 5, 112, true},  {115, 5, 115, false},
        {101, 0, 129, true},  {101, 0, 130, false}, {60, 0, 100, false}, /* stale already */
    };
    struct ext_held held[2];

    ext_ledger_list_begin(f->ledger);
    ext_ledger_list_end(f->ledger, 100 * SECOND);
    ext_ledger_list_begin(f->ledger);
    ext_ledger_list_end(f->ledger, 104 * SECOND); /* what ran before that is known */
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        kw_cleanup(ext_snapshot_free) struct ext_snapshot *snapshot =
            seen_at(cases[i].fresh_s * SECOND, cases[i].late_s * SECOND);
        (void)ext_ledger_settle(f->ledger, snapshot, cases[i].now_s * SECOND, f->mcpu, held);
        if (held[0].unseen != cases[i].unseen || held[1].unseen != cases[i].unseen)
            fail_msg("case %zu", i);
    }
}

/** Without a list it is the first time that is asked. */
static void test_what_ran_before_without_lists(void **state)
{
    struct fixture *f = *state;
    struct ext_held held[2];

    for (int64_t now_s = 100; now_s < 120; now_s += 5) {
        kw_cleanup(ext_snapshot_free) struct ext_snapshot *snapshot = seen_at(now_s * SECOND, 0);
        (void)ext_ledger_settle(f->ledger, snapshot, now_s * SECOND, f->mcpu, held);
        assert_int_equal(held[0].unseen, now_s < 110);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_pods_add_up, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_told_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_samples_show, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_pod_is_taken_over_by_the_samples, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_late_samples, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lists, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_any_events, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_ran_before, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_ran_before_without_lists, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
