/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch is narrow: pods that are bound and Pending. One enters it when the scheduler binds it
 * and leaves it when it runs, is deleted or fails, so that it costs by the pods that start and not
 * by those that exist. Which of these a pod did when it left is not told apart: it then counts
 * until a sample of its node covers the time since, a few seconds.
 *
 * Without an API server nobody tells which of them have started meanwhile. A moment later they
 * count no more for scores: most are measured by then. For caps they do, and so do pods that were
 * let in and that nobody has seen bound, for as long as a pod may wait for its start: what is known
 * of a cap holds. They stay in the ledger, since a watch that resumes tells of what has changed
 * alone. That it is so is said once in the log, and in /metrics and /explain.
 */
#include "extender/flights.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "extender/bound_pod.h"
#include "extender/hearing.h"
#include "extender/ledger.h"
#include "extender/pool.h"
#include "extender/uptake.h"

/** "spec.nodeName!=,status.phase=Pending" */
#define QUERY "fieldSelector=spec.nodeName%21%3D%2Cstatus.phase%3DPending"

/** A pod is measured this long after its start: a few samples of the node. */
#define BLIND_NS (10 * (int64_t)KW_NS_PER_S)

struct ext_flights {
    struct ext_flights_conf conf;
    struct kw_kube_watch *watch;
    pthread_mutex_t lock;
    /* under lock */
    struct ext_hearing hearing;
    struct ext_ledger *ledger;
    struct ext_uptake *uptake; /**< NULL: there are no caps */
    struct ext_snapshot *last; /**< conf.out's; replaced under the lock alone */
    bool seen;                 /**< the API server tells of pods */
    int64_t blind_since_ns;    /**< when it ceased to */
    bool any; /**< something was in flight when it was published, or has come since */
};

int ext_flights_new(const struct ext_flights_conf *conf, struct ext_flights **ret)
{
    struct ext_flights *flights = calloc(1, sizeof(*flights));

    if (flights == NULL)
        return -ENOMEM;
    flights->conf = *conf;
    (void)pthread_mutex_init(&flights->lock, NULL);
    uint64_t seed;
    int rc = -ENODATA;
    if (getrandom(&seed, sizeof(seed), 0) == (ssize_t)sizeof(seed))
        rc = ext_ledger_new(seed, &flights->ledger);
    if (rc == 0 && conf->capping != NULL) {
        flights->uptake = ext_uptake_new();
        rc = flights->uptake == NULL ? -ENOMEM : 0;
    }
    if (rc < 0)
        ext_flights_free(&flights);
    else
        *ret = flights;
    return rc;
}

void ext_flights_free(struct ext_flights **flights)
{
    struct ext_flights *f = *flights;

    if (f == NULL)
        return;
    kw_kube_watch_free(&f->watch);
    ext_ledger_free(&f->ledger);
    ext_uptake_free(&f->uptake);
    (void)pthread_mutex_destroy(&f->lock);
    free(f);
    *flights = NULL;
}

void ext_flights_assume(struct ext_flights *flights, const struct ext_assumptions *assumptions)
{
    (void)pthread_mutex_lock(&flights->lock);
    flights->conf.assumptions = *assumptions;
    (void)pthread_mutex_unlock(&flights->lock);
}

const struct ext_snapshot *ext_flights_last(const struct ext_flights *flights)
{
    return flights->last;
}

/** Whether what the ledger holds is too old to count. */
static bool is_blind(const struct ext_flights *flights, int64_t now_ns)
{
    return !flights->seen && now_ns - flights->blind_since_ns > BLIND_NS;
}

/** For /metrics. */
static void tell_use(struct ext_stats *stats, const struct ext_use *use)
{
    stats->caps_flight_permille = (uint64_t)(use->flight * 1000);
    stats->caps_fresh_permille = (uint64_t)(use->fresh * 1000);
    stats->caps_settling_permille = (uint64_t)(use->settling * 1000);
}

