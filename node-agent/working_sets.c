/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/working_sets.h"

#include "common/clock.h"

#define ROUND_NS (15 * KW_NS_PER_S)

/* Memory grows only where something runs; of what did not run since it was read the kernel may
 * reclaim some, which is seen this much later. */
#define IDLE_ROUND_NS (4 * ROUND_NS)

static bool is_due(const struct agent_workload *workload, uint64_t now_ns)
{
    return workload->cpu_ns != workload->memory_cpu_ns ||
           now_ns - workload->memory_t_ns >= IDLE_ROUND_NS;
}

static void read_one(struct agent_cgroups *cgroups, struct agent_workload *workload,
                     uint64_t now_ns)
{
    uint64_t bytes = 0;

    workload->memory_t_ns = now_ns;
    workload->memory_cpu_ns = workload->cpu_ns;
    if (workload->cgroups == 0)
        return;
    if (agent_cgroups_memory_bytes(cgroups, workload->label->cgroup, &bytes) == 0)
        workload->memory_bytes = bytes;
    for (size_t i = 0; i < workload->n_containers; i++) {
        struct agent_container *container = &workload->containers[i];
        if (container->cgroups > 0 &&
            agent_cgroups_memory_bytes(cgroups, container->label->cgroup, &bytes) == 0)
            container->memory_bytes = bytes;
    }
}

void agent_working_sets_read(struct agent_ledger *ledger, struct agent_cgroups *cgroups,
                             size_t *cursor, uint64_t now_ns, uint64_t interval_ns)
{
    struct agent_workload *const *workloads = NULL;
    size_t n = agent_ledger_workloads(ledger, &workloads);
    size_t turns = n * (size_t)(interval_ns / KW_NS_PER_MS) / (size_t)(ROUND_NS / KW_NS_PER_MS) + 1;

    for (size_t i = 0; i < turns && i < n; i++) {
        *cursor = (*cursor + 1) % n;
        if (is_due(workloads[*cursor], now_ns))
            read_one(cgroups, workloads[*cursor], now_ns);
    }
    for (size_t i = 0; i < n; i++) {
        if (workloads[i]->memory_t_ns == 0)
            read_one(cgroups, workloads[i], now_ns);
    }
}
