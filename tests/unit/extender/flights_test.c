/* SPDX-License-Identifier: Apache-2.0 */
/* What the watch tells, down to the scores that a request gets: one pod, and a burst of them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/num.h"
#include "extender/bound_pod.h"
#include "extender/flights.h"
#include "extender/service.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define SECOND   INT64_C(1000000000)
#define LIMIT    (30 * (uint64_t)SECOND)
#define NODES    50
#define CAPACITY 64000.0
#define BURST    500

static const struct ext_assumptions assumptions = {100, 100};

static void check_scan(const char *json, int want, const char *uid, const char *node, uint64_t mcpu)
{
    struct ext_bound_pod pod;
    int got = ext_bound_pod_scan(json, strlen(json), &assumptions, NULL, &pod);

    if (got != want)
        fail_msg("%d, not %d: %s", got, want, json);
    if (want < 0)
        return;
    assert_string_equal(pod.uid, uid);
    if (want > 0) {
        assert_string_equal(pod.node, node);
        assert_int_equal(pod.mcpu, mcpu);
    }
}

#define POD(metadata, spec, status) \
    "{\"metadata\":{" metadata "},\"spec\":{" spec "},\"status\":{" status "}}"

static void test_pods_are_read(void **state)
{
    (void)state;
    static const char request[] =
        POD("\"uid\":\"u\"",
            "\"nodeName\":\"n\",\"containers\":[{\"resources\":{\"requests\":{"
            "\"cpu\":\"250m\"}}}]",
            "\"phase\":\"Pending\"");
    check_scan(request, 1, "u", "n", 250);
    check_scan(POD("\"uid\":\"u\"", "\"nodeName\":\"n\"", ""), 1, "u", "n", 100);
    check_scan(POD("\"uid\":\"u\",\"annotations\":{\"kwatt.io/expected-cpu\":\"2\"}",
                   "\"nodeName\":\"n\"", "\"phase\":null"),
               1, "u", "n", 2000);
    check_scan("{\"metadata\":{\"uid\":\"u\"},\"spec\":{\"nodeName\":\"n\"}}", 1, "u", "n", 100);
    check_scan(POD("\"uid\":\"u\"", "\"nodeName\":null", "\"phase\":\"Pending\""), 0, "u", "", 0);
    check_scan(POD("\"uid\":\"u\"", "", ""), 0, "u", "", 0);
    check_scan(POD("\"uid\":\"u\"", "\"nodeName\":\"n\"", "\"phase\":\"Running\""), 0, "u", "", 0);
    check_scan(POD("\"uid\":\"u\"", "\"nodeName\":\"n\"", "\"phase\":\"Failed\""), 0, "u", "", 0);
    check_scan(POD("\"uid\":\"u\",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"",
                   "\"nodeName\":\"n\"", "\"phase\":\"Pending\""),
               0, "u", "", 0);
    check_scan(POD("\"uid\":\"u\",\"deletionTimestamp\":null", "\"nodeName\":\"n\"", ""), 1, "u",
               "n", 100);
    check_scan(POD("", "\"nodeName\":\"n\"", ""), -EBADMSG, "", "", 0);
    check_scan(POD("\"uid\":7", "\"nodeName\":\"n\"", ""), -EBADMSG, "", "", 0);
    check_scan("", -EBADMSG, "", "", 0);
    check_scan("null", -EBADMSG, "", "", 0);
    check_scan("[]", -EBADMSG, "", "", 0);
    check_scan("{} {}", -EBADMSG, "", "", 0);
    for (size_t len = 0; len < sizeof(request) - 1; len++) {
        struct ext_bound_pod pod;
        assert_int_equal(ext_bound_pod_scan(request, len, &assumptions, NULL, &pod), -EBADMSG);
    }
    char long_uid[256];
    (void)snprintf(long_uid, sizeof(long_uid), "{\"metadata\":{\"uid\":\"%064d\"}}", 0);
    check_scan(long_uid, -EBADMSG, "", "", 0);
}

/** A pod in flight counts for what a request expects of its kin. */
static void test_what_was_learnt_counts(void **state)
{
    (void)state;
    static const char json[] =
        "{\"metadata\":{\"uid\":\"u\",\"namespace\":\"orchard\",\"ownerReferences\":[{\"kind\":"
        "\"StatefulSet\",\"name\":\"press\",\"controller\":true}]},\"spec\":{\"nodeName\":\"n\","
        "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1\"}}}]}}";
    const struct ext_profile profile = {.pods_permille = 12000, .used_mcpu = 200};
    struct ext_profiles *profiles = ext_profiles_new(3);
    struct ext_bound_pod pod;

    assert_int_equal(ext_profiles_put(profiles, "orchard/StatefulSet/press", 25, &profile), 0);
    assert_int_equal(ext_bound_pod_scan(json, strlen(json), &assumptions, NULL, &pod), 1);
    assert_int_equal(pod.mcpu, 1000);
    assert_int_equal(ext_bound_pod_scan(json, strlen(json), &assumptions, profiles, &pod), 1);
    assert_int_equal(pod.mcpu, 400);
    ext_profiles_free(&profiles);
}

