/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers that are not written anew: whatever was asked before, and however many answers are still
 * being sent, each is byte for byte what a service that was never asked says, and none that is held
 * changes.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/service.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define SECOND INT64_C(1000000000)
#define NODES  200
#define STEPS  1000
#define HELD   3

static const struct ext_policy policy = {
    .stale_after_ns = 30 * (uint64_t)SECOND,
    .assumptions = {.default_cpu_mcpu = 100, .request_use_percent = 100},
    .own_namespace = "kwatt"};

/** What was lent and not given back, with a copy of it. */
struct held {
    struct ext_lent lent;
    struct kw_buf copy;
};

struct world {
    uint64_t random;
    char names[NODES][16];
    struct ext_service service;
    struct ext_snapshot *snapshot;
    int64_t now_ns;
    struct held held[HELD];
    unsigned lent[EXT_VERB__MAX]; /* answers that were */
    unsigned moves;
};

static unsigned below(struct world *w, unsigned n)
{
    return (unsigned)(kwt_next(&w->random) % n);
}

/** A snapshot of the same names, with other loads, some nodes stale, asleep or without a curve. */
static void publish(struct world *w)
{
    static const struct kw_curve curves[] = {
        {.capacity_mcpu = 8000, .n = 2, .knots = {{0, 100000, 0}, {1000, 180000, 0}}},
        {.capacity_mcpu = 8000,
         .n = 3,
         .knots = {{0, 20000, 0}, {500, 40000, 0}, {1000, 160000, 0}}}};
    struct ext_node nodes[NODES];

    for (unsigned i = 0; i < NODES; i++) {
        const struct kw_curve *curve = below(w, 20) == 0 ? NULL : &curves[i % 2];
        nodes[i] = kwt_node(w->names[i], curve, below(w, 8000));
        nodes[i].fresh_ns = w->now_ns - (int64_t)below(w, 40) * SECOND;
        nodes[i].pricing.asleep = below(w, 30) == 0;
        nodes[i].pricing.wake_uj = 1e6F;
    }
    ext_snapshot_free(&w->snapshot);
    w->snapshot = ext_snapshot_new(nodes, NODES, 7, policy.stale_after_ns);
    assert_non_null(w->snapshot);
}

/** One of a few lists, for one of a few pods: now and then with an unknown name or a null. */
static void make_body(struct world *w, struct kw_buf *body)
{
    static const char *const pods[] = {
        "{}", "{\"spec\":{\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"2\"}}}]}}",
        "{\"metadata\":{\"annotations\":{\"kwatt.io/placement\":\"performance\"}}}",
        "{\"metadata\":{\"annotations\":{\"kwatt.io/placement\":\"off\"}}}",
        "{\"metadata\":{\"namespace\":\"a name that is longer than the others\"}}"};
    static const unsigned firsts[] = {0, 0, 0, 40, 90};
    unsigned kind = below(w, KW_ARRAY_SIZE(firsts));
    unsigned pod = below(w, 3) > 0 ? 1 : below(w, KW_ARRAY_SIZE(pods));

    (void)kw_buf_addf(body, "{\"Pod\":%s,\"NodeNames\":[", pods[pod]);
    for (unsigned i = firsts[kind]; i < NODES; i++)
        (void)kw_buf_addf(body, "%s\"%s\"", i == firsts[kind] ? "" : ",", w->names[i]);
    unsigned odd = below(w, 20);
    (void)kw_buf_adds(body, odd == 0   ? ",null]}"
                            : odd == 1 ? ",\"elsewhere\"]}"
                            : odd == 2 ? "],\"Nodes\":{\"items\":[{}]}}"
                                       : "]}");
    if (below(w, 2) == 0) /* as much room behind it as it happens to have */
        (void)kw_buf_reserve(body, 128);
    assert_false(body->failed);
}

static void give_back(struct held *held)
{
    if (held->lent.bytes == NULL)
        return;
    assert_memory_equal(held->lent.bytes, held->copy.data, held->copy.len);
    assert_true(atomic_load(held->lent.held) > 0);
    atomic_fetch_sub(held->lent.held, 1);
    kw_buf_free(&held->copy);
    *held = (struct held){0};
}

