/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node-agent/node_snapshot.h"

/*
 * A snapshot as the sampler makes them: two packages, one with DRAM; a running pod "pod-uid" with
 * two containers, an ended container "c0ffee", a unit whose name needs escaping. Its books balance.
 */
struct agent_snapshot *kwt_snapshot_make(struct agent_snapshot_pool *pool);

/** Who the node is in these tests: "node-1". */
extern const struct kw_node_info kwt_snapshot_info;