struct fixture {
    struct kw_log *log;
    struct ext_service service;
    struct ext_flights *flights;
    struct kw_snapshot *profiles;
    double used[NODES]; /* what the agents measure */
    char names[NODES][16];
    struct kw_buf question, answer;
};

static void free_snapshot(void *value)
{
    struct ext_snapshot *snapshot = value;

    ext_snapshot_free(&snapshot);
}

static struct ext_snapshot *measure(struct fixture *f, int64_t now_ns)
{
    struct ext_node nodes[NODES];
    struct kw_curve curve = kwt_server_curve((uint64_t)CAPACITY);

    for (unsigned i = 0; i < NODES; i++) {
        nodes[i] = kwt_node(f->names[i], &curve, f->used[i]);
        nodes[i].fresh_ns = nodes[i].covered_ns = now_ns;
    }
    struct ext_snapshot *snapshot = ext_snapshot_new(nodes, NODES, 4, LIMIT);
    assert_non_null(snapshot);
    return snapshot;
}

static void free_profiles(void *value)
{
    struct ext_profiles *profiles = value;

    ext_profiles_free(&profiles);
}

#define KIN                                                                                     \
    "\"namespace\":\"orchard\",\"ownerReferences\":[{\"kind\":\"StatefulSet\",\"name\":\"%s\"," \
    "\"controller\":true}]"

/** From now on a pod of this workload is asked for, which requests 1.5 cores; NULL: of none. */
static void ask_for(struct fixture *f, const char *workload)
{
    kw_buf_reset(&f->question);
    (void)kw_buf_adds(&f->question, "{\"Pod\":{\"metadata\":{");
    if (workload != NULL)
        (void)kw_buf_addf(&f->question, KIN, workload);
    (void)kw_buf_adds(&f->question, "},\"spec\":{\"containers\":[{\"resources\":{"
                                    "\"requests\":{\"cpu\":\"1500m\"}}}]}},\"NodeNames\":[");
    for (unsigned i = 0; i < NODES; i++)
        (void)kw_buf_addf(&f->question, "%s\"%s\"", i > 0 ? "," : "", f->names[i]);
    (void)kw_buf_adds(&f->question, "]}");
}

