/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/vpa.h"
#include "vpa-recommender/events.h"
#include "vpa-recommender/feed.h"
#include "vpa-recommender/source_redis.h"

/*
 * What the loop thread publishes after each loop, and the HTTP threads show. Plain numbers: copied
 * whole.
 */

enum rec_patch_fate {
    REC_PATCH_WRITTEN,
    REC_PATCH_UNCHANGED,
    REC_PATCH_FAILED,
    REC_PATCH_CONFLICT, /**< the VPA had changed meanwhile: the next loop makes another */
    REC_PATCH__MAX
};

/** "written", "unchanged", "failed", "conflict". Index is enum rec_patch_fate. */
extern const char *const rec_patch_fate_names[REC_PATCH__MAX];

/** What became of the records that profiles are learnt from. */
enum rec_passed {
    REC_PASSED_USED,
    REC_PASSED_UNKNOWN, /**< no pod that the API server knows on that node */
    REC_PASSED_UNOWNED, /**< of no workload */
    REC_PASSED_UNFIT,   /**< too young, or times or counters that cannot be */
    REC_PASSED_LIMIT,   /**< more workloads than are kept */
    REC_PASSED__MAX
};

/** "used", "unknown", ... Index is enum rec_passed. */
extern const char *const rec_passed_names[REC_PASSED__MAX];

struct rec_stats {
    uint64_t loops;        /**< finished since start */
    uint64_t loop_end_ns;  /**< CLOCK_MONOTONIC of the last one's end */
    uint64_t loop_ns;      /**< how long it took */
    uint64_t interval_ns;  /**< wished for */
    bool redis_up;         /**< the last loop could read */
    uint64_t redis_errors; /**< loops that could not */
    uint64_t fates[REC_RECORD__MAX];
    uint64_t feeds[REC_FEED__MAX];

    bool cluster; /**< there is an API server; else what follows is 0 */
    bool leader;  /**< may write: it holds the Lease, or there is no election */
    bool elected; /**< the Lease was read, or there is no election */
    bool synced;
    bool up[REC_COLLECTION__MAX];
    uint64_t undecodable[REC_COLLECTION__MAX];
    uint64_t api_calls, api_errors;
    uint64_t patches[REC_PATCH__MAX];
    uint64_t pods;    /**< in view */
    uint64_t covered; /**< pods under a VPA */
    /** VPAs by update mode, has a recommendation, matches pods, unsupported configuration. */
    uint64_t vpas[KW_VPA_MODE__MAX][2][2][2];

    uint64_t containers; /**< of whose use something is known */
    uint64_t instances;  /**< container instances that feed them */
    uint64_t profiles;   /**< workloads in the last whole pass */
    uint64_t profiles_written;
    uint64_t profile_pods[REC_PASSED__MAX];
    uint64_t workloads; /**< without an API server */
    uint64_t advices;   /**< written in the last loop, without an API server */
};
