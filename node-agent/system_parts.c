/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/system_parts.h"

#include <string.h>

#include "node-agent/attribution.h"

void agent_system_parts_begin(struct agent_system_parts *parts)
{
    memset(parts->window_ns, 0, sizeof(parts->window_ns));
}

void agent_system_parts_use(struct agent_system_parts *parts, enum agent_system_part part,
                            const uint64_t *cpu_ns, unsigned n_packages)
{
    for (unsigned p = 0; p < n_packages; p++) {
        parts->window_ns[part][p] += cpu_ns[p];
        parts->cpu_ns[part] += cpu_ns[p];
    }
}

void agent_system_parts_share(struct agent_system_parts *parts, uint64_t uj, unsigned package,
                              unsigned n_packages)
{
    uint64_t weights[AGENT_SYSTEM__MAX] = {0}, given[AGENT_SYSTEM__MAX], scratch[AGENT_SYSTEM__MAX];

    for (unsigned part = 0; part < AGENT_SYSTEM__MAX; part++) {
        for (unsigned p = 0; p < n_packages; p++) {
            if (package >= n_packages || p == package)
                weights[part] += parts->window_ns[part][p];
        }
    }
    uint64_t left_uj = uj - agent_apportion(uj, weights, AGENT_SYSTEM__MAX, given, scratch);
    for (unsigned part = 0; part < AGENT_SYSTEM__MAX; part++)
        parts->uj[part] += given[part];
    parts->uj[AGENT_SYSTEM_OTHER] += left_uj; /* energy without CPU time */
}

void agent_system_parts_show(const struct agent_system_parts *parts, bool merged,
                             struct kw_system_sample *ret)
{
    *ret = (struct kw_system_sample){
        .present = true,
        .has_kernel = !merged,
        .kernel_uj = parts->uj[AGENT_SYSTEM_KERNEL],
        .root_uj = parts->uj[AGENT_SYSTEM_ROOT],
        .slices_uj = parts->uj[AGENT_SYSTEM_SLICES],
        .other_uj = parts->uj[AGENT_SYSTEM_OTHER],
        .kernel_cpu_ns = parts->cpu_ns[AGENT_SYSTEM_KERNEL],
        .has_interrupts = parts->cpu_ns[AGENT_SYSTEM_INTERRUPTS] > 0,
        .interrupts_uj = parts->uj[AGENT_SYSTEM_INTERRUPTS],
        .interrupts_cpu_ns = parts->cpu_ns[AGENT_SYSTEM_INTERRUPTS],
        .root_cpu_ns = parts->cpu_ns[AGENT_SYSTEM_ROOT],
        .slices_cpu_ns = parts->cpu_ns[AGENT_SYSTEM_SLICES],
        .other_cpu_ns = parts->cpu_ns[AGENT_SYSTEM_OTHER],
    };
}
