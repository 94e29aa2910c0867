/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node keeps its place among the zones from snapshot to snapshot, so that where neither file nor
 * nodes have changed a publication looks up the new nodes alone: those whose price is not set.
 */
#include "extender/zone_prices.h"

_Static_assert(EXT_ZONES_MAX < EXT_ZONE_UNLISTED, "a place fits beside the names of no place");

static uint16_t zone_of(const struct ext_zones *zones, const struct ext_node_entry *entry)
{
    if (entry == NULL || entry->zone[0] == '\0')
        return EXT_ZONE_NONE;
    const struct ext_zone *zone = ext_zones_find(zones, entry->zone);
    return zone == NULL ? EXT_ZONE_UNLISTED : (uint16_t)(zone - zones->items + 1);
}

void ext_zone_prices_set(struct ext_snapshot *snapshot, struct ext_zones *zones,
                         const struct ext_node_table *table, bool all, struct ext_zone_census *ret)
{
    struct ext_zone_census census = {0};

    for (size_t i = 0; zones != NULL && i < snapshot->n; i++) {
        const struct ext_node *node = &snapshot->nodes[i];
        if (all || node->pricing.energy_price <= 0) {
            uint16_t zone = zone_of(zones, ext_node_table_find(table, node->name));
            bool listed = zone != EXT_ZONE_NONE && zone != EXT_ZONE_UNLISTED;
            ext_snapshot_set_zone(snapshot, i, zone, listed ? zones->items[zone - 1].factor : 1);
        }
        census.unlabelled += node->zone == EXT_ZONE_NONE;
        census.unlisted += node->zone == EXT_ZONE_UNLISTED;
    }
    census.listed = zones == NULL ? 0 : snapshot->n - census.unlabelled - census.unlisted;
    snapshot->zones = ext_zones_hold(zones);
    *ret = census;
}
