/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/tier_mark.h"

#include <stdlib.h>

#include "api/node.h"

/** Tiers from which on a change does not have to last. */
#define FAR 2

void ext_tier_seen(struct ext_tier_mark *mark, int8_t tier, int64_t now_ns)
{
    /* a node that has no label when it is first seen waits for one */
    if (mark->seen ? tier != mark->tier : tier != KW_TIER_NONE)
        mark->changed_ns = now_ns;
    mark->tier = tier;
    mark->seen = true;
}

int ext_tier_urgency(struct ext_tier_mark *mark, int8_t wanted,
                     const struct ext_tier_policy *policy, int64_t now_ns)
{
    bool labelled = mark->tier >= 0;
    int wrong = !labelled ? KW_POWER_TIERS : wanted < 0 ? 1 : abs(wanted - mark->tier);
    int8_t side = wanted < 0 ? 2 : wanted > mark->tier ? 1 : -1;

    if (wanted == mark->tier) {
        mark->side = 0;
        return 0;
    }
    if (mark->side != side) {
        mark->side = side;
        mark->apart_ns = now_ns;
    }
    if (mark->changed_ns != 0 && now_ns - mark->changed_ns < policy->every_ns)
        return 0;
    if (wrong < FAR && now_ns - mark->apart_ns < policy->patience_ns)
        return 0;
    return wrong;
}
