/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "extender/score.h"
#include "extender/snapshot.h"

/*
 * What a pod costs on each node, kept for the next pod that asks for as much. Pods of one workload
 * come in rows, and a snapshot serves for a second: of a node that has not moved meanwhile nothing
 * is read but what the pod before was quoted.
 */

/** One for each workspace. Zero-initialised is empty. */
struct ext_quotes {
    struct ext_score_pod pod;     /**< that asked last */
    uint64_t snapshot_id;         /**< it was asked in; 0: none */
    bool keeps;                   /**< the pod before it was the same, so that quotes are kept */
    struct ext_score_scratch *of; /**< by node, index plus 1; 0: of one that is not known */
    size_t cap;
};

/** Room for quotes of all nodes. @param snapshot may be NULL. @return 0 or -ENOMEM. */
int ext_quotes_reserve(struct ext_quotes *quotes, const struct ext_snapshot *snapshot);
void ext_quotes_free(struct ext_quotes *quotes);

/**
 * Takes all candidates of a scoring that has begun.
 * @param quotes reserved for the snapshot. @param snapshot may be NULL: no candidate is known.
 * @param indices n elements: of the nodes in the snapshot, plus 1; 0: unknown.
 */
void ext_quotes_take(struct ext_quotes *quotes, struct ext_score *score,
                     const struct ext_snapshot *snapshot, const uint32_t *indices, size_t n,
                     int64_t now_ns);
