/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/about.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/file.h"
#include "common/version.h"
#include "node-agent/attribution.h"

void agent_about_node(const struct agent_options *options, const struct agent_topology *topology,
                      struct kw_node_info *ret)
{
    struct utsname name;

    if (options->node_name != NULL)
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
}

void agent_about_boot(const struct agent_roots *roots, char ret[AGENT_BOOT_ID_MAX])
{
    char path[4096];

    if (kw_path_join(path, sizeof(path), roots->procfs, "sys/kernel/random/boot_id") == 0 &&
        kw_file_read_at(AT_FDCWD, path, ret, AGENT_BOOT_ID_MAX) > 0)
        ret[strcspn(ret, "\n")] = '\0';
    else
        ret[0] = '\0';
}

void agent_about_recording(const struct agent_options *options, const struct kw_node_info *info,
                           const struct agent_topology *topology,
                           const struct agent_accounting_ops *accounting, void *accounting_self,
                           const struct agent_meter_ops *meter, struct agent_recording_header *ret)
{
    const struct agent_feature_state *features =
        accounting->features != NULL ? accounting->features(accounting_self) : NULL;

    *ret = (struct agent_recording_header){.estimated = meter->estimated,
                                           .t_unix_ms = kw_now_unix_ms(),
                                           .n_online = topology->n_online};
    (void)snprintf(ret->node, sizeof(ret->node), "%s", info->node);
    (void)snprintf(ret->version, sizeof(ret->version), "%s", info->version);
    (void)snprintf(ret->cpu_model, sizeof(ret->cpu_model), "%s", info->cpu_model);
    (void)snprintf(ret->meter, sizeof(ret->meter), "%s", meter->name);
    (void)snprintf(ret->accounting, sizeof(ret->accounting), "%s", accounting->name);
    (void)snprintf(ret->method, sizeof(ret->method), "%s",
                   agent_attributions[options->attribution]->name);
    if (features != NULL && features[AGENT_FEATURE_SMT].on)
        ret->has |= AGENT_HAS_SMT;
    if (features != NULL && features[AGENT_FEATURE_COUNTERS].on)
        ret->has |= AGENT_HAS_COUNTERS;
    for (unsigned p = 0; p < topology->n_packages; p++)
        ret->package_cpus[p] = topology->package_cpus[p];
}
