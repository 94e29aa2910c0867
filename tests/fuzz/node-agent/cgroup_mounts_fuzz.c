/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "node-agent/cgroup_mounts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* /proc/self/mountinfo: other tenants choose mount points and their names. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const roots[] = {"/sys", "/host/sys"};
    struct agent_cgroup_mounts mounts;

    for (size_t i = 0; i < sizeof(roots) / sizeof(roots[0]); i++) {
        agent_cgroup_mounts_parse((const char *)data, size, roots[i], &mounts);
        for (int h = 0; h < AGENT_HIERARCHY__MAX; h++) {
            if (i == 1 && mounts.paths[h][0] != '\0' &&
                strncmp(mounts.paths[h], "/host/sys/", 10) != 0)
                abort();
        }
        (void)agent_cgroup_mounts_layout(&mounts);
    }
    return 0;
}