/** Gives a snapshot that nobody reads yet what is in flight, and its caps. @return 0 or -ENOMEM. */
static int settle(struct ext_flights *flights, struct ext_snapshot *fresh, int64_t now_ns)
{
    struct ext_capping *capping = flights->conf.capping;
    double sigmas = 0;
    bool capped = capping != NULL && ext_capping_wanted(capping, &sigmas);
    bool blind = is_blind(flights, now_ns);
    kw_cleanup_free double *mcpu = calloc(fresh->n + 1, sizeof(*mcpu));
    kw_cleanup_free struct ext_held *held = calloc(fresh->n + 1, sizeof(*held));
    int rc = 0;

    if (mcpu == NULL || held == NULL)
        return -ENOMEM;
    /* caps count what may run though nobody tells of it any more; scores do not */
    flights->any = (!blind || capped) &&
                   ext_ledger_settle(flights->ledger, fresh, now_ns, mcpu, capped ? held : NULL);
    for (size_t i = 0; i < fresh->n; i++) {
        double in_flight = blind ? 0 : mcpu[i];
        if (fresh->nodes[i].in_flight_mcpu != in_flight)
            ext_snapshot_set_in_flight(fresh, i, in_flight);
    }
    int reached = ext_pool_reach(fresh->nodes, fresh->n);
    if (ext_pool_level(fresh->nodes, fresh->n) || reached != 0)
        ext_snapshot_restand(fresh);
    if (capping == NULL)
        return reached < 0 ? reached : 0;
    struct ext_use use = EXT_USE_AS_EXPECTED;
    /* without deviations what is expected counts, exactly, and nothing that was learnt beside it */
    if (capped && sigmas > 0)
        rc = ext_uptake_settle(flights->uptake, fresh, flights->last, sigmas, held, &use);
    int settled = ext_capping_settle(capping, fresh, held, flights->last, now_ns);
    if (fresh->caps != NULL)
        fresh->caps->use = use;
    tell_use(flights->conf.stats, capped ? &use : &(const struct ext_use){0});
    rc = rc < 0 ? rc : settled;
    return rc < 0 || reached >= 0 ? rc : reached;
}

static void say_watching(const struct ext_flights *flights)
{
    kw_log_info(flights->conf.log, "watching pods that start");
}

void ext_flights_publish(struct ext_flights *flights, struct ext_snapshot *fresh, int64_t now_ns)
{
    (void)pthread_mutex_lock(&flights->lock);
    /* a node may be measured again without news of any pod, and a pod without news of its node */
    bool changed = flights->any ||
                   (flights->conf.capping != NULL && ext_capping_changed(flights->conf.capping));
    if (fresh == NULL && changed && flights->last != NULL)
        fresh = ext_snapshot_copy(flights->last);
    if (fresh != NULL) {
        if (settle(flights, fresh, now_ns) < 0)
            flights->conf.stats->flights_missed++;
        kw_snapshot_publish(flights->conf.out, fresh);
        flights->last = fresh;
    }
    flights->conf.stats->flights =
        is_blind(flights, now_ns) ? 0 : ext_ledger_count(flights->ledger);
    bool back = ext_hearing_is_back(&flights->hearing, now_ns);
    (void)pthread_mutex_unlock(&flights->lock);
    if (back)
        say_watching(flights);
}

/** Takes a pod's watts from the room of its node, and of the domains around it. */
static void move_caps(struct ext_snapshot *snapshot, const struct ext_bound_pod *pod)
{
    const struct ext_node *node = ext_snapshot_find(snapshot, pod->node, strlen(pod->node));

    if (node != NULL && snapshot->caps != NULL)
        ext_caps_move(snapshot->caps, (size_t)(node - snapshot->nodes),
                      pod->mw > 0 ? 0 : (double)pod->mcpu, (double)pod->mw,
                      pod->mw > 0 ? 0 : pod->variance_mcpu2);
}

/** Tells the decision about a pod where it went. */
static void tell_decision(struct ext_flights *flights, const struct ext_bound_pod *pod)
{
    const struct ext_snapshot *last = flights->last;
    struct ext_stats *stats = flights->conf.stats;
    const struct ext_node *node = ext_snapshot_find(last, pod->node, strlen(pod->node));
    double saved_mw = 0;
    double mw = -1;

    if (node != NULL && node->has_curve)
        mw = ext_place_marginal_mw(ext_place_now(last, (size_t)(node - last->nodes)),
                                   (double)pod->mcpu);
    if (ext_decisions_bound(flights->conf.decisions, pod->uid, pod->node, mw, &saved_mw)) {
        stats->dry_compared++;
        stats->dry_saved_mw += (int64_t)saved_mw;
    }
}

/** A pod that starts: into the ledger, and at once into the snapshot that requests read. */
static void enter(struct ext_flights *flights, const struct ext_bound_pod *pod, int64_t now_ns)
{
    int rc = ext_ledger_bound(flights->ledger, pod, now_ns);

    if (rc < 0)
        flights->conf.stats->flights_missed++;
    if (rc > 0)
        flights->any = true;
    if (rc > 0 && flights->conf.typical != NULL)
        ext_typical_note(flights->conf.typical, pod->mcpu);
    if (rc > 0 && flights->conf.decisions != NULL)
        tell_decision(flights, pod);
    if (rc > 0 && flights->last != NULL) {
        /* what cannot be had now comes with the next snapshot */
        (void)ext_snapshot_add_in_flight(flights->last, pod->node, (double)pod->mcpu);
        move_caps(flights->last, pod);
    }
    /* in this order: a request in between counts the pod twice, and never not at all */
    if (rc >= 0 && flights->conf.capping != NULL)
        ext_tally_seen(ext_capping_tally(flights->conf.capping), ext_tally_key(pod->uid, "", ""));
}

