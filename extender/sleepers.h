/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "extender/node_table.h"
#include "extender/snapshot.h"

/*
 * Where what the API server tells of nodes' sleep meets what their agents saw of it. Pure.
 *
 * A node that may sleep is priced from its sleep watts: as stated, else as its agent saw them.
 * Where nobody knows them it counts as one that stays on, which saves less and spends nothing. A
 * node that sleeps is priced as empty; without known wake energy no pod wakes it that can go
 * elsewhere.
 */

/**
 * Prices a snapshot's nodes by their sleep.
 * @param snapshot not published yet.
 * @param all false: the table is the one that they were priced by before, so that only new nodes
 * are looked for.
 * @return 1: some have changed; 0; -ENOMEM.
 */
int ext_sleepers_set(struct ext_snapshot *snapshot, const struct ext_node_table *table, bool all);
