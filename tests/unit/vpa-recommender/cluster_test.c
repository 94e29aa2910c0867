/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/cmocka.h"
#include "vpa-recommender/cluster.h"
#include "vpa-recommender/matching.h"

#define NOW INT64_C(1795982400000)

static struct rec_events *events;
static struct rec_cluster *cluster;
static struct rec_owners *owners;
static unsigned wakes;
static int64_t now;

static void wake(void *user)
{
    (void)user;
    wakes++;
}

static int setup(void **state)
{
    (void)state;
    wakes = 0;
    now = NOW;
    events = rec_events_new(wake, NULL);
    cluster = rec_cluster_new("kwatt");
    owners = rec_owners_new();
    return events == NULL || cluster == NULL || owners == NULL ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    rec_events_free(&events);
    rec_cluster_free(&cluster);
    rec_owners_free(&owners);
    return 0;
}

/** Pushes as a watch would, and applies. @return what the last apply returned. */
static int push(enum rec_collection collection, enum kw_kube_event type, const char *json)
{
    struct rec_event event;
    int rc = 0;

    rec_events_push(events, collection, type, json, json == NULL ? 0 : strlen(json));
    while (rec_events_take(events, &event))
        rc = rec_cluster_apply(cluster, &event, now);
    return rc;
}

static int vpa(enum kw_kube_event type, const char *name, const char *uid, int generation,
               const char *recommender, const char *target)
{
    char text[512];
    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"shop\",\"uid\":\"%s\","
                   "\"generation\":%d},\"spec\":{\"recommenders\":[{\"name\":\"%s\"}],"
                   "\"targetRef\":{\"kind\":\"StatefulSet\",\"name\":\"%s\"}}}",
                   name, uid, generation, recommender, target);
    return push(REC_VPAS, type, text);
}

static int pod(enum kw_kube_event type, const char *uid, const char *node, const char *app,
               const char *owner)
{
    char text[1024];
    (void)snprintf(
        text, sizeof(text),
        "{\"metadata\":{\"name\":\"p-%s\",\"namespace\":\"shop\",\"uid\":\"%s\","
        "\"labels\":{\"app\":\"%s\"},\"ownerReferences\":[{\"controller\":true,\"kind\":"
        "\"StatefulSet\",\"name\":\"%s\",\"uid\":\"u-%s\"}]},\"spec\":{\"nodeName\":\"%s\","
        "\"containers\":[{\"name\":\"main\"}],\"initContainers\":[{\"name\":\"first\"}]},"
        "\"status\":{\"phase\":\"Running\",\"containerStatuses\":[{\"name\":\"main\","
        "\"containerID\":\"containerd://c-%s\"}],\"initContainerStatuses\":[{\"name\":\"first\","
        "\"containerID\":\"containerd://i-%s\"}]}}",
        uid, uid, app, owner, owner, node, uid, uid);
    return push(REC_PODS, type, text);
}

static size_t count_pods(void)
{
    size_t n = 0;
    for (const struct rec_pod *at = rec_cluster_pods(cluster, "shop"); at != NULL; at = at->next)
        n++;
    assert_int_equal(n, rec_cluster_pod_count(cluster));
    return n;
}

static void test_lists_and_rounds(void **state)
{
    (void)state;
    assert_false(rec_cluster_synced(cluster));
    (void)push(REC_PODS, KW_KUBE_SYNC_BEGIN, NULL);
    for (int i = 0; i < 100; i++) {
        char uid[16];
        (void)snprintf(uid, sizeof(uid), "%d", i);
        assert_int_equal(pod(KW_KUBE_ADDED, uid, "n", "a", "s"), 0);
    }
    (void)push(REC_PODS, KW_KUBE_SYNC_END, NULL);
    assert_false(rec_cluster_synced(cluster)); /* VPAs are still to come */
    (void)push(REC_VPAS, KW_KUBE_SYNC_BEGIN, NULL);
    assert_int_equal(vpa(KW_KUBE_ADDED, "v", "1", 1, "kwatt", "s"), 1);
    (void)push(REC_VPAS, KW_KUBE_SYNC_END, NULL);
    assert_true(rec_cluster_synced(cluster));
    assert_int_equal(count_pods(), 100);
    /* a watch that broke lists again: until it ends nothing is lost, then what it did not name is
     */
    (void)push(REC_PODS, KW_KUBE_DOWN, "connection reset");
    assert_false(rec_cluster_up(cluster, REC_PODS));
    /* a try to list is no success yet: what is not there (CRDs) is tried again and again */
    (void)push(REC_PODS, KW_KUBE_SYNC_BEGIN, NULL);
    assert_false(rec_cluster_up(cluster, REC_PODS));
    (void)push(REC_PODS, KW_KUBE_DOWN, "404");
    (void)push(REC_PODS, KW_KUBE_SYNC_BEGIN, NULL);
    (void)pod(KW_KUBE_ADDED, "7", "n", "a", "s");
    (void)pod(KW_KUBE_ADDED, "new", "n", "a", "s");
    assert_false(rec_cluster_up(cluster, REC_PODS));
    assert_int_equal(count_pods(), 101);
    (void)push(REC_PODS, KW_KUBE_SYNC_END, NULL);
    assert_true(rec_cluster_up(cluster, REC_PODS));
    (void)push(REC_PODS, KW_KUBE_DOWN, "connection reset");
    (void)push(REC_PODS, KW_KUBE_UP, NULL);
    assert_true(rec_cluster_up(cluster, REC_PODS));
    assert_int_equal(count_pods(), 2);
    (void)pod(KW_KUBE_DELETED, "7", "n", "a", "s");
    (void)pod(KW_KUBE_DELETED, "never", "n", "a", "s");
    (void)pod(KW_KUBE_DELETED, "new", "n", "a", "s");
    assert_int_equal(count_pods(), 0);
    assert_true(wakes > 100);
}

