/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nothing here is lost by an outage. Without the API server, pods and targets stay as last seen,
 * their records go on being fed, and nothing is written; without Redis, what is known stays and is
 * written where a spec changes. The first loop waits until both lists are complete: half a view
 * would say "no pods match" of VPAs whose pods are yet to come.
 *
 * Calls of one loop are bounded (50 a second, as client-go's default for the stock recommender, and
 * at least 100); what does not fit waits for the next. A call that gets no answer ends the loop's
 * calls, so that a dead API server costs one time-out and not one for each VPA.
 */
#include "vpa-recommender/vpa_client.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "api/vpa.h"
#include "common/buf.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "vpa-recommender/cluster.h"
#include "vpa-recommender/matching.h"
#include "vpa-recommender/recommend.h"
#include "vpa-recommender/targets.h"

#define CALLS_PER_SECOND 50
#define CALLS_MIN        100

/** A selector of a controller never changes (apps/v1); a target that is replaced under the same
 * name may. */
#define TARGET_FRESH_MS INT64_C(300000)

/** Instances not seen for a day are forgotten: their memory window is over. */
#define INSTANCE_AGE_MS INT64_C(86400000)

const char *const rec_patch_fate_names[REC_PATCH__MAX] = {
    [REC_PATCH_WRITTEN] = "written",
    [REC_PATCH_UNCHANGED] = "unchanged",
    [REC_PATCH_FAILED] = "failed",
    [REC_PATCH_CONFLICT] = "conflict",
};
_Static_assert(REC_PATCH__MAX == 4, "a fate without a name");

struct rec_vpa_client {
    struct rec_vpa_client_conf conf;
    struct rec_api api;
    struct kw_kube *kube;
    struct kw_kube_watch *watches[REC_COLLECTION__MAX];
    struct rec_events *events;
    struct rec_cluster *cluster;
    struct rec_owners *owners;
    struct rec_covers covers;
    bool no_generation; /**< the CRD is older than status.observedGeneration and drops it */
    uint64_t feeds[REC_FEED__MAX];
    uint64_t patches[REC_PATCH__MAX];
    /* of one feeding */
    int64_t now_unix_ms;
    int feed_rc;
};

static void on_vpas(void *user, enum kw_kube_event event, const char *json, size_t len)
{
    struct rec_vpa_client *client = user;

    rec_events_push(client->events, REC_VPAS, event, json, len);
}

static void on_pods(void *user, enum kw_kube_event event, const char *json, size_t len)
{
    struct rec_vpa_client *client = user;

    rec_events_push(client->events, REC_PODS, event, json, len);
}

static int start_watch(struct rec_vpa_client *client, enum rec_collection collection,
                       const char *root, const char *plural, kw_kube_watch_fn fn,
                       struct kw_err *err)
{
    const char *namespace_ = client->conf.namespace_;
    char path[KW_KUBE_PATH_MAX];

    if (namespace_ != NULL && !kw_kube_name_ok(namespace_))
        return kw_err_set(err, -EINVAL, "\"%s\" is no name of a namespace", namespace_);
    if (namespace_ != NULL)
        (void)snprintf(path, sizeof(path), "%s/namespaces/%s/%s", root, namespace_, plural);
    else
        (void)snprintf(path, sizeof(path), "%s/%s", root, plural);
    return kw_kube_watch_start(&client->conf.kube, path, NULL, fn, client,
                               &client->watches[collection], err);
}

int rec_vpa_client_new(const struct rec_vpa_client_conf *conf, struct rec_vpa_client **ret,
                       struct kw_err *err)
{
    kw_cleanup(rec_vpa_client_free) struct rec_vpa_client *client = calloc(1, sizeof(*client));

