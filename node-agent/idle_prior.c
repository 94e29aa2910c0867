/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/idle_prior.h"

#include "node-agent/class_prior.h"

void agent_idle_prior_node(const struct agent_idle_prior *prior, uint64_t *ret_idle_mw,
                           uint64_t *ret_full_mw)
{
    *ret_idle_mw = 0;
    *ret_full_mw = 0;
    for (unsigned p = 0; p < prior->topology->n_packages; p++) {
        uint64_t idle_mw, full_mw;
        agent_package_power_mw(prior->topology, p, prior->idle_mw, prior->full_mw, &idle_mw,
                               &full_mw);
        *ret_idle_mw += idle_mw;
        *ret_full_mw += full_mw;
    }
}

uint64_t agent_idle_prior_mw(const struct agent_idle_prior *prior, unsigned package, bool dram,
                             unsigned n_metered)
{
    uint64_t idle_mw = 0, full_mw = 0;

    if (dram)
        return agent_share_of_package(prior->topology, package, prior->dram_idle_mw);
    if (n_metered <= prior->topology->n_packages) {
        agent_package_power_mw(prior->topology, package, prior->idle_mw, prior->full_mw, &idle_mw,
                               NULL);
        return idle_mw;
    }
    /* more meters than known packages: nobody knows which CPU belongs where */
    agent_idle_prior_node(prior, &idle_mw, &full_mw);
    return idle_mw / n_metered;
}
