/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "api/node_info.h"
#include "common/err.h"
#include "common/log.h"
#include "common/redis.h"
#include "common/snapshot.h"
#include "node-agent/memory.h"

/*
 * Writes what the agent knows to Redis, one pipelined batch per sample, on a thread of its own: a
 * slow or absent Redis never delays a sample.
 */

struct agent_publisher;

struct agent_publisher_conf {
    struct kw_redis_conf redis;
    const struct kw_node_info *info; /**< borrowed; its node name is the keys' */
    struct kw_snapshot *snapshots;   /**< of struct agent_snapshot; borrowed */
    struct agent_memory *memory;     /**< borrowed; NULL: nothing is kept over restarts */
    struct kw_log *log;
};

/** Starts the thread; does not wait for a connection. @return 0; -EINVAL bad URL or node name;
 * -errno. */
int agent_publisher_start(const struct agent_publisher_conf *conf, struct agent_publisher **ret,
                          struct kw_err *err);

/** A new snapshot is there. From any thread; never blocks for long. */
void agent_publisher_wake(struct agent_publisher *publisher);

/** Batches written and batches that failed, since the start. From any thread. */
void agent_publisher_counts(const struct agent_publisher *publisher, uint64_t *ret_written,
                            uint64_t *ret_failed);

/** Writes a pending snapshot (within the Redis time-outs), ends the thread, frees. */
void agent_publisher_stop(struct agent_publisher **publisher);
