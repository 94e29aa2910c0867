/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/engine_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(int rc, const char *folder, size_t size)
{
    if (rc == 0 && (folder[0] != '/' || strnlen(folder, size) == size))
        abort();
}

/* daemon.json, storage.conf and passwd: a folder is absolute and fits. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *text = (const char *)data;
    char folder[32] = "";

    check(agent_engine_docker_root(text, size, folder, sizeof(folder)), folder, sizeof(folder));
    check(agent_engine_storage_root(text, size, folder, sizeof(folder)), folder, sizeof(folder));
    check(agent_engine_home(text, size, 1000, folder, sizeof(folder)), folder, sizeof(folder));
    return 0;
}
