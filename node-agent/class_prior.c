/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/class_prior.h"

#include <stddef.h>

const struct kw_cpu_class *agent_class_prior(const struct agent_topology *topology)
{
    return kw_cpu_class_of(topology->cpu_vendor, topology->cpu_family, topology->cpu_model_number);
}

static unsigned at_least_one(unsigned value)
{
    return value > 0 ? value : 1;
}

unsigned agent_package_threads(const struct agent_topology *topology, unsigned package)
{
    unsigned possible = 0, in_package = 0;
    unsigned n = topology->n_cpus < AGENT_CPUS_MAX ? topology->n_cpus : AGENT_CPUS_MAX;

    for (unsigned cpu = 0; cpu < n; cpu++) {
        possible++;
        in_package += topology->cpu_package[cpu] == package;
    }
    if (package >= topology->n_packages || possible == 0 || in_package == 0)
        return at_least_one(topology->n_online / at_least_one(topology->n_packages));
    /* possible CPUs may outnumber those online (hotplug slots of a VM): scale */
    return at_least_one(in_package * at_least_one(topology->n_online) / possible);
}

uint64_t agent_share_of_package(const struct agent_topology *topology, unsigned package,
                                uint64_t mw)
{
    return mw * agent_package_threads(topology, package) / at_least_one(topology->n_online);
}

void agent_package_power_mw(const struct agent_topology *topology, unsigned package,
                            uint64_t idle_mw, uint64_t full_mw, uint64_t *ret_idle_mw,
                            uint64_t *ret_full_mw)
{
    const struct kw_cpu_class *prior = agent_class_prior(topology);
    unsigned threads = agent_package_threads(topology, package);
    uint64_t idle = idle_mw > 0 ? agent_share_of_package(topology, package, idle_mw)
                                : (uint64_t)prior->idle_mw * threads;
    uint64_t full = full_mw > 0 ? agent_share_of_package(topology, package, full_mw)
                                : (uint64_t)prior->full_mw * threads;
    uint64_t range = (uint64_t)(prior->full_mw - prior->idle_mw) * threads;

    /* a machine that idles above its class still draws more when it works: a flat curve would say
     * that work is free there */
    if (full_mw == 0 && full < idle + range)
        full = idle + range;
    if (ret_idle_mw != NULL)
        *ret_idle_mw = idle;
    if (ret_full_mw != NULL)
        *ret_full_mw = full > idle ? full : idle;
}
