/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/roots.h"

#include <unistd.h>

#include "common/file.h"

int agent_roots_find(const struct agent_options *options, struct agent_roots *ret)
{
    char path[4096];
    int rc = kw_path_join(path, sizeof(path), options->sysfs_root, "fs/cgroup");

    if (rc < 0)
        return rc;
    *ret = (struct agent_roots){
        .sysfs = options->sysfs_root,
        .cgroup_sysfs = access(path, F_OK) == 0 ? options->sysfs_root : "/sys",
        .procfs = options->procfs_root,
    };
    return 0;
}
