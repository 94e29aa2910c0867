/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "vpa-recommender/source_redis.h"
#include "vpa-recommender/stats.h"
#include "vpa-recommender/workloads.h"

/*
 * One loop without an API server: reads all records, writes the advice of what runs, removes the
 * advice of what has ended.
 */

/** What a loop without an API server works with. Zero-initialise but for the first three. */
struct rec_local {
    struct rec_source *source;       /**< not owned */
    struct rec_workloads *workloads; /**< owned by the caller */
    uint64_t sample_interval_ms;     /**< as rec_feed */
    uint64_t feeds[REC_FEED__MAX];
    uint64_t advices; /**< written in the last loop */
    /* of one loop */
    int64_t now_unix_ms;
    const char *node;
    int rc;
};

/** @return 0; as kw_redis_exec: then what was known stays, and so does the advice in Redis. */
int rec_local_loop(struct rec_local *local, int64_t now_unix_ms, struct kw_err *err);

/** Adds what it knows to the statistics. */
void rec_local_stats(const struct rec_local *local, struct rec_stats *stats);
