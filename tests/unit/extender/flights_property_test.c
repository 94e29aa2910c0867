/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pods that start and end as they like, and two replicas that are told of them by a watch that
 * breaks off, resumes where it was or long before, begins anew with a list, and says things twice.
 * Whenever both have heard all, and the nodes were measured since, what each counts is what is
 * true: the pods that wait for their start, each once, on their nodes. In between nobody counts
 * more than could be in flight.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/flights.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define SECOND   INT64_C(1000000000)
#define LIMIT    (30 * (uint64_t)SECOND)
#define NODES    5
#define PODS     400
#define HISTORY  4096
#define STEPS    400
#define ROUNDS   8
#define REPLICAS 2

enum truth { NOT_YET, WAITING, LEFT };

struct pod {
    enum truth truth;
    unsigned node;
    unsigned mcpu;
};

/** What the API server tells of the pods that are bound and Pending. */
struct event {
    enum kw_kube_event type;
    unsigned pod;
    const char *how; /* status and deletion, of the object told */
};

struct replica {
    struct kw_snapshot *out;
    struct ext_stats stats;
    struct ext_flights *flights;
    size_t heard; /* of the history */
    bool down;
};

struct world {
    uint64_t random;
    int64_t now_ns;
    struct kw_log *log;
    struct pod pods[PODS];
    size_t n_pods;
    struct event history[HISTORY];
    size_t n_events;
    int64_t fresh_ns[NODES];
    struct replica replicas[REPLICAS];
};

static unsigned below(struct world *w, unsigned n)
{
    return (unsigned)(kwt_next(&w->random) % n);
}

static void free_snapshot(void *value)
{
    struct ext_snapshot *snapshot = value;

    ext_snapshot_free(&snapshot);
}

static void tell(struct world *w, struct replica *replica, const struct event *event)
{
    kw_cleanup(kw_buf_free) struct kw_buf json = {0};
    const struct pod *pod = &w->pods[event->pod];

    (void)kw_buf_addf(
        &json,
        "{\"metadata\":{\"uid\":\"uid-%u\"%s},\"spec\":{\"nodeName\":\"node-%u\","
        "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"%um\"}}}]},"
        "\"status\":{\"phase\":\"%s\"}}",
        event->pod,
        strcmp(event->how, "deleting") == 0 ? ",\"deletionTimestamp\":\"2026-11-29T19:53:37Z\""
                                            : "",
        pod->node, pod->mcpu, strcmp(event->how, "deleting") == 0 ? "Pending" : event->how);
    ext_flights_event(replica->flights, event->type, json.data, json.len, w->now_ns);
}

static void happen(struct world *w, enum kw_kube_event type, unsigned pod, const char *how)
{
    assert_true(w->n_events < HISTORY);
    w->history[w->n_events++] = (struct event){type, pod, how};
}

/** A pod is bound, changes, starts, fails or is deleted. */
static void live(struct world *w)
{
    static const char *const ends[] = {"Running", "Failed", "Succeeded", "Pending"};
    unsigned which = w->n_pods == 0 ? 0 : below(w, (unsigned)w->n_pods);
    struct pod *pod = &w->pods[which];

    if (w->n_pods < PODS && below(w, 3) == 0) {
        which = (unsigned)w->n_pods++;
        w->pods[which] = (struct pod){WAITING, below(w, NODES), 1 + below(w, 4000)};
        happen(w, KW_KUBE_ADDED, which, "Pending");
    } else if (pod->truth != WAITING) {
        return;
    } else if (below(w, 2) == 0) {
        happen(w, KW_KUBE_MODIFIED, which, "Pending");
    } else {
        if (below(w, 3) == 0) /* first it is said to be on its way out */
            happen(w, KW_KUBE_MODIFIED, which, "deleting");
        pod->truth = LEFT;
        happen(w, KW_KUBE_DELETED, which, ends[below(w, KW_ARRAY_SIZE(ends))]);
    }
}

