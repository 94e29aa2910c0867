/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node-agent/topology.h"

/** What a node draws with nothing to do and at full load, as far as it is known beforehand. */
struct agent_idle_prior {
    const struct agent_topology *topology;
    uint64_t idle_mw, full_mw; /**< of the node's CPU packages, configured; 0: class prior */
    uint64_t dram_idle_mw;     /**< of all memory, by a model; 0: not known, for it follows from its
                                  size and generation, which no table gives */
};

/** Idle and full power of all packages that the topology knows. */
void agent_idle_prior_node(const struct agent_idle_prior *prior, uint64_t *ret_idle_mw,
                           uint64_t *ret_full_mw);

/** Idle power of one domain. @param n_metered packages whose CPU domain is metered. */
uint64_t agent_idle_prior_mw(const struct agent_idle_prior *prior, unsigned package, bool dram,
                             unsigned n_metered);
