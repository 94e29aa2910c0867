/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/kube.h"
#include "common/kube_lease.h"
#include "common/log.h"
#include "common/snapshot.h"
#include "extender/capping.h"
#include "extender/stats.h"
#include "extender/tier_mark.h"
#include "extender/typical.h"

/*
 * Writes the tiers of nodes (extender/tiers.h) to their labels, on a thread of its own: of several
 * replicas the one that holds the Lease, each label when it is due, and no more of them in a second
 * than is allowed. Where the API server refuses, it is left alone for a while.
 */

struct ext_tiering;

/** What an operator chooses. */
struct ext_tiering_settings {
    bool enabled;
    uint64_t per_s;    /**< most labels in a second, 1..EXT_TIER_WRITES_MAX */
    uint64_t every_ns; /**< least time between two changes of one node's label */
    uint64_t mcpu;     /**< of the pod that tiers are for; 0: the typical one of those that start */
    struct kw_kube_lease_settings lease;
};

struct ext_tiering_conf {
    struct ext_tiering_settings settings;
    struct kw_kube_conf kube;
    struct kw_snapshot *snapshot;      /**< of struct ext_snapshot; one more reader */
    struct ext_capping *capping;       /**< that watches nodes */
    const struct ext_typical *typical; /**< of pods that start */
    uint64_t default_mcpu;             /**< where none was seen, at first */
    struct ext_stats *stats;
    struct kw_log *log;
};

/** Starts the thread, and takes part in the election where that is wanted; waits for no answer.
 * @return as kw_kube_new and kw_kube_lease_start; -errno. */
int ext_tiering_new(const struct ext_tiering_conf *conf, struct ext_tiering **ret,
                    struct kw_err *err);

/** Another CPU for the typical pod where none was seen, from any thread. */
void ext_tiering_assume(struct ext_tiering *tiering, uint64_t default_mcpu);

/** Ends the thread, then hands the Lease back. Labels stay as they are. */
void ext_tiering_free(struct ext_tiering **tiering);
