/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/names.h"
#include "api/node_info.h"
#include "common/buf.h"
#include "common/redis.h"
#include "node-agent/node_snapshot.h"

/** Sorted ids of the workloads that a batch named; memory is kept between batches. */
struct agent_batch_ids {
    struct kw_buf text; /**< NUL-terminated ids, one after the other */
    const char **ids;   /**< into text, sorted */
    size_t n, cap;
};

/** Frees the memory; leaves an empty list. */
void agent_batch_ids_free(struct agent_batch_ids *ids);

/** Collects the ids of a snapshot. @return 0 or -ENOMEM. */
int agent_batch_ids_fill(struct agent_batch_ids *ids, const struct agent_snapshot *snapshot);

/** Whether `id` is among them. */
bool agent_batch_ids_have(const struct agent_batch_ids *ids, const char *id);

/** Keys of one node. */
struct agent_batch_keys {
    char node[KW_KEY_MAX];
    char pods[KW_KEY_MAX];
    char feed[KW_KEY_MAX];
};

/**
 * Queues everything a reader may want to know: node sample, curve and info, every workload, and
 * expiry. All figures are cumulative, so that one batch repairs whatever was missed before it.
 * @return 0; -ENOMEM, -EINVAL (the queue must be discarded then).
 */
int agent_batch_queue(struct kw_redis *redis, const struct agent_batch_keys *keys,
                      const struct kw_node_info *info, const struct agent_snapshot *snapshot);

/** Queues the removal of a workload's record. @return 0 or -ENOMEM. */
int agent_batch_queue_removal(struct kw_redis *redis, const struct agent_batch_keys *keys,
                              const char *id);
