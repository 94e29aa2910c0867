/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node-agent/accounting.h"
#include "node-agent/attribution.h"

/** What one cgroup or workload did in a window on one package, beside using CPU time. */
struct agent_counts {
    uint64_t shared_ns; /**< the part of the CPU time during which the SMT sibling was busy */
    uint64_t cycles, instructions, llc_misses;
};

/** What the accounting counted beside time, as attribution names it. @param features
 * AGENT_FEATURE_BITs.
 * @return enum agent_has. */
unsigned agent_counts_has(unsigned features);

/** Adds `counts` to `to`. */
void agent_counts_add(struct agent_counts *to, const struct agent_counts *counts);

/**
 * What came between two readings of one cgroup on one package. Counters that shared their PMU
 * counted for a part of the time: what they would have counted is made up from what they did.
 * @param multiplexed set where that was so; else untouched.
 */
struct agent_counts agent_counts_between(const struct agent_more *before,
                                         const struct agent_more *now, bool *multiplexed);

/**
 * A party's features on one package, or on all where `package` is none of them.
 * @param counts, cpu_ns n_packages entries. @param workload its number; 0: the system.
 */
struct agent_features agent_counts_features(const struct agent_counts *counts,
                                            const uint64_t *cpu_ns, unsigned n_packages,
                                            unsigned package, uint64_t workload);
