/* SPDX-License-Identifier: Apache-2.0 */
/* Any CPU and any value of its registers gives energies below what the counter wraps at. The input
 * is vendor, family and model (one byte each), the unit register and a counter (eight each). */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/msr_rapl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const vendors[] = {"GenuineIntel", "AuthenticAMD", "HygonGenuine", "ARM"};
    static struct agent_topology topology;
    uint64_t unit, value;

    if (size < 19)
        return 0;
    (void)snprintf(topology.cpu_vendor, sizeof(topology.cpu_vendor), "%s", vendors[data[0] % 4]);
    topology.cpu_family = data[1];
    topology.cpu_model_number = data[2];
    memcpy(&unit, data + 3, sizeof(unit));
    memcpy(&value, data + 11, sizeof(value));
    struct agent_msr_layout layout = agent_msr_layout(&topology, unit);
    if (layout.unit_reg == 0)
        return 0;
    const struct agent_msr_counter *counters[] = {&layout.package, &layout.dram};
    for (unsigned i = 0; i < 2; i++) {
        if (counters[i]->reg == 0)
            continue;
        if (counters[i]->den == 0 || counters[i]->num == 0)
            abort();
        uint64_t modulus_uj = agent_msr_modulus_uj(counters[i]);
        if (modulus_uj != 0 && agent_msr_energy_uj(counters[i], value) > modulus_uj)
            abort();
    }
    return 0;
}
