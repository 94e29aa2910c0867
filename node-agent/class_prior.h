/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "api/cpu_class.h"
#include "node-agent/topology.h"

/** The class of this machine's CPU, by vendor, family and model. Never NULL. */
const struct kw_cpu_class *agent_class_prior(const struct agent_topology *topology);

/** Hardware threads of a dense package, at least 1; packages that the topology does not know get an
 * even share. */
unsigned agent_package_threads(const struct agent_topology *topology, unsigned package);

/** A package's part, by its threads, of a power of all packages. */
uint64_t agent_share_of_package(const struct agent_topology *topology, unsigned package,
                                uint64_t mw);

/**
 * Idle and full power of one package.
 * @param idle_mw, full_mw of all packages together as configured; 0: class prior.
 * @param ret_idle_mw, ret_full_mw may be NULL; full is never below idle.
 */
void agent_package_power_mw(const struct agent_topology *topology, unsigned package,
                            uint64_t idle_mw, uint64_t full_mw, uint64_t *ret_idle_mw,
                            uint64_t *ret_full_mw);