static void ask(struct world *w)
{
    kw_cleanup(kw_buf_free) struct kw_buf body = {0}, out = {0}, wanted = {0};
    enum ext_verb verb = below(w, 3) == 0 ? EXT_VERB_FILTER : EXT_VERB_PRIORITIZE;
    struct held *held = &w->held[below(w, HELD)];
    struct ext_service fresh;

    make_body(w, &body);
    assert_int_equal(ext_service_init(&fresh, 1, &policy), 0);
    assert_int_equal(
        ext_service_answer(&fresh, verb, w->snapshot, w->now_ns, body.data, body.len, &wanted),
        200);
    ext_service_clear(&fresh);
    struct ext_lent lent = {.body = &body};
    assert_int_equal(ext_service_lend(&w->service, verb, w->snapshot, w->now_ns, body.data,
                                      body.len, &out, &lent),
                     200);
    w->lent[verb] += lent.bytes != NULL;
    assert_int_equal(lent.bytes == NULL ? out.len : lent.len, wanted.len);
    assert_memory_equal(lent.bytes == NULL ? out.data : lent.bytes, wanted.data, wanted.len);
    if (lent.held == NULL)
        return;
    give_back(held);
    held->lent = lent;
    assert_int_equal(kw_buf_add(&held->copy, lent.bytes, lent.len), 0);
    if (below(w, 3) > 0)
        give_back(held);
}

static void step(struct world *w)
{
    unsigned what = below(w, 40);

    if (what == 0)
        publish(w);
    else if (what == 1)
        w->now_ns += (int64_t)below(w, 5) * SECOND; /* some become stale */
    else if (what < 5)
        w->moves += ext_snapshot_add_in_flight(w->snapshot, w->names[below(w, NODES)], 500) == 0;
    else if (what < 10)
        give_back(&w->held[below(w, HELD)]);
    ask(w);
}

static void test_as_written_anew(void **state)
{
    static struct world w;

    (void)state;
    for (uint64_t seed = 1; seed <= 2; seed++) {
        w = (struct world){.random = seed, .now_ns = 1000 * SECOND};
        for (unsigned i = 0; i < NODES; i++)
            (void)snprintf(w.names[i], sizeof(w.names[i]), "node-%u", i * i);
        assert_int_equal(ext_service_init(&w.service, 1, &policy), 0);
        publish(&w);
        for (unsigned i = 0; i < STEPS; i++)
            step(&w);
        for (unsigned i = 0; i < HELD; i++)
            give_back(&w.held[i]);
        /* the ways that were meant were gone */
        assert_in_range(w.lent[EXT_VERB_PRIORITIZE], 50, STEPS - 50);
        assert_in_range(w.lent[EXT_VERB_FILTER], 50, STEPS - 50);
        assert_true(w.moves > 0);
        ext_snapshot_free(&w.snapshot);
        ext_service_clear(&w.service);
    }
}

/** A filter has no room before a list that begins at once, nor behind one that ends its memory. */
static void test_filter_without_room(void **state)
{
    static const char none[] = "{\"NodeNames\":[\"a\"]}";
    static const char some[] = "{\"Pod\":{\"spec\":{}},\"NodeNames\":[\"a\"]}";
    struct ext_service service;

    (void)state;
    assert_int_equal(ext_service_init(&service, 1, &policy), 0);
    for (unsigned i = 0; i < 4; i++) {
        kw_cleanup(kw_buf_free) struct kw_buf body = {0}, out = {0};
        (void)kw_buf_adds(&body, i % 2 == 0 ? none : some);
        (void)kw_buf_reserve(&body, i < 2 ? 0 : 256);
        struct ext_lent lent = {.body = &body};
        assert_int_equal(
            ext_service_lend(&service, EXT_VERB_FILTER, NULL, 0, body.data, body.len, &out, &lent),
            200);
        const char *answer = lent.bytes != NULL ? lent.bytes : out.data;
        assert_true((lent.bytes != NULL) == (i == 3));
        assert_non_null(answer);
        assert_non_null(
            strstr(answer, "{\"Nodes\":null,\"NodeNames\":[\"a\"],\"FailedNodes\":{},"));
    }
    ext_service_clear(&service);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_written_anew),
        cmocka_unit_test(test_filter_without_room),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