static void list(struct world *w, struct replica *replica)
{
    ext_flights_event(replica->flights, KW_KUBE_SYNC_BEGIN, NULL, 0, w->now_ns);
    if (below(w, 4) == 0) { /* it breaks off, and begins again */
        for (unsigned i = 0; i < w->n_pods / 2; i++) {
            if (w->pods[i].truth == WAITING)
                tell(w, replica, &(struct event){KW_KUBE_ADDED, i, "Pending"});
        }
        ext_flights_event(replica->flights, KW_KUBE_SYNC_BEGIN, NULL, 0, w->now_ns);
    }
    for (unsigned i = 0; i < w->n_pods; i++) {
        if (w->pods[i].truth == WAITING)
            tell(w, replica, &(struct event){KW_KUBE_ADDED, i, "Pending"});
    }
    ext_flights_event(replica->flights, KW_KUBE_SYNC_END, NULL, 0, w->now_ns);
    replica->heard = w->n_events;
    replica->down = false;
}

static void hear(struct world *w, struct replica *replica, size_t until)
{
    while (replica->heard < until)
        tell(w, replica, &w->history[replica->heard++]);
}

/** Something befalls the watch. */
static void watch(struct world *w, struct replica *replica)
{
    size_t left = w->n_events - replica->heard;

    if (replica->down) {
        if (below(w, 3) == 0) {
            list(w, replica);
        } else if (below(w, 2) == 0) {
            ext_flights_event(replica->flights, KW_KUBE_UP, NULL, 0, w->now_ns);
            replica->down = false;
        }
        return;
    }
    switch (below(w, 12)) {
    case 0:
        ext_flights_event(replica->flights, KW_KUBE_DOWN, "gone", 4, w->now_ns);
        replica->down = true;
        break;
    case 1: list(w, replica); break;
    case 2: /* some of it is told again, in its order */
        replica->heard -= below(w, (unsigned)(replica->heard < 20 ? replica->heard : 20) + 1);
        break;
    case 3: /* the last of it twice */
        if (replica->heard > 0)
            tell(w, replica, &w->history[replica->heard - 1]);
        break;
    default: hear(w, replica, replica->heard + (left == 0 ? 0 : 1 + below(w, (unsigned)left)));
    }
}

/** Redis is read: some nodes were measured, or nothing is new. */
static void read_redis(struct world *w, struct replica *replica, bool news)
{
    static const char *const names[NODES] = {"node-0", "node-1", "node-2", "node-3", "node-4"};
    struct kw_curve curve = kwt_server_curve(64000);
    struct ext_node nodes[NODES];

    for (unsigned i = 0; i < NODES && news; i++) {
        nodes[i] = kwt_node(names[i], &curve, 1000);
        nodes[i].fresh_ns = nodes[i].covered_ns = w->fresh_ns[i];
        nodes[i].interval_ns = SECOND;
    }
    ext_flights_publish(replica->flights, news ? ext_snapshot_new(nodes, NODES, 4, LIMIT) : NULL,
                        w->now_ns);
}

/** In flight on a node, at most: who waits, and who left since it was measured last. */
static double most(const struct world *w, unsigned node, bool waiting_only)
{
    double sum = 0;

    for (unsigned i = 0; i < w->n_pods; i++) {
        const struct pod *pod = &w->pods[i];
        if (pod->node == node && (pod->truth == WAITING || !waiting_only))
            sum += pod->mcpu;
    }
    return sum;
}

static void check_bounds(const struct world *w, const struct replica *replica)
{
    const struct ext_snapshot *last = ext_flights_last(replica->flights);

    for (unsigned i = 0; last != NULL && i < NODES; i++) {
        assert_true(last->nodes[i].in_flight_mcpu >= 0);
        assert_true(last->nodes[i].in_flight_mcpu <= 2 * most(w, i, false) + 1e-6);
    }
}