static int set_up(void **state)
{
    static const struct ext_policy policy = {.stale_after_ns = LIMIT, .assumptions = {100, 100}};
    struct fixture *f = calloc(1, sizeof(*f));

    assert_non_null(f);
    f->log = kw_log_new("test", KW_LOG_ERROR, NULL);
    assert_int_equal(ext_service_init(&f->service, 1, &policy), 0);
    assert_int_equal(kw_snapshot_new(1, free_snapshot, &f->service.snapshot), 0);
    assert_int_equal(kw_snapshot_new(2, free_profiles, &f->profiles), 0);
    f->service.profiles = f->profiles;
    const struct ext_flights_conf conf = {.assumptions = {100, 100},
                                          .profiles = f->profiles,
                                          .out = f->service.snapshot,
                                          .stats = &f->service.stats,
                                          .decisions = f->service.decisions,
                                          .log = f->log};
    assert_int_equal(ext_flights_new(&conf, &f->flights), 0);
    for (unsigned i = 0; i < NODES; i++) {
        (void)snprintf(f->names[i], sizeof(f->names[i]), "node-%02u", i);
        f->used[i] = 19200 + 10 * i; /* a third */
    }
    ask_for(f, NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    ext_flights_free(&f->flights);
    kw_snapshot_free(&f->service.snapshot);
    kw_snapshot_free(&f->profiles);
    ext_service_clear(&f->service);
    kw_log_free(&f->log);
    kw_buf_free(&f->question);
    kw_buf_free(&f->answer);
    free(f);
    return 0;
}

/** Where the scheduler would put a pod of 1.5 cores, were kwatt alone to say. */
static unsigned place(struct fixture *f, int64_t now_ns)
{
    struct kw_host_priority *list = NULL;
    size_t n = 0;
    size_t slot;
    unsigned best = 0;

    kw_buf_reset(&f->answer);
    const struct ext_snapshot *snapshot = kw_snapshot_acquire(f->service.snapshot, &slot);
    assert_int_equal(ext_service_answer(&f->service, EXT_VERB_PRIORITIZE, snapshot, now_ns,
                                        f->question.data, f->question.len, &f->answer),
                     200);
    kw_snapshot_release(f->service.snapshot, slot);
    assert_int_equal(kw_host_priorities_decode(f->answer.data, f->answer.len, &list, &n, NULL), 0);
    assert_int_equal(n, NODES);
    for (unsigned i = 1; i < NODES; i++)
        best = list[i].score > list[best].score ? i : best;
    kw_host_priorities_free(&list, n);
    return best;
}

static void tell(struct fixture *f, enum kw_kube_event event, unsigned pod, unsigned node,
                 int64_t now_ns)
{
    kw_cleanup(kw_buf_free) struct kw_buf json = {0};

    (void)kw_buf_addf(&json,
                      "{\"metadata\":{\"uid\":\"%u\"},\"spec\":{\"nodeName\":\"%s\","
                      "\"containers\":[{\"resources\":{\"requests\":{\"cpu\":\"1500m\"}}}]},"
                      "\"status\":{\"phase\":\"Pending\"}}",
                      pod, f->names[node]);
    ext_flights_event(f->flights, event, json.data, json.len, now_ns);
}

/** As tell, of a workload. */
static void tell_of(struct fixture *f, const char *workload, unsigned pod, unsigned node,
                    int64_t now_ns)
{
    kw_cleanup(kw_buf_free) struct kw_buf json = {0};

    (void)kw_buf_addf(&json, "{\"metadata\":{\"uid\":\"%u\"," KIN "},", pod, workload);
    (void)kw_buf_addf(&json,
                      "\"spec\":{\"nodeName\":\"%s\",\"containers\":[{\"resources\":{"
                      "\"requests\":{\"cpu\":\"1500m\"}}}]},\"status\":{\"phase\":\"Pending\"}}",
                      f->names[node]);
    ext_flights_event(f->flights, KW_KUBE_ADDED, json.data, json.len, now_ns);
}

static double in_flight(struct fixture *f)
{
    const struct ext_snapshot *last = ext_flights_last(f->flights);
    double sum = 0;

    for (size_t i = 0; i < last->n; i++)
        sum += last->nodes[i].in_flight_mcpu;
    return sum;
}

/** As below, of three workloads that request the same and use a fifth, as much, and three times as
 * much: each counts for what its kin used. */
static void test_a_burst_counts_by_what_was_learnt(void **state)
{
    struct fixture *f = *state;
    static const char *const workloads[] = {"small", "even", "large"};
    static const uint32_t used_mcpu[] = {300, 1500, 4500};
    struct ext_profiles *profiles = ext_profiles_new(9);
    double added[NODES] = {0};
    double sum = 0;

    for (unsigned i = 0; i < KW_ARRAY_SIZE(workloads); i++) {
        const struct ext_profile profile = {.pods_permille = 96000, .used_mcpu = used_mcpu[i]};
        char member[64];
        int len = snprintf(member, sizeof(member), "orchard/StatefulSet/%s", workloads[i]);
        assert_int_equal(ext_profiles_put(profiles, member, (size_t)len, &profile), 0);
    }
    kw_snapshot_publish(f->profiles, profiles);
    ext_flights_publish(f->flights, measure(f, 0), 0);
    for (unsigned i = 0; i < BURST; i++) {
        unsigned which = i * 7 % KW_ARRAY_SIZE(workloads);
        /* (96 x used + 4 x 1500) / 100 */
        double mcpu = (96.0 * used_mcpu[which] + 6000) / 100;
        ask_for(f, workloads[which]);
        unsigned node = place(f, i);
        tell_of(f, workloads[which], i, node, i);
        added[node] += mcpu;
        sum += mcpu;
        assert_true(in_flight(f) == sum);
    }
    for (unsigned i = 0; i < NODES; i++)
        assert_true(f->used[i] + added[i] <= CAPACITY * 0.7 + 4500);
}

/** 500 pods within a second, between two readings of Redis. */
static void test_a_burst_is_spread(void **state)
{
    struct fixture *f = *state;
    unsigned pods[NODES] = {0};
    unsigned where[BURST];

    /* blind: all go where it was cheapest before */
    ext_flights_publish(f->flights, measure(f, 0), 0);
    unsigned first = place(f, 0);
    for (unsigned i = 0; i < BURST; i++)
        assert_int_equal(place(f, 0), first);
    /* seeing: none is filled into the steep top of its curve, from 70 % on */
    for (unsigned i = 0; i < BURST; i++) {
        where[i] = place(f, i);
        pods[where[i]]++;
        tell(f, KW_KUBE_ADDED, i, where[i], i);
        if (i % 7 == 0) /* a replay */
            tell(f, KW_KUBE_MODIFIED, i, where[i], i);
    }
    for (unsigned i = 0; i < NODES; i++)
        assert_true(f->used[i] + 1500 * pods[i] <= CAPACITY * 0.7 + 1500);
    assert_true(in_flight(f) == BURST * 1500.0);
    assert_int_equal(f->service.stats.flights, BURST);
    /* the next readings of Redis find nothing new, and forget nothing */
    ext_flights_publish(f->flights, NULL, SECOND);
    ext_flights_publish(f->flights, measure(f, SECOND), SECOND);
    assert_true(in_flight(f) == BURST * 1500.0);
    /* they start, and are measured */
    for (unsigned i = 0; i < BURST; i++)
        tell(f, KW_KUBE_DELETED, i, where[i], 2 * SECOND);
    ext_flights_publish(f->flights, NULL, 2 * SECOND);
    assert_true(in_flight(f) == BURST * 1500.0);
    for (unsigned i = 0; i < NODES; i++)
        f->used[i] += 1500 * pods[i];
    ext_flights_publish(f->flights, measure(f, 4 * SECOND), 4 * SECOND);
    assert_true(in_flight(f) == 0);
    assert_int_equal(f->service.stats.flights, 0);
}

/** More pods between two readings than a snapshot has room to move its nodes for. */
static void test_a_burst_without_end(void **state)
{
    struct fixture *f = *state;

    ext_flights_publish(f->flights, measure(f, 0), 0);
    for (unsigned i = 0; i < EXT_MOVES_MAX + 100; i++)
        tell(f, KW_KUBE_ADDED, i, i % NODES, 0);
    assert_true(in_flight(f) == EXT_MOVES_MAX * 1500.0);
    ext_flights_publish(f->flights, NULL, SECOND);
    assert_true(in_flight(f) == (EXT_MOVES_MAX + 100) * 1500.0);
}

static void test_what_leaves_no_trace(void **state)
{
    struct fixture *f = *state;
    static const char deleted[] = "{\"metadata\":{\"uid\":\"1\",\"deletionTimestamp\":\"x\"},"
                                  "\"spec\":{\"nodeName\":\"node-00\"}}";

    ext_flights_publish(f->flights, measure(f, 0), 0);
    /* a dry run, a retry, a failed binding: asked, and never bound */
    for (unsigned i = 0; i < 20; i++)
        (void)place(f, 0);
    ext_flights_publish(f->flights, NULL, 0);
    assert_true(in_flight(f) == 0);
    /* deleted before it started */
    tell(f, KW_KUBE_ADDED, 1, 0, 0);
    assert_true(in_flight(f) == 1500);
    ext_flights_event(f->flights, KW_KUBE_MODIFIED, deleted, sizeof(deleted) - 1, 1);
    ext_flights_publish(f->flights, NULL, 1);
    assert_true(in_flight(f) == 0);
    tell(f, KW_KUBE_DELETED, 1, 0, 2);
    /* bytes that are no pod are counted */
    ext_flights_event(f->flights, KW_KUBE_ADDED, "[]", 2, 3);
    assert_int_equal(f->service.stats.flights_bad, 1);
    /* a pod on a node that nobody knows */
    ext_flights_event(f->flights, KW_KUBE_ADDED,
                      "{\"metadata\":{\"uid\":\"9\"},\"spec\":{\"nodeName\":\"far\"}}", 55, 3);
    ext_flights_publish(f->flights, NULL, 4);
    assert_true(in_flight(f) == 0);
}

/** A binding that a dry run did not want adds to the sum, once; one that it wanted adds nothing. */
static void test_what_a_dry_run_would_have_saved(void **state)
{
    struct fixture *f = *state;
    static const unsigned full = 7;
    static const struct ext_policy dry = {
        .stale_after_ns = LIMIT, .assumptions = {100, 100}, .dry_run = true};

    assert_int_equal(ext_service_set_policy(&f->service, &dry), 0);
    f->used[full] = CAPACITY - 1000; /* where the curve is steep */
    ext_flights_publish(f->flights, measure(f, 0), 0);
    for (unsigned pod = 1; pod <= 2; pod++) {
        kw_buf_reset(&f->question);
        (void)kw_buf_addf(&f->question,
                          "{\"Pod\":{\"metadata\":{\"uid\":\"%u\"},\"spec\":{\"containers\":[{"
                          "\"resources\":{\"requests\":{\"cpu\":\"1500m\"}}}]}},\"NodeNames\":[",
                          pod);
        for (unsigned i = 0; i < NODES; i++)
            (void)kw_buf_addf(&f->question, "%s\"%s\"", i > 0 ? "," : "", f->names[i]);
        (void)kw_buf_adds(&f->question, "]}");
        (void)place(f, 0);
    }
    tell(f, KW_KUBE_ADDED, 1, full, 0);
    assert_int_equal(f->service.stats.dry_compared, 1);
    int64_t saved_mw = f->service.stats.dry_saved_mw;
    assert_true(saved_mw > 0);
    tell(f, KW_KUBE_MODIFIED, 1, full, 1);
    assert_int_equal(f->service.stats.dry_compared, 1);
    /* the answer names the best node as it was */
    kw_cleanup(kw_buf_free) struct kw_buf page = {0};
    assert_true(ext_decisions_page(f->service.decisions, NULL, EXT_FORM_TEXT, NULL, &page) == 2);
    const char *best = strstr(page.data, "full  node-");
    assert_non_null(best);
    uint64_t node = 0;
    assert_int_equal(kw_parse_u64_span(best + strlen("full  node-"), 2, 0, NODES - 1, &node), 0);
    tell(f, KW_KUBE_ADDED, 2, (unsigned)node, 2);
    assert_int_equal(f->service.stats.dry_compared, 2);
    assert_int_equal(f->service.stats.dry_saved_mw, saved_mw);
}

static void test_the_api_server_goes_and_comes(void **state)
{
    struct fixture *f = *state;

    ext_flights_publish(f->flights, measure(f, 0), 0);
    assert_false(f->service.stats.watching);
    ext_flights_event(f->flights, KW_KUBE_SYNC_BEGIN, NULL, 0, 0);
    tell(f, KW_KUBE_ADDED, 1, 0, 0);
    tell(f, KW_KUBE_ADDED, 2, 1, 0);
    ext_flights_event(f->flights, KW_KUBE_SYNC_END, NULL, 0, 0);
    assert_true(f->service.stats.watching);
    /* gone for a moment: nothing is forgotten */
    ext_flights_event(f->flights, KW_KUBE_DOWN, "refused", 7, SECOND);
    ext_flights_event(f->flights, KW_KUBE_DOWN, "refused", 7, 8 * SECOND);
    assert_false(f->service.stats.watching);
    ext_flights_publish(f->flights, measure(f, 9 * SECOND), 9 * SECOND);
    assert_true(in_flight(f) == 3000);
    /* for longer: they are measured by now, if they started */
    ext_flights_publish(f->flights, NULL, 12 * SECOND);
    assert_true(in_flight(f) == 0);
    assert_int_equal(f->service.stats.flights, 0);
    /* back, and the watch resumes: one has started */
    ext_flights_event(f->flights, KW_KUBE_UP, NULL, 0, 20 * SECOND);
    tell(f, KW_KUBE_DELETED, 1, 0, 20 * SECOND);
    assert_true(f->service.stats.watching);
    ext_flights_publish(f->flights, measure(f, 22 * SECOND), 22 * SECOND);
    assert_true(in_flight(f) == 1500);
    /* with a new list: the other one too, and another waits */
    ext_flights_event(f->flights, KW_KUBE_DOWN, "refused", 7, 30 * SECOND);
    ext_flights_publish(f->flights, NULL, 50 * SECOND);
    assert_true(in_flight(f) == 0);
    ext_flights_event(f->flights, KW_KUBE_SYNC_BEGIN, NULL, 0, 60 * SECOND);
    tell(f, KW_KUBE_ADDED, 3, 1, 60 * SECOND);
    ext_flights_event(f->flights, KW_KUBE_SYNC_END, NULL, 0, 60 * SECOND);
    ext_flights_publish(f->flights, measure(f, 63 * SECOND), 63 * SECOND);
    assert_true(in_flight(f) == 1500);
    assert_int_equal(f->service.stats.flights, 1);
}

/** Two replicas that see the same say the same, whenever each reads Redis. */
static void test_replicas_agree(void **state)
{
    struct fixture *f = *state;
    void *other = NULL;

    assert_int_equal(set_up(&other), 0);
    struct fixture *g = other;
    ext_flights_publish(f->flights, measure(f, 0), 0);
    ext_flights_publish(g->flights, measure(g, 0), 0);
    for (unsigned i = 0; i < 100; i++) {
        unsigned node = place(f, i);
        assert_int_equal(place(g, i), node);
        assert_string_equal(f->answer.data, g->answer.data);
        tell(f, KW_KUBE_ADDED, i, node, i);
        tell(g, KW_KUBE_ADDED, i, node, i);
        if (i % 10 == 0)
            ext_flights_publish(g->flights, NULL, i);
    }
    assert_int_equal(tear_down(&other), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_was_learnt_counts),
        cmocka_unit_test(test_pods_are_read),
        cmocka_unit_test_setup_teardown(test_a_burst_is_spread, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_burst_counts_by_what_was_learnt, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_a_burst_without_end, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_leaves_no_trace, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_what_a_dry_run_would_have_saved, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_the_api_server_goes_and_comes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_replicas_agree, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
