/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "node-agent/topology.h"

/** What a CPU of this class draws per hardware thread; a prior, never a measurement. */
struct agent_class_prior {
    const char *name; /**< "Cascade Lake", or "generic server" where the CPU is not known */
    uint32_t idle_mw; /**< per hardware thread, nothing to do */
    uint32_t full_mw; /**< per hardware thread, all busy */
};

/** The class of this machine's CPU, by vendor, family and model. Never NULL. */
const struct agent_class_prior *agent_class_prior(const struct agent_topology *topology);

/** Hardware threads of a dense package, at least 1; packages that the topology does not know get an
 * even share. */
unsigned agent_package_threads(const struct agent_topology *topology, unsigned package);

/**
 * Idle and full power of one package.
 * @param idle_mw, full_mw of all packages together as configured; 0: class prior.
 * @param ret_idle_mw, ret_full_mw may be NULL; full is never below idle.
 */
void agent_package_power_mw(const struct agent_topology *topology, unsigned package,
                            uint64_t idle_mw, uint64_t full_mw, uint64_t *ret_idle_mw,
                            uint64_t *ret_full_mw);
