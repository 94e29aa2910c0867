/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * When the tier of a node (label kwatt.io/power-tier) is written anew. Pure. A node is cheap for
 * one pod and dear for the next, and a label costs a write that the API server tells every watcher
 * of: a step of two tiers is written at once, one of a single tier and the loss of all knowledge
 * only if they last, and nothing twice within a while, whichever replica wrote.
 */

/** Times of a tier. */
struct ext_tier_policy {
    int64_t every_ns;    /**< least time between two changes of one node's label */
    int64_t patience_ns; /**< how long a small change must last */
};

/** What is known of one node's label. Zeros: nothing was seen of it. */
struct ext_tier_mark {
    int64_t changed_ns; /**< when it was last seen to change, or was sent; 0: never */
    int64_t apart_ns;   /**< since when what is wanted lies on the side of it that `side` says */
    int8_t tier;        /**< as the API server shows it: 0..9, KW_TIER_NONE, KW_TIER_OTHER */
    int8_t side;        /**< -1 below, 1 above, 2 nothing is known of the node; 0: it is right */
    bool seen;
};

/** The API server shows a tier. The first one to be seen may have been written just now. */
void ext_tier_seen(struct ext_tier_mark *mark, int8_t tier, int64_t now_ns);

/**
 * How urgently a label is to be written.
 * @param wanted 0..9, or KW_TIER_NONE where nothing is known of the node: its label is removed.
 * @return 0: it is not; else tiers that it is wrong by, KW_POWER_TIERS for one without any.
 */
int ext_tier_urgency(struct ext_tier_mark *mark, int8_t wanted,
                     const struct ext_tier_policy *policy, int64_t now_ns);
