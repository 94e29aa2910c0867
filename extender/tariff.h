/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "common/log.h"
#include "extender/node_table.h"
#include "extender/snapshot.h"
#include "extender/stats.h"

/*
 * Owner of what a joule costs where: the file of zones, and what was said of it. Belongs to the
 * thread that publishes snapshots.
 */

struct ext_tariff;

/** Reads nothing yet: a file that is bad must not keep the extender from its work. @param file
 * NULL: there is none. @param stats, log outlive it. @return 0 or -ENOMEM. */
int ext_tariff_new(const char *file, struct ext_stats *stats, struct kw_log *log,
                   struct ext_tariff **ret);
void ext_tariff_free(struct ext_tariff **tariff);

/** Reads the file again. A bad one is said, and the last good zones stay. @return whether other
 * zones are in force. */
bool ext_tariff_reload(struct ext_tariff *tariff);

/** Prices the nodes of a snapshot that nobody reads yet. @param changed the table has, or may have,
 * since the last time. */
void ext_tariff_settle(struct ext_tariff *tariff, const struct ext_node_table *table, bool changed,
                       struct ext_snapshot *fresh);