static void test_vpas(void **state)
{
    (void)state;
    assert_int_equal(vpa(KW_KUBE_ADDED, "v", "1", 1, "kwatt", "s"), 1);
    assert_int_equal(vpa(KW_KUBE_ADDED, "w", "2", 1, "default", "s"), 0);
    struct rec_vpa *known = rec_cluster_vpas(cluster);
    assert_non_null(known);
    assert_null(known->next);
    struct rec_scope *scope = known->scope;
    /* our own write, then a change by the user: the history stays */
    assert_int_equal(vpa(KW_KUBE_MODIFIED, "v", "1", 1, "kwatt", "s"), 0);
    assert_int_equal(vpa(KW_KUBE_MODIFIED, "v", "1", 2, "kwatt", "s"), 1);
    assert_ptr_equal(rec_cluster_vpas(cluster)->scope, scope);
    /* another target, another object of the same name: history of something else */
    struct rec_reading reading = {.epoch = 1, .t_unix_ms = NOW, .memory_bytes = 1};
    (void)rec_scope_feed(scope, "main", "c", &reading, 60000, NOW);
    assert_int_equal(vpa(KW_KUBE_MODIFIED, "v", "1", 3, "kwatt", "t"), 1);
    assert_null(rec_scope_containers(rec_cluster_vpas(cluster)->scope));
    (void)rec_scope_feed(rec_cluster_vpas(cluster)->scope, "main", "c", &reading, 60000, NOW);
    assert_int_equal(vpa(KW_KUBE_ADDED, "v", "9", 1, "kwatt", "t"), 1);
    assert_null(rec_scope_containers(rec_cluster_vpas(cluster)->scope));
    /* it names somebody else now */
    assert_int_equal(vpa(KW_KUBE_MODIFIED, "v", "9", 2, "default", "t"), 0);
    assert_null(rec_cluster_vpas(cluster));
    (void)vpa(KW_KUBE_ADDED, "v", "9", 3, "kwatt", "t");
    (void)vpa(KW_KUBE_DELETED, "v", "9", 3, "kwatt", "t");
    assert_null(rec_cluster_vpas(cluster));
}

static void test_undecodable(void **state)
{
    (void)state;
    assert_int_equal(push(REC_PODS, KW_KUBE_ADDED, "{\"metadata\":1}"), 0);
    assert_int_equal(push(REC_VPAS, KW_KUBE_ADDED, "nonsense"), 0);
    assert_int_equal(rec_events_undecodable(events, REC_PODS), 1);
    assert_int_equal(rec_events_undecodable(events, REC_VPAS), 1);
    rec_events_close(events);
    rec_events_push(events, REC_PODS, KW_KUBE_SYNC_BEGIN, NULL, 0);
    struct rec_event event;
    assert_false(rec_events_take(events, &event));
}

static void cover(struct rec_covers *covers)
{
    struct rec_api api = {0}; /* no calls allowed: what is not known is decided by labels */
    const char *why;
    struct rec_vpa *at = rec_cluster_vpas(cluster);

    for (; at != NULL; at = at->next) {
        if (at->target.state == REC_TARGET_UNKNOWN) {
            assert_int_equal(kw_selector_parse("app=web", 7, &at->target.selector, &why), 0);
            at->target.state = REC_TARGET_FOUND;
        }
        assert_int_equal(rec_covers_add(covers, cluster, owners, &api, at, NOW), 0);
    }
    rec_covers_sort(covers);
}

