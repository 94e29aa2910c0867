/* SPDX-License-Identifier: Apache-2.0 */
/* The table of nodes: every name is found, no other is, and age decides what is stale. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/snapshot.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define SECOND INT64_C(1000000000)
#define LIMIT  (30 * (uint64_t)SECOND)

static void test_nothing_known(void **state)
{
    (void)state;
    assert_null(ext_snapshot_find(NULL, "a", 1));
    kw_cleanup(ext_snapshot_free) struct ext_snapshot *empty = ext_snapshot_new(NULL, 0, 1, LIMIT);
    assert_non_null(empty);
    assert_null(ext_snapshot_find(empty, "a", 1));
    assert_null(ext_snapshot_find(empty, "", 0));
}

static void test_every_name_is_found(void **state)
{
    (void)state;
    enum { N = 15000, NAME = 48 };
    kw_cleanup_free struct ext_node *nodes = calloc(N, sizeof(*nodes));
    kw_cleanup_free char *names = calloc(N, NAME);

    for (unsigned i = 0; i < N; i++) {
        (void)snprintf(names + (size_t)i * NAME, NAME, "ip-10-%u-%u.eu-west-1.compute.internal",
                       i / 250, i % 250);
        nodes[i] = kwt_node(names + (size_t)i * NAME, NULL, i);
    }
    kw_cleanup(ext_snapshot_free) struct ext_snapshot *snapshot =
        ext_snapshot_new(nodes, N, 42, LIMIT);
    memset(names, 0, (size_t)N * NAME); /* the snapshot has its own copies */
    assert_int_equal(snapshot->n, N);
    for (unsigned i = 0; i < N; i++) {
        char name[NAME];
        int len = snprintf(name, NAME, "ip-10-%u-%u.eu-west-1.compute.internal", i / 250, i % 250);
        const struct ext_node *node = ext_snapshot_find(snapshot, name, (size_t)len);
        assert_non_null(node);
        assert_true(node->used_mcpu == i);
        assert_string_equal(node->name, name);
        assert_null(ext_snapshot_find(snapshot, name, (size_t)len - 1));
    }
}

/** Short ones, those that fit beside what is read of a node, and those that lie elsewhere; one that
 * differs in any byte is another. */
static void test_names_of_every_length(void **state)
{
    (void)state;
    enum { LONGEST = 253 };
    static struct ext_node nodes[LONGEST];
    static char names[LONGEST][LONGEST + 1];

    for (size_t i = 0; i < LONGEST; i++) {
        memset(names[i], 'n', i + 1);
        nodes[i] = kwt_node(names[i], NULL, (double)i);
    }
    kw_cleanup(ext_snapshot_free) struct ext_snapshot *snapshot =
        ext_snapshot_new(nodes, LONGEST, 7, LIMIT);
    for (size_t i = 0; i < LONGEST; i++) {
        const struct ext_node *node = ext_snapshot_find(snapshot, names[i], i + 1);
        assert_non_null(node);
        assert_true(node->used_mcpu == (double)i);
        assert_string_equal(node->name, names[i]);
        for (size_t at = 0; at <= i; at++) {
            names[i][at] = 'm';
            assert_null(ext_snapshot_find(snapshot, names[i], i + 1));
            names[i][at] = 'n';
        }
    }
}

static void test_one_name_twice(void **state)
{
    (void)state;
    const struct ext_node nodes[] = {kwt_node("a", NULL, 1), kwt_node("b", NULL, 2),
                                     kwt_node("a", NULL, 3)};
    kw_cleanup(ext_snapshot_free) struct ext_snapshot *snapshot =
        ext_snapshot_new(nodes, 3, 0, LIMIT);

    assert_int_equal(snapshot->n, 2);
    assert_true(ext_snapshot_find(snapshot, "a", 1)->used_mcpu == 1);
}

static void test_hash_depends_on_every_byte(void **state)
{
    (void)state;
    const uint64_t seeds[] = {0, 5}; /* 0: what the texts of curves are hashed with */
    char text[40];

    for (size_t s = 0; s < KW_ARRAY_SIZE(seeds); s++) {
        for (size_t len = 0; len < sizeof(text); len++) {
            memset(text, 'x', sizeof(text));
            uint64_t hash = ext_hash(text, len, seeds[s]);
            assert_int_not_equal(hash, 0);
            assert_int_equal(hash, ext_hash(text, len, seeds[s]));
            assert_int_not_equal(hash, ext_hash(text, len, 6));
            for (size_t i = 0; i < len; i++) {
                text[i] = 'y';
                assert_int_not_equal(hash, ext_hash(text, len, seeds[s]));
                text[i] = 'x';
            }
        }
    }
}

