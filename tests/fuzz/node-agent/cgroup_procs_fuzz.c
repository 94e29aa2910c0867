/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>

#include "node-agent/cgroup_procs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Every number of a process is one. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct agent_pids pids = {0};

    if (agent_pids_parse((const char *)data, size, &pids) >= 0) {
        for (size_t i = 0; i < pids.n; i++) {
            if (pids.ids[i] <= 0)
                abort();
        }
    }
    agent_pids_free(&pids);
    return 0;
}
