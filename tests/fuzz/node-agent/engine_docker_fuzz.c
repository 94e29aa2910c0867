/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/engine_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What a damaged or hostile config.v2.json gives is a whole container or none. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct agent_engine_container container;

    memset(&container, 'x', sizeof(container));
    if (agent_engine_docker((const char *)data, size, &container) < 0)
        return 0;
    if (strnlen(container.id, sizeof(container.id)) != 64 || container.name[0] == '\0' ||
        strnlen(container.name, sizeof(container.name)) == sizeof(container.name) ||
        strnlen(container.image, sizeof(container.image)) == sizeof(container.image))
        abort();
    return 0;
}
