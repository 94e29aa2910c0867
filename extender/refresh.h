/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/redis.h"
#include "extender/ingest.h"
#include "extender/snapshot.h"

/*
 * Reads all nodes from Redis into a snapshot. Blocking: belongs to a thread that may wait.
 */

struct ext_refresh;

#define EXT_SAID_MAX 160

/** What one refresh did. */
struct ext_refresh_result {
    struct ext_snapshot *snapshot; /**< a new one, the caller's; NULL where nothing changed */
    uint64_t skipped[EXT_SKIP__MAX];
    size_t read;  /**< records read: those that were published since the last refresh */
    bool whole;   /**< the index of all nodes was read, and not the feeds alone */
    bool refused; /**< Redis does not give the feeds: the index is read each time */
    /** What it said in place of a feed or a record, cut; "" where it gave all. */
    char said[EXT_SAID_MAX];
};

/** Connects on the first refresh. @param stale_after_ns as for ext_snapshot_new. @return 0; -EINVAL
 * a bad URL; -ENOMEM; -errno of the random source. */
int ext_refresh_new(const struct kw_redis_conf *conf, uint64_t stale_after_ns,
                    struct ext_refresh **ret, struct kw_err *err);
void ext_refresh_free(struct ext_refresh **refresh);

/**
 * Reads what was published since `before` was made: a node that was not costs nothing, but for a
 * line of the index where that is read. A node that Redis no longer has is kept until it is stale;
 * after Redis was lost, as long as if it had been heard when that came back.
 * @param before the last snapshot made by this object, or NULL.
 * @param ret untouched on failure.
 * @return 0; -errno of Redis as kw_redis_exec; -EREMOTEIO where it answers with an error;
 * -ECANCELED; -ENOMEM.
 */
int ext_refresh_once(struct ext_refresh *refresh, const struct ext_snapshot *before,
                     const struct ext_instant *now, struct ext_refresh_result *ret,
                     struct kw_err *err);

/** How old samples may be from now on; the nodes follow when the index is read next, ten refreshes
 * later at most. For the thread that refreshes. */
void ext_refresh_set_stale_after(struct ext_refresh *refresh, uint64_t stale_after_ns);

/** From any thread: the refresh at hand ends (-ECANCELED) after the round trip at hand, later ones
 * at once. */
void ext_refresh_cancel(struct ext_refresh *refresh);

/** As kw_redis_name. */
const char *ext_refresh_name(const struct ext_refresh *refresh);