/** Both have heard all and every node was measured: they know the same, and the truth. */
static void agree(struct world *w)
{
    unsigned waiting = 0;

    for (unsigned i = 0; i < w->n_pods; i++)
        waiting += w->pods[i].truth == WAITING;
    for (unsigned r = 0; r < REPLICAS; r++) {
        struct replica *replica = &w->replicas[r];
        if (replica->down)
            ext_flights_event(replica->flights, KW_KUBE_UP, NULL, 0, w->now_ns);
        replica->down = false;
        hear(w, replica, w->n_events);
    }
    w->now_ns += 3 * SECOND; /* longer than a window */
    for (unsigned i = 0; i < NODES; i++)
        w->fresh_ns[i] = w->now_ns;
    for (unsigned r = 0; r < REPLICAS; r++) {
        struct replica *replica = &w->replicas[r];
        read_redis(w, replica, true);
        const struct ext_snapshot *last = ext_flights_last(replica->flights);
        for (unsigned i = 0; i < NODES; i++) {
            if (fabs(last->nodes[i].in_flight_mcpu - most(w, i, true)) > 1e-6)
                fail_msg("replica %u, node %u: %f in flight, not %f", r, i,
                         last->nodes[i].in_flight_mcpu, most(w, i, true));
        }
        assert_int_equal(replica->stats.flights, waiting);
        assert_int_equal(replica->stats.flights_bad, 0);
        assert_int_equal(replica->stats.flights_missed, 0);
    }
}

/** All that still wait get an end, and the replicas hear of the next lot. */
static void begin_anew(struct world *w)
{
    for (unsigned i = 0; i < w->n_pods; i++) {
        if (w->pods[i].truth != WAITING)
            continue;
        w->pods[i].truth = LEFT;
        happen(w, KW_KUBE_DELETED, i, "Running");
    }
    agree(w);
}

static void run(struct world *w)
{
    for (unsigned step = 0; step < STEPS; step++) {
        w->now_ns += below(w, 100) * (SECOND / 1000);
        for (unsigned i = below(w, 4); i > 0 && w->n_events + PODS + 2 < HISTORY; i--)
            live(w);
        for (unsigned i = 0; i < NODES; i++) {
            if (below(w, 20) == 0)
                w->fresh_ns[i] = w->now_ns;
        }
        for (unsigned r = 0; r < REPLICAS; r++) {
            watch(w, &w->replicas[r]);
            if (below(w, 5) == 0)
                read_redis(w, &w->replicas[r], below(w, 2) == 0);
            check_bounds(w, &w->replicas[r]);
        }
        if (below(w, 50) == 0)
            agree(w);
    }
    agree(w);
    begin_anew(w);
}

static void test_any_order(void **state)
{
    (void)state;
    kw_cleanup_free struct world *w = malloc(sizeof(*w));

    assert_non_null(w);
    for (unsigned round = 1; round <= ROUNDS; round++) {
        *w = (struct world){.random = round * UINT64_C(0x9e3779b97f4a7c15)};
        w->log = kw_log_new("test", KW_LOG_ERROR, NULL);
        for (unsigned r = 0; r < REPLICAS; r++) {
            struct replica *replica = &w->replicas[r];
            assert_int_equal(kw_snapshot_new(1, free_snapshot, &replica->out), 0);
            const struct ext_flights_conf conf = {.assumptions = {100, 100},
                                                  .out = replica->out,
                                                  .stats = &replica->stats,
                                                  .log = w->log};
            assert_int_equal(ext_flights_new(&conf, &replica->flights), 0);
            list(w, replica);
        }
        run(w);
        for (unsigned r = 0; r < REPLICAS; r++) {
            ext_flights_free(&w->replicas[r].flights);
            kw_snapshot_free(&w->replicas[r].out);
        }
        kw_log_free(&w->log);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_any_order)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
