/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/redis.h"

/*
 * The cluster of the extender's benchmarks: servers of a thousand kinds at all loads, in Redis as
 * their agents would write them.
 */

/** Room for a name. */
#define FLEET_NAME_MAX 64

/** Name of the i-th node: 44 bytes, as cloud providers name them. */
void fleet_node_name(char out[FLEET_NAME_MAX], unsigned i);

/** Writes what the agents of the nodes [from, to) publish: sample and curve, in place and in the
 * feeds. @param seq of the sample. @return 0; -ENOMEM; what kw_redis_exec returned. */
int fleet_publish(struct kw_redis *redis, unsigned from, unsigned to, uint64_t seq,
                  struct kw_err *err);
