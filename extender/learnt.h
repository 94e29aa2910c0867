/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "common/err.h"
#include "common/redis.h"
#include "common/snapshot.h"
#include "extender/ingest.h"
#include "extender/profiles.h"

/*
 * Keeps the profiles of workloads in step with Redis. Blocking: belongs to a thread that may wait.
 */

struct ext_learnt;

/** Why a profile was left out. */
enum ext_profile_skip {
    EXT_PROFILE_NAME,     /**< its place in the index is no workload's name */
    EXT_PROFILE_MISSING,  /**< it is in the index alone */
    EXT_PROFILE_DOCUMENT, /**< it does not decode, holds an absurd value, or is another workload's
                           */
    EXT_PROFILE_SCHEMA,   /**< written by another version of the schema */
    EXT_PROFILE_STALE,    /**< not written for KW_PROFILE_AGE_MAX_MS, or in the future */
    EXT_PROFILE_REPLY,    /**< Redis answered with something else than was asked for */
    EXT_PROFILE_LIMIT,    /**< more workloads than are kept */
    EXT_PROFILE_SKIP__MAX
};

/** "name", "missing", ... index is enum ext_profile_skip. */
extern const char *const ext_profile_skip_names[EXT_PROFILE_SKIP__MAX];

/** Connects on the first step. @param out of struct ext_profiles; this publishes to it. @return 0;
 * -EINVAL a bad URL; -ENOMEM; -errno of the random source. */
int ext_learnt_new(const struct kw_redis_conf *conf, struct kw_snapshot *out,
                   struct ext_learnt **ret, struct kw_err *err);

/** What was published stays with `out`. */
void ext_learnt_free(struct ext_learnt **learnt);

/**
 * Reads some of what has changed, at most some thousand profiles, and publishes at the end of each
 * pass over the changes. A pass over all of the index comes first, and every ten minutes.
 * @param skipped counts by enum ext_profile_skip, added to; of one profile once each time that it
 * is written.
 * @return 1: more of the pass is left; 0: it has ended; -errno of Redis as kw_redis_exec;
 * -EREMOTEIO where it answers with an error; -ENOMEM. After a failure the pass begins anew; what
 * was published stays.
 */
int ext_learnt_step(struct ext_learnt *learnt, const struct ext_instant *now,
                    uint64_t skipped[EXT_PROFILE_SKIP__MAX], struct kw_err *err);

/** How many workloads the profiles published last tell of. */
size_t ext_learnt_count(const struct ext_learnt *learnt);
