/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>

#include "node-agent/cgroup_stat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* cpu.stat, memory.stat and /proc/stat from a kernel that lost its mind. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const uint8_t packages[4] = {0, 1, 1, 7};
    uint64_t value = 42;
    uint64_t busy_ns[2];

    if (agent_cgroup_stat_find((const char *)data, size, "usage_usec", &value) < 0 && value != 42)
        abort();
    (void)agent_cgroup_stat_find((const char *)data, size, "inactive_file", &value);
    (void)agent_proc_stat_busy((const char *)data, size, 10000000, packages, 4, 2, busy_ns);
    return 0;
}
