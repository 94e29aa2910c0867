/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "extender/growth.h"
#include "extender/ledger.h"
#include "extender/snapshot.h"

/*
 * What nodes' samples show of the pods that came to them, for extender/growth.h, and how much of
 * what runs is young and may grow. Kept beside the snapshots, and only where there are caps. Pure:
 * the owner locks.
 */

struct ext_uptake;

/** @return NULL on ENOMEM. */
struct ext_uptake *ext_uptake_new(void);
void ext_uptake_free(struct ext_uptake **uptake);

/**
 * Learns from the samples that are new in a snapshot, and then counts what is in flight, and what
 * has not come to its use, by what was learnt.
 * @param before the snapshot before it, or NULL. @param held n of the snapshot, as
 * ext_ledger_settle has them; for caps afterwards.
 * @param sigmas as for ext_growth_use. @param ret what pods count as by now.
 * @return 0 or -ENOMEM: held is as it was.
 */
int ext_uptake_settle(struct ext_uptake *uptake, const struct ext_snapshot *snapshot,
                      const struct ext_snapshot *before, double sigmas, struct ext_held *held,
                      struct ext_use *ret);
