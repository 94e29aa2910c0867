/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/proc_stat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A process may call itself anything; what is read of it fits. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct agent_proc_stat stat;

    memset(&stat, 'x', sizeof(stat));
    if (agent_proc_stat_parse((const char *)data, size, &stat) == 0 &&
        strnlen(stat.comm, sizeof(stat.comm)) == sizeof(stat.comm))
        abort();
    return 0;
}
