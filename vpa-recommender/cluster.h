/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/owner.h"
#include "vpa-recommender/ends.h"
#include "vpa-recommender/events.h"
#include "vpa-recommender/scope.h"

/*
 * What the watches have told: the VPAs that name this recommender, and all pods, by namespace.
 */

enum rec_target_state {
    REC_TARGET_UNKNOWN,     /**< not asked yet, or the API server could not answer */
    REC_TARGET_FOUND,       /**< selector is good */
    REC_TARGET_UNSUPPORTED, /**< why says what is wrong with targetRef */
};

/** Where a VPA's targetRef leads. Zero-initialised is UNKNOWN. */
struct rec_target {
    enum rec_target_state state;
    char *why; /**< of UNSUPPORTED */
    struct kw_selector selector;
    int64_t asked_unix_ms; /**< when it was last found out */
};

/** Frees everything inside; leaves *target UNKNOWN. */
void rec_target_clear(struct rec_target *target);

struct rec_pod {
    struct kw_pod object;
    struct rec_namespace *home;
    struct rec_pod *next, *previous; /**< of its namespace */
    struct rec_pod *stale;           /**< while a sweep collects */
    uint64_t round;                  /**< of the list or watch that last named it */
};

struct rec_vpa {
    struct kw_vpa object; /**< its status is the newest known: as watched, or as last written */
    struct rec_scope *scope;
    struct rec_target target;
    size_t n_pods; /**< that it covered in the last loop; with names set by matching.c */
    size_t n_names;
    const char **names; /**< containers of those pods, each once; borrowed from them, valid until
                           the next event */
    struct rec_vpa *next;
    uint64_t round;
};

struct rec_cluster;

/** @param recommender name that spec.recommenders[] must hold; borrowed. @return NULL on ENOMEM. */
struct rec_cluster *rec_cluster_new(const char *recommender);
void rec_cluster_free(struct rec_cluster **cluster);

/** Applies one event and takes what it owns. @param now_unix_ms when it came. @return 1 where a VPA
 * of ours is new or its spec has changed; else 0; -ENOMEM (the object is dropped). */
int rec_cluster_apply(struct rec_cluster *cluster, struct rec_event *event, int64_t now_unix_ms);

/** Whether both collections were listed completely at least once. */
bool rec_cluster_synced(const struct rec_cluster *cluster);

/** Whether a collection was. */
bool rec_cluster_listed(const struct rec_cluster *cluster, enum rec_collection collection);

/** Whether the watch of a collection stands. */
bool rec_cluster_up(const struct rec_cluster *cluster, enum rec_collection collection);

/** First VPA, or NULL; the others follow by `next`. */
struct rec_vpa *rec_cluster_vpas(const struct rec_cluster *cluster);

/** First pod of a namespace, or NULL; the others follow by `next`. */
const struct rec_pod *rec_cluster_pods(const struct rec_cluster *cluster, const char *namespace_);

/** The pod of a uid, or NULL. */
const struct kw_pod *rec_cluster_pod(const struct rec_cluster *cluster, const char *uid);

/**
 * Calls fn with the life of each pod of a workload: of those that run, and of those that ended
 * since. In any order.
 * @return from when on all ends are known, in unix ms; 0: pods were not listed yet.
 */
int64_t rec_cluster_lives(const struct rec_cluster *cluster, rec_life_fn fn, void *user);

/** For metrics. */
size_t rec_cluster_pod_count(const struct rec_cluster *cluster);
