/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/kube.h"
#include "common/log.h"
#include "extender/decisions.h"
#include "extender/ledger.h"
#include "extender/snapshot.h"
#include "extender/stats.h"
#include "extender/tally.h"
#include "extender/tiers.h"
#include "extender/waiters.h"

/*
 * Owner of what caps are made of: the file of caps, the nodes as the API server tells of them, the
 * pods that were let in and those that wait; and of what a joule costs by the zones of these nodes.
 * Threads meet here: that of the watch, the reader of Redis, which has caps built into each
 * snapshot, and the writer of annotations and Events.
 */

struct ext_capping;

struct ext_capping_conf {
    struct ext_cap_policy policy;
    const char *file;      /**< of caps; NULL: none */
    const char *zones;     /**< file of zones; NULL: none */
    bool pods_are_watched; /**< else it is said, once there are caps, what that comes to */
    bool write_headroom, write_events;
    struct ext_decisions *decisions; /**< that Events are made of */
    struct ext_stats *stats;
    struct kw_log *log;
};

/** Reads the file of caps, where there is one. @return 0; -EINVAL with file, line, key and value;
 * -errno.
 */
int ext_capping_new(const struct ext_capping_conf *conf, struct ext_capping **ret,
                    struct kw_err *err);

/** Begins to watch nodes, and to write where that is wanted. @return as kw_kube_watch_start. */
int ext_capping_watch(struct ext_capping *capping, const struct kw_kube_conf *kube,
                      struct kw_err *err);
void ext_capping_free(struct ext_capping **capping);

/** What requests write. */
struct ext_tally *ext_capping_tally(struct ext_capping *capping);
struct ext_waiters *ext_capping_waiters(struct ext_capping *capping);

/** Whether there are caps to build: in flight is to be counted for them.
 * @param ret_sigmas deviations that predictions are raised by. */
bool ext_capping_wanted(struct ext_capping *capping, double *ret_sigmas);

/**
 * Builds the caps of a snapshot that nobody reads yet, or leaves it without, and prices its nodes.
 * @param held n of the snapshot. @param before the snapshot before it, or NULL. @return 0 or
 * -ENOMEM.
 */
int ext_capping_settle(struct ext_capping *capping, struct ext_snapshot *fresh,
                       const struct ext_held *held, const struct ext_snapshot *before,
                       int64_t now_ns);

/** Whether a snapshot is due though no sample came: nodes or a file have changed, or stale ones
 * are to be found out. */
bool ext_capping_changed(struct ext_capping *capping);

/** From any thread: the next caps are built by this, and the file is read again by it. */
void ext_capping_set_policy(struct ext_capping *capping, const struct ext_cap_policy *policy);

/** Reads the files again where they have changed. A bad one is said and the last good one stays. */
void ext_capping_reload(struct ext_capping *capping);

/** What the watch calls for each event. */
void ext_capping_event(struct ext_capping *capping, enum kw_kube_event event, const char *json,
                       size_t len, int64_t now_ns);

/** Writes what is due. @param snapshot published last, or NULL. */
void ext_capping_round(struct ext_capping *capping, const struct ext_snapshot *snapshot,
                       int64_t now_ns);

/** The label of a node, to be written. */
struct ext_tier_order {
    char node[KW_NODE_NAME_MAX + 1];
    int8_t tier; /**< KW_TIER_NONE: to be removed */
};

/** Which labels of nodes are to be written now, as ext_tiers_plan. @param room most of them.
 * @param ret `room` elements. @param ret_due how many there were in all. @return how many to write.
 */
size_t ext_capping_plan_tiers(struct ext_capping *capping, const struct ext_snapshot *snapshot,
                              const int8_t *tiers, const struct ext_tier_policy *policy,
                              size_t room, int64_t now_ns, struct ext_tier_order *ret,
                              size_t *ret_due);
