/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/identity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_printable(const char *text)
{
    for (; *text != '\0'; text++) {
        if (*text < ' ' || *text >= 0x7f)
            abort();
    }
}

/* Any bytes are a path; what comes out is printable, terminated, and a part of the path. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct agent_identity identity;
    kw_cleanup_free char *path = malloc(size + 2);

    if (path == NULL)
        return 0;
    path[0] = '/';
    if (size > 0)
        memcpy(path + 1, data, size);
    path[size + 1] = '\0';
    if (!agent_identity_from_path(path, &identity))
        return 0;
    if (identity.kind >= KW_WORKLOAD__MAX || identity.id[0] == '\0' || identity.name[0] == '\0')
        abort();
    check_printable(identity.id);
    check_printable(identity.name);
    check_printable(identity.container_id);
    if (strncmp(path, identity.workload_path, strlen(identity.workload_path)) != 0)
        abort();
    return 0;
}
