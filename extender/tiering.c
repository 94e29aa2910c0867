/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replicas all watch the nodes and so know what was written and when, whoever wrote: one that takes
 * over goes on where the other ended. That never two of them write is the Lease's: each write is
 * begun while it is held, and ends before another can hold it, since a call takes no longer than
 * the time between the renew deadline and the lease's end.
 */
#include "extender/tiering.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/backoff.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "common/kube_lease_news.h"
#include "common/worker.h"
#include "extender/tiers.h"

#define TIMEOUT_MS     5000
#define BACKOFF_MIN_MS 1000
#define BACKOFF_MAX_MS 60000

struct ext_tiering {
    struct ext_tiering_conf conf;
    struct ext_tier_policy policy;
    struct kw_kube *kube;
    struct kw_kube_lease *lease; /**< NULL: no election */
    _Atomic uint64_t default_mcpu;
    int cancel_fd;
    bool started;
    struct kw_worker worker;
    /* of the thread */
    struct kw_backoff backoff;
    struct kw_lease_seen seen; /**< as it was told */
    bool failing_said;
};

static bool leads(const struct ext_tiering *tiering)
{
    return tiering->lease == NULL || kw_kube_lease_held(tiering->lease);
}

/** Says who writes, once each time that it is another. */
static void tell_leader(struct ext_tiering *tiering)
{
    static const struct kw_lease_words words = {
        .taken = "this replica writes the tiers of nodes",
        .lost = "this replica writes tiers of nodes no longer",
        .others = "another replica writes the tiers of nodes",
        .unusable = "the lease cannot be used; this replica writes no tiers of nodes",
    };
    struct kw_kube_lease_status status;

    tiering->conf.stats->tiers_leader = leads(tiering);
    if (tiering->lease == NULL)
        return;
    kw_kube_lease_status(tiering->lease, &status);
    struct kw_lease_line line =
        kw_lease_line(kw_lease_news(&tiering->seen, &status), &words, &status);
    if (line.text != NULL)
        kw_log_write(tiering->conf.log, line.level, line.text,
                     KW_FIELDS(kw_str("lease", kw_kube_lease_name(tiering->lease)), line.why));
}

/** Writes one label. @return 0, also where the node is gone; as kw_kube_send. */
static int write_tier(struct ext_tiering *tiering, const struct ext_tier_order *order,
                      struct kw_err *err)
{
    kw_cleanup(kw_buf_free) struct kw_buf reply = {0};
    char path[sizeof("/api/v1/nodes/") + KW_NODE_NAME_MAX];
    char body[96];
    char value[8] = "null";

    if (order->tier >= 0)
        (void)snprintf(value, sizeof(value), "\"%d\"", order->tier);
    int len = snprintf(body, sizeof(body),
                       "{\"metadata\":{\"labels\":{\"" KW_LABEL_POWER_TIER "\":%s}}}", value);
    (void)snprintf(path, sizeof(path), "/api/v1/nodes/%.*s", KW_NODE_NAME_MAX, order->node);
    int rc = kw_kube_send(tiering->kube, "PATCH", path, "application/merge-patch+json", body,
                          (size_t)len, &reply, err);
    return rc == -ENOENT ? 0 : rc;
}

/** Looks at all nodes. @param ret EXT_TIER_WRITES_MAX of them. @return how many are to be written.
 */
static size_t plan(struct ext_tiering *tiering, struct ext_tier_order *ret)
{
    const struct ext_tiering_conf *conf = &tiering->conf;
    uint64_t mcpu = conf->settings.mcpu > 0
                        ? conf->settings.mcpu
                        : ext_typical_mcpu(conf->typical, tiering->default_mcpu);
    int64_t now_ns = (int64_t)kw_now_ns();
    size_t slot = 0;
    size_t n = 0;
    size_t due = 0;
    const struct ext_snapshot *snapshot = kw_snapshot_acquire(conf->snapshot, &slot);
    kw_cleanup_free int8_t *tiers = snapshot == NULL ? NULL : malloc(snapshot->n + 1);

    conf->stats->tiers_mcpu = mcpu;
    /* rooms under caps that come back within seconds of a start change no label */
    bool settled = tiers != NULL && (snapshot->caps == NULL || snapshot->caps->n_unseen == 0);
    if (settled && ext_tiers_rank(snapshot, (double)mcpu, now_ns, tiers) == 0)
        n = ext_capping_plan_tiers(conf->capping, snapshot, tiers, &tiering->policy,
                                   conf->settings.per_s, now_ns, ret, &due);
    kw_snapshot_release(conf->snapshot, slot);
    conf->stats->tiers_due = due;
    return n;
}

