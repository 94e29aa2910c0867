/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "api/node.h"
#include "extender/node_table.h"
#include "extender/snapshot.h"

/*
 * Tiers of nodes: placement without a call per pod. The tier of a node says how dear the cluster's
 * typical pod would be there, by the scores that /prioritize gives: 0 is where it adds the fewest
 * watts. Of nodes of one curve that is best filled evenly, those within a quarter of their mean
 * fill share a tier: which of them a pod gets is left to the scheduler's own plugins. Pure.
 */

/**
 * Tier of each node of a snapshot for a pod that uses `mcpu`.
 * @param ret_tiers snapshot->n elements: 0..9; KW_TIER_NONE of nodes that are stale or have no
 * curve. Nodes that a cap holds for the pod, or that are being put to sleep, have the last.
 * @return 0 or -ENOMEM.
 */
int ext_tiers_rank(const struct ext_snapshot *snapshot, double mcpu, int64_t now_ns,
                   int8_t *ret_tiers);

/** A label to be written. */
struct ext_tier_write {
    struct ext_tier_mark *mark; /**< of the node */
    size_t index;               /**< the caller's, of the node */
    int urgency;
    int8_t tier; /**< KW_TIER_NONE: to be removed */
};

/** Most labels that are written in one second. */
#define EXT_TIER_WRITES_MAX 100

/** The most urgent ones so far, in a heap with the least urgent on top. */
struct ext_tier_plan {
    size_t room; /**< at most EXT_TIER_WRITES_MAX */
    size_t n;
    size_t due; /**< how many there were in all */
    struct ext_tier_write writes[EXT_TIER_WRITES_MAX];
};

/** Looks whether a node's label is to be written, and keeps it where there is room or it is more
 * urgent than another; of equally urgent ones, the one that changed longest ago. */
void ext_tier_plan_offer(struct ext_tier_plan *plan, size_t index, struct ext_tier_mark *mark,
                         int8_t wanted, const struct ext_tier_policy *policy, int64_t now_ns);

/** Ends it: the marks of what was kept have changed now, whether the writes succeed or not, so that
 * a failing one is not repeated at once. They are in no order. */
void ext_tier_plan_end(struct ext_tier_plan *plan, int64_t now_ns);

/** Offers all nodes that the API server tells of, by their place in the table.
 * @param tiers of ext_tiers_rank. */
void ext_tiers_plan(struct ext_tier_plan *plan, struct ext_node_table *table,
                    const struct ext_snapshot *snapshot, const int8_t *tiers,
                    const struct ext_tier_policy *policy, int64_t now_ns);