/** As ext_bound_pod_scan, with what was learnt by now. */
static int scan_pod(struct ext_flights *flights, const char *json, size_t len,
                    struct ext_bound_pod *ret)
{
    const struct ext_flights_conf *conf = &flights->conf;
    size_t slot = 0;
    const struct ext_profiles *profiles =
        conf->profiles == NULL ? NULL : kw_snapshot_acquire(conf->profiles, &slot);
    (void)pthread_mutex_lock(&flights->lock);
    const struct ext_assumptions assumptions = conf->assumptions;
    (void)pthread_mutex_unlock(&flights->lock);
    int waits = ext_bound_pod_scan(json, len, &assumptions, profiles, ret);

    if (conf->profiles != NULL)
        kw_snapshot_release(conf->profiles, slot);
    return waits;
}

static void take_pod(struct ext_flights *flights, bool in_view, const char *json, size_t len,
                     int64_t now_ns)
{
    struct ext_bound_pod pod;
    int waits = scan_pod(flights, json, len, &pod);

    if (waits < 0) {
        flights->conf.stats->flights_bad++;
        return;
    }
    (void)pthread_mutex_lock(&flights->lock);
    if (!in_view)
        ext_ledger_left(flights->ledger, pod.uid, now_ns);
    else if (waits > 0)
        enter(flights, &pod, now_ns);
    else
        ext_ledger_gone(flights->ledger, pod.uid);
    flights->conf.stats->flights = ext_ledger_count(flights->ledger);
    (void)pthread_mutex_unlock(&flights->lock);
}

static void list_begin(struct ext_flights *flights)
{
    (void)pthread_mutex_lock(&flights->lock);
    ext_ledger_list_begin(flights->ledger);
    (void)pthread_mutex_unlock(&flights->lock);
}

static void list_end(struct ext_flights *flights, int64_t now_ns)
{
    (void)pthread_mutex_lock(&flights->lock);
    ext_ledger_list_end(flights->ledger, now_ns);
    (void)pthread_mutex_unlock(&flights->lock);
}

/** Whether the API server tells of pods, from now on. */
static void set_seen(struct ext_flights *flights, bool seen, int64_t now_ns)
{
    (void)pthread_mutex_lock(&flights->lock);
    if (flights->seen && !seen)
        flights->blind_since_ns = now_ns;
    flights->seen = seen;
    flights->any = flights->any || ext_ledger_count(flights->ledger) > 0;
    (void)pthread_mutex_unlock(&flights->lock);
}

static void say_up(struct ext_flights *flights, int64_t now_ns)
{
    (void)pthread_mutex_lock(&flights->lock);
    bool say = ext_hearing_up(&flights->hearing, now_ns);
    (void)pthread_mutex_unlock(&flights->lock);
    if (say)
        say_watching(flights);
    flights->conf.stats->watching = true;
    flights->conf.stats->watch_lost = false;
}

static void say_down(struct ext_flights *flights, const char *cause, size_t len)
{
    (void)pthread_mutex_lock(&flights->lock);
    bool say = ext_hearing_down(&flights->hearing);
    (void)pthread_mutex_unlock(&flights->lock);
    if (say)
        ext_hearing_say_lost(
            flights->conf.log,
            "pods that start are not seen: a burst of them is placed by measurements alone", cause,
            len);
    flights->conf.stats->watching = false;
    flights->conf.stats->watch_lost = true;
}

void ext_flights_event(struct ext_flights *flights, enum kw_kube_event event, const char *json,
                       size_t len, int64_t now_ns)
{
    switch (event) {
    case KW_KUBE_SYNC_BEGIN: list_begin(flights); break;
    case KW_KUBE_SYNC_END:
        list_end(flights, now_ns);
        set_seen(flights, true, now_ns);
        say_up(flights, now_ns);
        break;
    case KW_KUBE_UP:
        set_seen(flights, true, now_ns);
        say_up(flights, now_ns);
        break;
    case KW_KUBE_ADDED:
    case KW_KUBE_MODIFIED: take_pod(flights, true, json, len, now_ns); break;
    case KW_KUBE_DELETED: take_pod(flights, false, json, len, now_ns); break;
    case KW_KUBE_DOWN:
        set_seen(flights, false, now_ns);
        say_down(flights, json, len);
        break;
    case KW_KUBE__MAX: break;
    }
}

static void on_event(void *user, enum kw_kube_event event, const char *json, size_t len)
{
    ext_flights_event(user, event, json, len, (int64_t)kw_now_ns());
}

int ext_flights_watch(struct ext_flights *flights, const struct kw_kube_conf *kube,
                      struct kw_err *err)
{
    return kw_kube_watch_start(kube, "/api/v1/pods", QUERY, on_event, flights, &flights->watch,
                               err);
}
