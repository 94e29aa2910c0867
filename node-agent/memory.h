/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "common/log.h"
#include "common/redis.h"
#include "node-agent/sampler.h"

/*
 * What attribution has learnt, kept in Redis over a restart of the agent. Between the sampling
 * thread, which loads and saves it in memory, and the publisher's, which alone talks to Redis: a
 * slow or absent Redis never delays a sample, nor the first one.
 */

struct agent_memory;

/** @param node its name. @param log borrowed. @return 0; -EINVAL no name for a key; -ENOMEM. */
int agent_memory_new(const char *node, struct kw_log *log, struct agent_memory **ret);
void agent_memory_free(struct agent_memory **memory);

/* ---- the sampling thread; NULL: nothing is kept ---- */

/** Before a window: takes up what was learnt, once it is here. */
void agent_memory_recall(struct agent_memory *memory, struct agent_sampler *sampler,
                         uint64_t now_ns);

/** After a window: saves, once in a while. @param last it is the last one. */
void agent_memory_keep(struct agent_memory *memory, struct agent_sampler *sampler, uint64_t now_ns,
                       bool last);

/* ---- the publisher's thread ---- */

/** Asks for what was learnt, until there is an answer or it is too late. */
void agent_memory_fetch(struct agent_memory *memory, struct kw_redis *redis);

/** Writes what was saved since the last call. */
void agent_memory_write(struct agent_memory *memory, struct kw_redis *redis);