/** Writes what is due now, in a second or less where nothing fails. */
static void work(struct ext_tiering *tiering)
{
    struct ext_tier_order orders[EXT_TIER_WRITES_MAX];
    struct ext_stats *stats = tiering->conf.stats;
    size_t n = plan(tiering, orders);
    uint64_t pace_ns = KW_NS_PER_S / tiering->conf.settings.per_s;

    for (size_t i = 0; i < n && leads(tiering) && !kw_worker_stopped(&tiering->worker); i++) {
        struct kw_err err = {0};
        int rc = write_tier(tiering, &orders[i], &err);
        if (rc == -ECANCELED)
            return;
        stats->tier_writes++;
        kw_worker_wait_ns(&tiering->worker, pace_ns);
        if (rc == 0) {
            kw_backoff_reset(&tiering->backoff);
            tiering->failing_said = false;
            continue;
        }
        stats->tier_write_failures++;
        if (!tiering->failing_said)
            kw_log_warn(tiering->conf.log, "cannot write the tier of a node",
                        kw_str("node", orders[i].node), kw_str("error", err.text));
        tiering->failing_said = true;
        kw_worker_wait_ns(&tiering->worker,
                          kw_backoff_next_ms(&tiering->backoff, kw_random_u32()) * KW_NS_PER_MS);
        return;
    }
}

static void *run(void *user)
{
    struct ext_tiering *tiering = user;

    while (!kw_worker_stopped(&tiering->worker)) {
        uint64_t begin_ns = kw_now_ns();
        tell_leader(tiering);
        if (leads(tiering))
            work(tiering);
        else
            tiering->conf.stats->tiers_due = 0;
        uint64_t spent_ns = kw_now_ns() - begin_ns;
        if (spent_ns < KW_NS_PER_S)
            kw_worker_wait_ns(&tiering->worker, KW_NS_PER_S - spent_ns);
    }
    return NULL;
}

static int start(struct ext_tiering *tiering, struct kw_err *err)
{
    const struct ext_tiering_conf *conf = &tiering->conf;
    const struct kw_kube_lease_settings *settings = &conf->settings.lease;
    struct kw_kube_conf kube = conf->kube;
    const struct kw_kube_lease_conf lease = {.kube = conf->kube, .settings = *settings};
    int rc = 0;

    tiering->cancel_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (tiering->cancel_fd < 0)
        return kw_err_set(err, -errno, "cannot start");
    if (settings->enabled)
        rc = kw_kube_lease_start(&lease, &tiering->lease, err);
    kube.cancel_fd = tiering->cancel_fd;
    uint32_t lease_ms = kw_lease_timeout_ms(settings);
    kube.timeout_ms = lease_ms > 0 && lease_ms < TIMEOUT_MS ? lease_ms : TIMEOUT_MS;
    if (rc == 0)
        rc = kw_kube_new(&kube, &tiering->kube, err);
    if (rc < 0)
        return rc;
    rc = kw_worker_start(&tiering->worker, "tiers", run, tiering);
    tiering->started = rc == 0;
    return rc < 0 ? kw_err_set(err, rc, "cannot start a thread") : 0;
}

int ext_tiering_new(const struct ext_tiering_conf *conf, struct ext_tiering **ret,
                    struct kw_err *err)
{
    struct ext_tiering *tiering = calloc(1, sizeof(*tiering));

    if (tiering == NULL)
        return kw_err_set(err, -ENOMEM, "out of memory");
    tiering->conf = *conf;
    tiering->default_mcpu = conf->default_mcpu;
    tiering->policy = (struct ext_tier_policy){.every_ns = (int64_t)conf->settings.every_ns,
                                               .patience_ns = (int64_t)conf->settings.every_ns};
    tiering->backoff = (struct kw_backoff){.min_ms = BACKOFF_MIN_MS, .max_ms = BACKOFF_MAX_MS};
    kw_worker_init(&tiering->worker);
    int rc = start(tiering, err);
    if (rc < 0)
        ext_tiering_free(&tiering);
    else
        *ret = tiering;
    return rc;
}

void ext_tiering_assume(struct ext_tiering *tiering, uint64_t default_mcpu)
{
    tiering->default_mcpu = default_mcpu;
}

void ext_tiering_free(struct ext_tiering **tiering)
{
    struct ext_tiering *t = *tiering;

    if (t == NULL)
        return;
    if (t->started) {
        kw_worker_stop(&t->worker);
        (void)eventfd_write(t->cancel_fd, 1);
        kw_worker_join(&t->worker);
    }
    if (t->lease != NULL)
        kw_kube_lease_stop(&t->lease); /* after the last write */
    kw_kube_free(&t->kube);
    kw_worker_destroy(&t->worker);
    if (t->cancel_fd >= 0)
        (void)close(t->cancel_fd);
    free(t);
    *tiering = NULL;
}
