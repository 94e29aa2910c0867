/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "vpa-recommender/cluster.h"
#include "vpa-recommender/profiles.h"
#include "vpa-recommender/source_redis.h"
#include "vpa-recommender/stats.h"

/*
 * Learns the profiles of all workloads, with a VPA or without, and writes them to Redis. Node after
 * node, a few in each loop, so that the whole cluster is read about every ten minutes.
 */

/** Zero-initialise but for `source.redis`. */
struct rec_learning {
    struct rec_source source; /**< of its own, for its counts; the connection is not owned */
    struct rec_nodes nodes;   /**< of the pass at hand */
    size_t at;                /**< the next of them */
    struct rec_profiles *profiles;
    int64_t ends_since_unix_ms;       /**< of the lives in them: as rec_cluster_lives */
    uint64_t learnt;                  /**< workloads in the last whole pass */
    uint64_t written;                 /**< profiles, since start */
    uint64_t passed[REC_PASSED__MAX]; /**< pods, since start, by enum rec_passed */
    /* of one loop */
    const struct rec_cluster *cluster;
    int64_t now_unix_ms;
    int rc;
};

/** Frees what it holds; leaves it empty. */
void rec_learning_clear(struct rec_learning *learning);

/**
 * Reads the next nodes, and at the end of a pass writes what has changed. For the replica that
 * leads.
 * @param cluster its pods, complete: a record counts for the workload of the pod that the API
 * server knows by its uid on that very node.
 * @param interval_ns of the loops.
 * @return 0; as kw_redis_exec: then the pass goes on with the next loop; -EREMOTEIO where Redis
 * refuses to write; -ENOMEM.
 */
int rec_learning_loop(struct rec_learning *learning, const struct rec_cluster *cluster,
                      uint64_t interval_ns, int64_t now_unix_ms, struct kw_err *err);

/** Adds what it knows to the statistics. */
void rec_learning_stats(const struct rec_learning *learning, struct rec_stats *stats);
