/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/engine_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(void *user, const struct agent_engine_container *container)
{
    (void)user;
    if (strnlen(container->id, sizeof(container->id)) != 64 || container->name[0] == '\0')
        abort();
}

/* Every container of a list is whole. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    (void)agent_engine_storage((const char *)data, size, check, NULL);
    return 0;
}
