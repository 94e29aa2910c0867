/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/recording_about.h"

#include <stdio.h>

#include "common/clock.h"
#include "node-agent/attribution.h"

void agent_recording_about(const struct agent_options *options, const struct kw_node_info *info,
                           const struct agent_topology *topology,
                           const struct agent_accounting_ops *accounting, void *accounting_self,
                           const struct agent_meter_ops *meter, struct agent_recording_header *ret)
{
    bool smt = agent_accounting_counts(accounting, accounting_self, AGENT_FEATURE_SMT);
    bool counted = agent_accounting_counts(accounting, accounting_self, AGENT_FEATURE_COUNTERS);

    *ret = (struct agent_recording_header){.estimated = meter->estimated,
                                           .t_unix_ms = kw_now_unix_ms(),
                                           .n_online = topology->n_online};
    (void)snprintf(ret->node, sizeof(ret->node), "%s", info->node);
    (void)snprintf(ret->version, sizeof(ret->version), "%s", info->version);
    (void)snprintf(ret->cpu_model, sizeof(ret->cpu_model), "%s", info->cpu_model);
    (void)snprintf(ret->meter, sizeof(ret->meter), "%s", meter->name);
    (void)snprintf(ret->accounting, sizeof(ret->accounting), "%s", accounting->name);
    (void)snprintf(ret->method, sizeof(ret->method), "%s",
                   agent_attribution_choose(options->attribution, !meter->estimated)->name);
    if (smt)
        ret->has |= AGENT_HAS_SMT;
    if (counted)
        ret->has |= AGENT_HAS_COUNTERS;
    for (unsigned p = 0; p < topology->n_packages; p++)
        ret->package_cpus[p] = topology->package_cpus[p];
}