/** A node moves along its hull by what is placed on it, for those who ask from then on. */
static void test_what_is_in_flight(void **state)
{
    (void)state;
    struct kw_curve curve = kwt_server_curve(10000);
    const struct ext_node nodes[] = {kwt_node("a", &curve, 1000), kwt_node("b", &curve, 1000),
                                     kwt_node("bare", NULL, 1000)};
    kw_cleanup(ext_snapshot_free) struct ext_snapshot *snapshot =
        ext_snapshot_new(nodes, 3, 0, LIMIT);
    const size_t a = 0, b = 1;

    ext_snapshot_set_in_flight(snapshot, 0, 500);
    assert_true(ext_place_now(snapshot, a)->at_mcpu == 1500);
    const struct ext_place *before = ext_place_now(snapshot, a);
    assert_int_equal(ext_snapshot_add_in_flight(snapshot, "a", 5000), 0);
    assert_int_equal(ext_snapshot_add_in_flight(snapshot, "a", 100), 0);
    assert_true(ext_place_now(snapshot, a)->at_mcpu == 6600);
    assert_true(ext_place_now(snapshot, a)->mw_per_mcpu > before->mw_per_mcpu);
    assert_true(before->at_mcpu == 1500); /* a request that began before goes on with it */
    assert_true(ext_place_now(snapshot, b)->at_mcpu == 1000);
    assert_int_equal(ext_snapshot_add_in_flight(snapshot, "bare", 100), -ENOENT);
    assert_int_equal(ext_snapshot_add_in_flight(snapshot, "c", 100), -ENOENT);
    for (unsigned i = 2; i < EXT_MOVES_MAX; i++)
        assert_int_equal(ext_snapshot_add_in_flight(snapshot, "b", 1), 0);
    assert_int_equal(ext_snapshot_add_in_flight(snapshot, "b", 1), -ENOSPC);
    /* a copy starts where all of them stand by now */
    kw_cleanup(ext_snapshot_free) struct ext_snapshot *copy = ext_snapshot_copy(snapshot);
    assert_true(ext_place_now(copy, a)->at_mcpu == 6600);
    assert_true(ext_place_now(copy, b)->at_mcpu == 1000 + EXT_MOVES_MAX - 2);
    assert_int_equal(ext_snapshot_add_in_flight(copy, "b", 1), 0);
}

static void test_stale(void **state)
{
    (void)state;
    struct ext_node node = {.fresh_ns = 100 * SECOND, .interval_ns = (uint64_t)SECOND};
    uint64_t limit = 30 * (uint64_t)SECOND;

    assert_false(ext_is_stale(node.fresh_ns, node.interval_ns, 100 * SECOND, limit));
    assert_false(ext_is_stale(node.fresh_ns, node.interval_ns, 130 * SECOND, limit));
    assert_true(ext_is_stale(node.fresh_ns, node.interval_ns, 130 * SECOND + 1, limit));
    /* seen later than "now": a request that began before the refresh */
    assert_false(ext_is_stale(node.fresh_ns, node.interval_ns, 99 * SECOND, limit));
    /* a node that publishes once a minute has three minutes */
    node.interval_ns = 60 * (uint64_t)SECOND;
    assert_false(ext_is_stale(node.fresh_ns, node.interval_ns, 280 * SECOND, limit));
    assert_true(ext_is_stale(node.fresh_ns, node.interval_ns, 280 * SECOND + 1, limit));
    /* and one that claims to publish once in a century has half an hour */
    node.interval_ns = UINT64_MAX;
    assert_true(ext_is_stale(node.fresh_ns, node.interval_ns, 2000 * SECOND, limit));
    /* older than this machine's start */
    node = (struct ext_node){.fresh_ns = -3600 * SECOND};
    assert_true(ext_is_stale(node.fresh_ns, node.interval_ns, SECOND, limit));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_known),
        cmocka_unit_test(test_every_name_is_found),
        cmocka_unit_test(test_one_name_twice),
        cmocka_unit_test(test_hash_depends_on_every_byte),
        cmocka_unit_test(test_stale),
        cmocka_unit_test(test_what_is_in_flight),
        cmocka_unit_test(test_names_of_every_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