static int feed(const struct rec_covers *covers, const char *node, char *uid, char *id, char *name,
                int64_t t_ms, uint64_t cpu_ms)
{
    struct kw_container_record container = {
        .id = id, .name = name, .cpu_ns = cpu_ms * 1000000, .memory_bytes = 1000};
    struct kw_pod_record record = {.id = uid,
                                   .epoch = 1,
                                   .t_unix_ms = NOW + t_ms,
                                   .n_containers = 1,
                                   .containers = &container};
    uint64_t tally[REC_FEED__MAX] = {0};
    return rec_covers_feed(covers, node, &record, 60000, NOW, tally);
}

static void test_records_find_their_containers(void **state)
{
    struct rec_covers covers = {0};
    char first[] = "1", second[] = "2", unbound[] = "3", foreign[] = "4", c1[] = "c-1",
         i1[] = "i-1", c2[] = "c-2", strange[] = "strange", main[] = "main", none[] = "",
         nothing[] = "nothing";

    (void)state;
    (void)vpa(KW_KUBE_ADDED, "v", "1", 1, "kwatt", "s");
    (void)vpa(KW_KUBE_ADDED, "w", "2", 1, "kwatt", "s");
    (void)pod(KW_KUBE_ADDED, "1", "node-b", "web", "s");
    (void)pod(KW_KUBE_ADDED, "2", "node-a", "web", "s");
    (void)pod(KW_KUBE_ADDED, "3", "", "web", "s");
    (void)pod(KW_KUBE_ADDED, "4", "node-a", "other", "s");
    cover(&covers);
    assert_int_equal(covers.n, 6);
    struct rec_vpa *at = rec_cluster_vpas(cluster);
    assert_int_equal(at->n_pods, 3);
    assert_int_equal(at->n_names, 1);
    assert_string_equal(at->names[0], "main");

    assert_int_equal(feed(&covers, "node-b", first, c1, none, -60000, 0), 0);
    assert_int_equal(feed(&covers, "node-b", first, c1, none, 0, 30000), 0);
    /* both VPAs cover the pod */
    for (at = rec_cluster_vpas(cluster); at != NULL; at = at->next)
        assert_int_equal(rec_scope_find(at->scope, "main")->usage.samples, 1);
    /* a node may not speak for a pod of another */
    assert_int_equal(feed(&covers, "node-a", first, c1, none, 0, 90000), -ENOENT);
    assert_int_equal(feed(&covers, "node-z", second, c2, none, 0, 90000), -ENOENT);
    assert_int_equal(feed(&covers, "node-a", foreign, strange, main, 0, 90000), -ENOENT);
    /* not bound as far as the API server knows: any node, and the agent's own name */
    assert_int_equal(feed(&covers, "node-z", unbound, strange, main, 0, 90000), 0);
    /* init containers and names that the pod has not */
    assert_int_equal(feed(&covers, "node-b", first, i1, none, 0, 90000), 0);
    assert_int_equal(feed(&covers, "node-b", first, strange, nothing, 0, 90000), 0);
    at = rec_cluster_vpas(cluster);
    assert_null(rec_scope_find(at->scope, "first"));
    assert_null(rec_scope_find(at->scope, "nothing"));
    assert_int_equal(rec_scope_instances(at->scope), 2);
    rec_scope_sweep(at->scope, NOW + 10, 5);
    assert_int_equal(rec_scope_instances(at->scope), 0);
    assert_int_equal(rec_scope_find(at->scope, "main")->usage.samples, 1);
    rec_covers_clear(&covers);
}

/** @param started seconds after NOW; < 0: it has not. */
static void live(enum kw_kube_event type, const char *uid, const char *owner, int started,
                 const char *phase)
{
    char text[512], start[64] = "";
    time_t at = NOW / 1000 + started;
    struct tm utc;

    assert_non_null(gmtime_r(&at, &utc));
    if (started >= 0)
        (void)strftime(start, sizeof(start), "\"startTime\":\"%Y-%m-%dT%H:%M:%SZ\",", &utc);
    (void)snprintf(text, sizeof(text),
                   "{\"metadata\":{\"name\":\"p-%s\",\"namespace\":\"shop\",\"uid\":\"%s\","
                   "\"ownerReferences\":[{\"controller\":true,\"kind\":\"Job\",\"name\":\"%s\","
                   "\"uid\":\"o\"}]},\"spec\":{\"containers\":[]},\"status\":{%s\"phase\":\"%s\"}}",
                   uid, uid, owner, start, phase);
    (void)push(REC_PODS, type, text);
}

/** What rec_cluster_lives tells of one workload. */
struct seen {
    const char *key;
    size_t running, ended;
    int64_t lived_ms; /**< of those that ended */
};

