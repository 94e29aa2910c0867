/* SPDX-License-Identifier: Apache-2.0 */
/* From samples and pods to what these count as: which samples are learnt from, what is young, and
 * that two that see the same know the same. */
#include <math.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/uptake.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define SECOND INT64_C(1000000000)
#define SIGMAS 2.5
#define NODES  3

struct fixture {
    struct ext_uptake *uptake;
    struct ext_snapshot *last;
    struct kw_curve curve;
    double used[NODES], seen[NODES]; /* of the nodes a, b, c: load; pods that it shows now */
    struct ext_held held[NODES];     /* as settled last, in the order of the snapshot */
    struct ext_use use;
    int64_t now_ns;
    uint64_t random;
};

static int set_up(void **state)
{
    static struct fixture f;

    f = (struct fixture){
        .now_ns = 1000 * SECOND, .random = 20261201, .curve = kwt_server_curve(96000)};
    f.uptake = ext_uptake_new();
    *state = &f;
    return f.uptake == NULL ? -1 : 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    ext_uptake_free(&f->uptake);
    ext_uptake_free(&f->uptake);
    ext_snapshot_free(&f->last);
    return 0;
}

/** The nodes `names` ("ac": a and c) have new samples after some time. */
static void settle(struct fixture *f, const char *names, int64_t seconds)
{
    static const char *const all[NODES] = {"a", "b", "c"};
    struct ext_node nodes[NODES];
    size_t n = strlen(names);

    f->now_ns += seconds * SECOND;
    for (size_t i = 0; i < n; i++) {
        size_t at = (size_t)(names[i] - 'a');
        nodes[i] = kwt_node(all[at], f->curve.capacity_mcpu > 0 ? &f->curve : NULL, f->used[at]);
        nodes[i].covered_ns = f->now_ns;
        f->held[i] = (struct ext_held){.mcpu = 1000,
                                       .square_mcpu2 = 1e6,
                                       .variance_mcpu2 = 10,
                                       .mw = 77,
                                       .seen_mcpu = f->seen[at],
                                       .seen_square_mcpu2 = f->seen[at] * 1000};
    }
    struct ext_snapshot *fresh = ext_snapshot_new(nodes, n, 3, 30 * (uint64_t)SECOND);
    assert_non_null(fresh);
    assert_int_equal(ext_uptake_settle(f->uptake, fresh, f->last, SIGMAS, f->held, &f->use), 0);
    ext_snapshot_free(&f->last);
    f->last = fresh;
    memset(f->seen, 0, sizeof(f->seen));
}

/** Pods that use `part` of the 1000 mcpu that is expected of each come to all nodes, and end. */
static void live(struct fixture *f, double part, unsigned minutes)
{
    for (unsigned step = 0; step < 6 * minutes; step++) {
        for (unsigned i = 0; i < NODES; i++) {
            f->seen[i] = (kwt_next(&f->random) >> 32) % 9 == 0 ? 1000 : 0;
            f->used[i] += part * f->seen[i] - f->used[i] / 150;
        }
        settle(f, "abc", 10);
    }
}

static void test_what_pods_count_as(void **state)
{
    struct fixture *f = *state;
    static const double parts[] = {1, 2, 3};

    settle(f, "abc", 10);
    assert_true(f->use.flight > 2 && f->use.flight < 2.4);
    for (size_t i = 0; i < sizeof(parts) / sizeof(*parts); i++) {
        (void)tear_down(state);
        (void)set_up(state);
        live(f, parts[i], 120);
        if (f->use.flight < parts[i] * 0.95 || f->use.flight > parts[i] * 1.6)
            fail_msg("%.3f for %.0f", f->use.flight, parts[i]);
        /* in flight by that; what says its watts as it says */
        assert_true(f->held[0].mcpu >= 1000 * f->use.flight);
        assert_true(f->held[0].mw == 77);
        assert_true(f->held[0].variance_mcpu2 == fmax(10, 1e6 * f->use.spread * f->use.spread));
    }
}

/** The same samples, from another start of the program on: the same within a few hundredths. */
static void test_two_replicas(void **state)
{
    struct fixture *f = *state;
    struct ext_use use;

    live(f, 2, 240);
    use = f->use;
    ext_uptake_free(&f->uptake);
    f->uptake = ext_uptake_new();
    live(f, 2, 20);
    assert_true(f->use.flight > 1.8 && f->use.flight < 3);
    live(f, 2, 220);
    assert_true(fabs(f->use.flight - use.flight) < 0.1);
}

/** Pods that samples show are young for a while, whatever becomes of the set of nodes. */
static void test_young_pods(void **state)
{
    struct fixture *f = *state;

    settle(f, "abc", 10);
    f->seen[2] = 20000;
    f->used[2] = 20000;
    settle(f, "abc", 10);
    double flight = 1000 * f->use.flight;
    double young = f->held[2].mcpu - flight;
    assert_true(fabs(f->held[0].mcpu - flight) < 1e-6);
    assert_true(fabs(young - 20000 * f->use.fresh) < 1);
    /* a is gone, b comes back: c is found again */
    settle(f, "c", 10);
    assert_true(f->held[0].mcpu - 1000 * f->use.flight > 0.7 * young);
    settle(f, "bc", 10);
    assert_true(f->held[0].mcpu - 1000 * f->use.flight < 1e-6);
    assert_true(f->held[1].mcpu - 1000 * f->use.flight > 0.6 * young);
    /* without news of a node nothing changes, and an hour later nothing is young */
    double same = f->held[1].mcpu;
    f->now_ns -= 10 * SECOND;
    settle(f, "bc", 10);
    assert_true(f->held[1].mcpu == same);
    settle(f, "bc", 3600);
    assert_true(f->held[1].mcpu - 1000 * f->use.flight < 1);
    /* as good as the first */
    ext_snapshot_free(&f->last);
    settle(f, "abc", 10);
    assert_true(f->held[2].mcpu - 1000 * f->use.flight < 1e-6);
}

/** What says nothing is not learnt from. */
static void test_what_is_passed_over(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *what;
        double before, after;
        int64_t seconds;
        bool curve;
        bool learns;
    } cases[] = {
        {"a minute", 10000, 30000, 60, true, true},
        {"samples that are far apart", 10000, 30000, 600, true, false},
        {"a node that is full", 10000, 95000, 60, true, false},
        {"one that was full", 95000, 10000, 60, true, false},
        {"one without a curve", 10000, 30000, 60, false, false},
        {"a clock that goes back", 10000, 30000, -60, true, false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        (void)tear_down(state);
        (void)set_up(state);
        f->used[0] = cases[i].before;
        settle(f, "a", 60);
        settle(f, "a", 60);
        double flight = f->use.flight;
        f->seen[0] = 10000;
        f->used[0] = cases[i].after;
        f->curve = kwt_server_curve(cases[i].curve ? 96000 : 0);
        settle(f, "a", cases[i].seconds);
        bool learns = fabs(f->use.flight - flight) > 0.02;
        if (learns != cases[i].learns)
            fail_msg("%s: %.4f after %.4f", cases[i].what, f->use.flight, flight);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_what_pods_count_as, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_two_replicas, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_young_pods, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_is_passed_over, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
