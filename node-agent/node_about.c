/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/node_about.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/file.h"
#include "common/version.h"

void agent_node_about(const struct agent_options *options, const struct agent_topology *topology,
                      struct kw_node_info *ret, char boot_id[AGENT_BOOT_ID_SIZE])
{
    struct utsname name;
    char path[PATH_MAX];

    if (options->node_name != NULL && options->node_name[0] != '\0')
        (void)snprintf(ret->node, sizeof(ret->node), "%s", options->node_name);
    else if (gethostname(ret->node, sizeof(ret->node) - 1) < 0)
        (void)snprintf(ret->node, sizeof(ret->node), "localhost");
    (void)snprintf(ret->cpu_model, sizeof(ret->cpu_model), "%s", topology->cpu_model);
    if (uname(&name) == 0)
        (void)snprintf(ret->kernel, sizeof(ret->kernel), "%s", name.release);
    (void)snprintf(ret->version, sizeof(ret->version), "%s", kw_version());
    ret->packages = topology->n_packages;
    ret->cores = topology->n_cores;
    ret->threads = topology->n_online;
    if (kw_path_join(path, sizeof(path), options->procfs_root, "sys/kernel/random/boot_id") == 0 &&
        kw_file_read_at(AT_FDCWD, path, boot_id, AGENT_BOOT_ID_SIZE) > 0)
        boot_id[strcspn(boot_id, "\n")] = '\0';
    else
        boot_id[0] = '\0';
}