static void on_life(void *user, const char *key, const struct rec_life *life)
{
    struct seen *seen = user;

    if (strcmp(key, seen->key) != 0)
        return;
    seen->running += life->ended_unix_ms == 0;
    seen->ended += life->ended_unix_ms != 0;
    seen->lived_ms += life->ended_unix_ms == 0 ? 0 : life->ended_unix_ms - life->started_unix_ms;
}

static void expect_lives(const char *key, size_t running, size_t ended, int64_t lived_ms)
{
    struct seen seen = {.key = key};

    (void)rec_cluster_lives(cluster, on_life, &seen);
    assert_int_equal(seen.running, running);
    assert_int_equal(seen.ended, ended);
    assert_int_equal(seen.lived_ms, lived_ms);
}

static void test_lives(void **state)
{
    (void)state;
    static const char press[] = "kwatt:v1:profile:shop/Job/press";
    struct seen none = {.key = press};

    assert_int_equal(rec_cluster_lives(cluster, on_life, &none), 0); /* nobody has watched yet */
    (void)push(REC_PODS, KW_KUBE_SYNC_BEGIN, NULL);
    live(KW_KUBE_ADDED, "long-over", "press", 0, "Succeeded");
    live(KW_KUBE_ADDED, "a", "press", 0, "Running");
    live(KW_KUBE_ADDED, "b", "press", 10, "Running");
    live(KW_KUBE_ADDED, "c", "press", 20, "Running");
    live(KW_KUBE_ADDED, "waits", "press", -1, "Pending");
    live(KW_KUBE_ADDED, "alien", "other", 0, "Running");
    now += 30000;
    (void)push(REC_PODS, KW_KUBE_SYNC_END, NULL);
    assert_int_equal(rec_cluster_lives(cluster, on_life, &none), NOW + 30000);
    expect_lives(press, 3, 0, 0);
    /* one runs to its end, and is taken away later */
    now = NOW + 60000;
    live(KW_KUBE_MODIFIED, "a", "press", 0, "Succeeded");
    expect_lives(press, 2, 1, 60000);
    now += 5000;
    live(KW_KUBE_MODIFIED, "a", "press", 0, "Succeeded");
    live(KW_KUBE_DELETED, "a", "press", 0, "Succeeded");
    live(KW_KUBE_DELETED, "long-over", "press", 0, "Succeeded");
    expect_lives(press, 2, 1, 60000);
    /* one is deleted as it runs; one that never began was no life; one fails */
    now = NOW + 110000;
    live(KW_KUBE_DELETED, "b", "press", 10, "Running");
    live(KW_KUBE_DELETED, "waits", "press", -1, "Pending");
    expect_lives(press, 1, 2, 160000);
    live(KW_KUBE_MODIFIED, "c", "press", 20, "Failed");
    expect_lives(press, 0, 3, 250000);
    expect_lives("kwatt:v1:profile:shop/Job/other", 1, 0, 0);
    /* what a list does not name any more has ended by then */
    (void)push(REC_PODS, KW_KUBE_SYNC_BEGIN, NULL);
    now = NOW + 120000;
    (void)push(REC_PODS, KW_KUBE_SYNC_END, NULL);
    expect_lives("kwatt:v1:profile:shop/Job/other", 0, 1, 120000);
    assert_int_equal(rec_cluster_lives(cluster, on_life, &none), NOW + 30000);
}

/** More than are kept: from when on all are known moves on. */
static void test_many_ends(void **state)
{
    (void)state;
    struct rec_ends ends = {.since_unix_ms = NOW};
    struct kw_owner_ref owner = {.kind = (char *)"Job", .name = (char *)"press"};
    const struct kw_pod ended = {
        .namespace_ = (char *)"shop", .started_unix_ms = NOW, .has_owner = true, .owner = owner};
    struct seen seen = {.key = "kwatt:v1:profile:shop/Job/press"};

    for (int64_t i = 1; i <= REC_ENDS_MAX; i++)
        rec_ends_note(&ends, &ended, NOW + i);
    assert_int_equal(ends.since_unix_ms, NOW);
    for (int64_t i = 1; i <= 7; i++)
        rec_ends_note(&ends, &ended, NOW + REC_ENDS_MAX + i);
    assert_int_equal(ends.since_unix_ms, NOW + 7);
    rec_ends_each(&ends, on_life, &seen);
    assert_int_equal(seen.ended, REC_ENDS_MAX);
    rec_ends_clear(&ends);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_lists_and_rounds, setup, teardown),
        cmocka_unit_test_setup_teardown(test_lives, setup, teardown),
        cmocka_unit_test(test_many_ends),
        cmocka_unit_test_setup_teardown(test_vpas, setup, teardown),
        cmocka_unit_test_setup_teardown(test_undecodable, setup, teardown),
        cmocka_unit_test_setup_teardown(test_records_find_their_containers, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
