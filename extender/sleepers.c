/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/sleepers.h"

#include <math.h>
#include <stddef.h>

#include "extender/pool.h"

static struct ext_pricing priced(const struct ext_node *node, const struct ext_node_sleep *sleep)
{
    struct ext_pricing pricing = node->pricing;
    bool seen_sleep = node->has_curve && node->seen_sleep_mw != EXT_SLEEP_UNSEEN;
    bool seen_wake = node->has_curve && node->seen_wake_uj >= 0;

    pricing.sleepable = sleep->sleepable && (sleep->has_sleep || seen_sleep);
    pricing.sleep_mw = !pricing.sleepable ? 0
                       : sleep->has_sleep ? sleep->sleep_mw
                                          : node->seen_sleep_mw;
    pricing.asleep = sleep->asleep;
    pricing.wake_uj = sleep->has_wake ? (float)sleep->wake_uj
                      : seen_wake     ? node->seen_wake_uj
                                      : INFINITY;
    return pricing;
}

int ext_sleepers_set(struct ext_snapshot *snapshot, const struct ext_node_table *table, bool all)
{
    static const struct ext_node_sleep none = {0};
    bool changed = false, hulls = false;

    for (size_t i = 0; i < snapshot->n; i++) {
        const struct ext_node *node = &snapshot->nodes[i];
        if (!all && node->sleep_told)
            continue;
        const struct ext_node_entry *entry = ext_node_table_find(table, node->name);
        struct ext_node fresh = *node;
        fresh.pricing = priced(node, entry == NULL ? &none : &entry->sleep);
        fresh.sleep_told = true;
        bool hull = fresh.pricing.sleepable != node->pricing.sleepable ||
                    fresh.pricing.sleep_mw != node->pricing.sleep_mw ||
                    (fresh.pricing.sleepable && fresh.pricing.wake_uj != node->pricing.wake_uj);
        if (hull && fresh.has_curve)
            ext_pool_reprice(&fresh);
        hulls = hulls || (hull && fresh.has_curve);
        bool other = hull || fresh.pricing.asleep != node->pricing.asleep ||
                     fresh.pricing.wake_uj != node->pricing.wake_uj;
        changed = changed || other;
        snapshot->nodes[i].sleep_told = true;
        if (other)
            ext_snapshot_set(snapshot, i, &fresh);
    }
    int rc = hulls ? ext_pool_settle(snapshot->nodes, snapshot->n) : 0;
    if (hulls && rc == 0)
        ext_snapshot_restand(snapshot);
    return rc < 0 ? rc : changed;
}
