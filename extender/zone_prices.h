/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "extender/node_table.h"
#include "extender/snapshot.h"
#include "extender/zones.h"

/*
 * Where the zones of a file and the nodes of the API server meet. Pure.
 */

/** How the nodes of a snapshot are priced. */
struct ext_zone_census {
    uint64_t listed;
    uint64_t unlisted;   /**< of a zone that the file does not name: priced as the median */
    uint64_t unlabelled; /**< without a zone, or not told of: the same */
};

/**
 * Gives a snapshot its zones and each node the price of its own.
 * @param snapshot not published yet, and without zones; holds them from now on.
 * @param zones NULL: there are none, and nothing is done.
 * @param table where the API server says that nodes are.
 * @param all false: table and zones are those that the nodes were priced by before, so that only
 * new nodes are looked for.
 */
void ext_zone_prices_set(struct ext_snapshot *snapshot, struct ext_zones *zones,
                         const struct ext_node_table *table, bool all, struct ext_zone_census *ret);