    if (client == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    client->conf = *conf;
    struct kw_kube_conf kube = conf->kube; /* the watches have threads, and an end of their own */
    kube.cancel_fd = conf->cancel_fd;
    kube.timeout_ms = conf->timeout_ms;
    int rc = kw_kube_new(&kube, &client->kube, err);
    if (rc < 0)
        return rc;
    client->api.kube = client->kube;
    client->events = rec_events_new(conf->wake, conf->user);
    client->cluster = rec_cluster_new(conf->recommender);
    client->owners = rec_owners_new();
    if (client->events == NULL || client->cluster == NULL || client->owners == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    rc = start_watch(client, REC_VPAS, KW_VPA_PATH, "verticalpodautoscalers", on_vpas, err);
    if (rc == 0)
        rc = start_watch(client, REC_PODS, "/api/v1", "pods", on_pods, err);
    if (rc < 0)
        return rc;
    *ret = KW_TAKE_PTR(client);
    return 0;
}

void rec_vpa_client_free(struct rec_vpa_client **client)
{
    struct rec_vpa_client *old = *client;

    *client = NULL;
    if (old == NULL)
        return;
    if (old->events != NULL)
        rec_events_close(old->events);
    for (size_t i = 0; i < REC_COLLECTION__MAX; i++)
        kw_kube_watch_free(&old->watches[i]);
    rec_covers_clear(&old->covers);
    rec_cluster_free(&old->cluster);
    rec_owners_free(&old->owners);
    rec_events_free(&old->events);
    kw_kube_free(&old->kube);
    free(old);
}

const char *rec_vpa_client_server(const struct rec_vpa_client *client)
{
    return kw_kube_server(client->kube);
}

enum rec_drained rec_vpa_client_drain(struct rec_vpa_client *client, struct kw_err *err)
{
    enum rec_drained drained = REC_DRAINED_NOTHING;
    bool synced = rec_cluster_synced(client->cluster);
    struct rec_event event;

    /* what the covers borrow is about to change */
    client->covers.n = 0;
    while (rec_events_take(client->events, &event)) {
        if (event.type == KW_KUBE_DOWN) {
            const char *cause = event.cause != NULL ? event.cause : "no answer";
            /* pods are always there; VPAs where their CRDs are installed */
            bool no_crds = event.collection == REC_VPAS && strstr(cause, ": 404") != NULL;
            (void)kw_err_set(err, no_crds ? -ENOENT : -ENETDOWN, "%s: %s",
                             rec_collection_names[event.collection], cause);
            drained = REC_DRAINED_DOWN;
        }
        if (rec_cluster_apply(client->cluster, &event, kw_now_unix_ms()) > 0 &&
            drained == REC_DRAINED_NOTHING)
            drained = REC_DRAINED_CHANGED;
    }
    if (!synced)
        return rec_cluster_synced(client->cluster) ? REC_DRAINED_CHANGED
               : drained == REC_DRAINED_DOWN       ? REC_DRAINED_DOWN
                                                   : REC_DRAINED_NOTHING;
    return drained;
}

bool rec_vpa_client_up(const struct rec_vpa_client *client)
{
    return rec_cluster_up(client->cluster, REC_VPAS) && rec_cluster_up(client->cluster, REC_PODS);
}

bool rec_vpa_client_synced(const struct rec_vpa_client *client)
{
    return rec_cluster_synced(client->cluster);
}

/** Whether the program was asked to stop. */
static bool is_cancelled(const struct rec_vpa_client *client)
{
    struct pollfd cancel = {.fd = client->conf.cancel_fd, .events = POLLIN};

    return client->conf.cancel_fd > 0 && poll(&cancel, 1, 0) > 0;
}

static int resolve(struct rec_vpa_client *client, struct rec_vpa *vpa, int64_t now_unix_ms,
                   struct kw_err *err)
{
    int64_t age_ms = now_unix_ms - vpa->target.asked_unix_ms; /* negative: our clock was set back */

    if (vpa->target.state == REC_TARGET_FOUND && age_ms >= 0 && age_ms < TARGET_FRESH_MS)
        return 0;
    int rc = rec_target_resolve(&client->api, &vpa->object, now_unix_ms, &vpa->target, err);
    if (rc == -EAGAIN)
        return 0;
    return rc;
}

int rec_vpa_client_match(struct rec_vpa_client *client, int64_t now_unix_ms, struct kw_err *err)
{
    uint64_t calls = CALLS_PER_SECOND * client->conf.interval_ns / KW_NS_PER_S;
    int first = 0;

    client->covers.n = 0;
    if (!rec_cluster_synced(client->cluster))
        return 0;
    client->api.calls_left = !rec_vpa_client_up(client) ? 0
                             : calls > CALLS_MIN
                                 ? (unsigned)(calls < UINT32_MAX ? calls : UINT32_MAX)
                                 : CALLS_MIN;
    struct rec_vpa *vpa = rec_cluster_vpas(client->cluster);
    for (; vpa != NULL; vpa = vpa->next) {
        struct kw_err one = {0};
        int rc = resolve(client, vpa, now_unix_ms, &one);
        if (rc == -ECANCELED)
            return rc;
        if (rc < 0 && first == 0)
            first = kw_err_set(err, rc, "VPA %s/%s: %s", vpa->object.namespace_, vpa->object.name,
                               one.text);
        rec_scope_sweep(vpa->scope, now_unix_ms, INSTANCE_AGE_MS);
        rc = rec_covers_add(&client->covers, client->cluster, client->owners, &client->api, vpa,
                            now_unix_ms);
        if (rc < 0)
            return kw_err_set(err, rc, "out of memory");
    }
    rec_covers_sort(&client->covers);
    rec_owners_sweep(client->owners, now_unix_ms);
    return first;
}

/* ---- feeding ---- */

static void feed_record(void *user, const char *node, const struct kw_pod_record *record)
{
    struct rec_vpa_client *client = user;
    int rc = rec_covers_feed(&client->covers, node, record, client->conf.sample_interval_ms,
                             client->now_unix_ms, client->feeds);

    if (rc == -ENOMEM)
        client->feed_rc = rc;
}

/** Reads the records of the covers [from, to), all of one node, from what `node` published. */
static int feed_range(struct rec_vpa_client *client, struct rec_source *source, const char *node,
                      size_t from, size_t to, struct kw_err *err)
{
    kw_cleanup_free const char **ids = calloc(to - from + 1, sizeof(*ids));
    size_t n = 0;

    if (ids == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    for (size_t i = from; i < to; i++) {
        const char *uid = client->covers.items[i].pod->uid;
        if (n == 0 || strcmp(ids[n - 1], uid) != 0)
            ids[n++] = uid;
    }
    return rec_source_read(source, node, ids, n, feed_record, client, err);
}

/** Pods that are not bound to a node, as far as the API server knows, may be anywhere. */
static int feed_unbound(struct rec_vpa_client *client, struct rec_source *source, size_t n,
                        struct kw_err *err)
{
    kw_cleanup(rec_nodes_clear) struct rec_nodes nodes = {0};

    int rc = rec_source_nodes(source, &nodes, err);
    for (size_t i = 0; rc == 0 && n > 0 && i < nodes.n; i++)
        rc = feed_range(client, source, nodes.names[i], 0, n, err);
    return rc;
}

int rec_vpa_client_feed(struct rec_vpa_client *client, struct rec_source *source,
                        int64_t now_unix_ms, struct kw_err *err)
{
    const struct rec_covers *covers = &client->covers;
    char key[KW_KEY_MAX];
    size_t from = 0;

    client->now_unix_ms = now_unix_ms;
    client->feed_rc = 0;
    while (from < covers->n && *covers->items[from].pod->node == '\0')
        from++;
    int rc = feed_unbound(client, source, from, err);
    while (rc == 0 && from < covers->n) {
        const char *node = covers->items[from].pod->node;
        size_t to = from + 1;
        while (to < covers->n && strcmp(covers->items[to].pod->node, node) == 0)
            to++;
        if (is_cancelled(client))
            return -ECANCELED;
        if (kw_key_pods(key, node) >= 0) /* else no agent can have written there */
            rc = feed_range(client, source, node, from, to, err);
        from = to;
    }
    return rc == 0 && client->feed_rc < 0 ? kw_err_set(err, client->feed_rc, "out of memory") : rc;
}

/* ---- writing ---- */

/** Sends the patch and takes over what the API server has made of it. */
static int patch(struct rec_vpa_client *client, struct rec_vpa *vpa, struct kw_vpa_status *status,
                 struct kw_err *err)
{
    kw_cleanup(kw_buf_free) struct kw_buf reply = {0};
    kw_cleanup_free char *text = NULL;
    struct kw_vpa answered;
    char path[KW_KUBE_PATH_MAX];
    size_t len = 0;

    if (kw_vpa_status_path(path, sizeof(path), vpa->object.namespace_, vpa->object.name) < 0)
        return kw_err_set(err, -EINVAL, "a name that is none");
    int rc = kw_vpa_status_patch(status, vpa->object.version, &text, &len);
    if (rc < 0)
        return kw_err_set(err, rc, "its status cannot be written as JSON");
    if (client->api.calls_left == 0)
        return -EAGAIN;
    client->api.calls_left--;
    client->api.calls++;
    rc = kw_kube_send(client->kube, "PATCH", path, "application/json-patch+json", text, len, &reply,
                      err);
    client->api.errors += rc < 0 && rc != -ENOENT && rc != -EEXIST;
    if (rc < 0)
        return rc;
    if (kw_vpa_decode(reply.data, reply.len, &answered, NULL) == 0) {
        if (status->observed_generation > 0)
            client->no_generation = answered.status.observed_generation == 0;
        kw_vpa_status_clear(status);
        *status = answered.status;
        answered.status = (struct kw_vpa_status){0};
        free(vpa->object.version);
        vpa->object.version = KW_TAKE_PTR(answered.version);
        kw_vpa_clear(&answered);
    }
    kw_vpa_status_clear(&vpa->object.status);
    vpa->object.status = *status;
    *status = (struct kw_vpa_status){0};
    return 0;
}

static int write_one(struct rec_vpa_client *client, struct rec_vpa *vpa, int64_t now_unix_ms,
                     struct kw_err *err)
{
    kw_cleanup(kw_vpa_status_clear) struct kw_vpa_status status = {0};
    struct rec_recommend_input input = {
        .vpa = &vpa->object,
        .scope = vpa->scope,
        .unsupported = vpa->target.state == REC_TARGET_UNSUPPORTED ? vpa->target.why : NULL,
        .n_pods = vpa->n_pods,
        .n_names = vpa->n_names,
        .names = vpa->names,
        .now_unix_ms = now_unix_ms,
    };

    int rc = rec_recommend(&input, &status);
    if (rc < 0)
        return kw_err_set(err, rc, "out of memory");
    if (client->no_generation)
        status.observed_generation = 0;
    if (kw_vpa_status_equal(&status, &vpa->object.status)) {
        client->patches[REC_PATCH_UNCHANGED]++;
        return 0;
    }
    rc = patch(client, vpa, &status, err);
    if (rc == 0)
        client->patches[REC_PATCH_WRITTEN]++;
    else if (rc == -EEXIST)
        client->patches[REC_PATCH_CONFLICT]++;
    else if (rc != -ENOENT && rc != -EAGAIN) /* just deleted; out of budget */
        client->patches[REC_PATCH_FAILED]++;
    return rc == -ENOENT || rc == -EAGAIN || rc == -EEXIST ? 0 : rc;
}

int rec_vpa_client_write(struct rec_vpa_client *client, int64_t now_unix_ms, struct kw_err *err)
{
    int first = 0;

    if (!rec_cluster_synced(client->cluster) || !rec_vpa_client_up(client))
        return 0;
    struct rec_vpa *vpa = rec_cluster_vpas(client->cluster);
    for (; vpa != NULL; vpa = vpa->next) {
        struct kw_err one = {0};
        if (client->conf.lease != NULL && !kw_kube_lease_held(client->conf.lease))
            break; /* the leader writes the same */
        if (vpa->target.state == REC_TARGET_UNKNOWN)
            continue;
        int rc = write_one(client, vpa, now_unix_ms, &one);
        if (rc < 0 && first == 0)
            first = kw_err_set(err, rc, "VPA %s/%s: %s", vpa->object.namespace_, vpa->object.name,
                               one.text);
        if (rec_api_unanswered(rc))
            break;
    }
    return first;
}

int rec_vpa_client_learn(struct rec_vpa_client *client, struct rec_learning *learning,
                         int64_t now_unix_ms, struct kw_err *err)
{
    const struct kw_kube_lease *lease = client->conf.lease;

    /* VPAs are not needed for it: their CRDs may not be there */
    if (!rec_cluster_listed(client->cluster, REC_PODS) ||
        (lease != NULL && !kw_kube_lease_held(lease))) {
        rec_learning_clear(learning);
        return 0;
    }
    return rec_learning_loop(learning, client->cluster, client->conf.interval_ns, now_unix_ms, err);
}

void rec_vpa_client_stats(const struct rec_vpa_client *client, struct rec_stats *stats)
{
    stats->cluster = true;
    stats->synced = rec_cluster_synced(client->cluster);
    for (enum rec_collection i = 0; i < REC_COLLECTION__MAX; i++) {
        stats->up[i] = rec_cluster_up(client->cluster, i);
        stats->undecodable[i] = rec_events_undecodable(client->events, i);
    }
    stats->api_calls = client->api.calls;
    stats->api_errors = client->api.errors;
    stats->pods = rec_cluster_pod_count(client->cluster);
    stats->covered = client->covers.n;
    memcpy(stats->feeds, client->feeds, sizeof(stats->feeds));
    memcpy(stats->patches, client->patches, sizeof(stats->patches));
    memset(stats->vpas, 0, sizeof(stats->vpas));
    stats->containers = 0;
    stats->instances = 0;
    const struct rec_vpa *vpa = rec_cluster_vpas(client->cluster);
    for (; vpa != NULL; vpa = vpa->next) {
        bool has = vpa->object.status.n_containers > 0, matches = vpa->n_pods > 0;
        bool unsupported = vpa->target.state == REC_TARGET_UNSUPPORTED;
        stats->vpas[vpa->object.mode][has][matches][unsupported]++;
        stats->instances += rec_scope_instances(vpa->scope);
        const struct rec_container *container = rec_scope_containers(vpa->scope);
        for (; container != NULL; container = container->next)
            stats->containers++;
    }
}
