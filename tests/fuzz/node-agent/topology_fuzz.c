/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/topology.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* /proc/cpuinfo, which hypervisors fill, and sysfs lists of CPUs. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct agent_topology topology;
    struct agent_cpu_set set;

    agent_cpuinfo_parse((const char *)data, size, &topology);
    if (memchr(topology.cpu_model, '\0', sizeof(topology.cpu_model)) == NULL ||
        memchr(topology.cpu_vendor, '\0', sizeof(topology.cpu_vendor)) == NULL)
        abort();
    if (agent_cpu_set_parse((const char *)data, size, &set) == 0) {
        for (unsigned i = 0; i < set.n; i++) {
            if (set.cpus[i] >= AGENT_CPUS_MAX || (i > 0 && set.cpus[i] <= set.cpus[i - 1]))
                abort();
        }
    }
    return 0;
}
