/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdint.h>

/*
 * What the cluster's typical pod uses: the median of those that were placed last. One thread notes,
 * any reads.
 */

/** Pods that are remembered: enough for a median that no single workload's rollout decides, few
 * enough to follow the hour of the day. */
#define EXT_TYPICAL_PODS 255

/** Zeros: none was seen. */
struct ext_typical {
    _Atomic uint32_t mcpu[EXT_TYPICAL_PODS];
    _Atomic uint64_t n; /**< ever */
};

/** A pod was placed. */
void ext_typical_note(struct ext_typical *typical, uint64_t mcpu);

/** Median of their CPU, at least 1; `otherwise` where none was seen. */
uint64_t ext_typical_mcpu(const struct ext_typical *typical, uint64_t otherwise);
