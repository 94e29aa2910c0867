/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "common/err.h"

#define AGENT_CPUS_MAX     1024
#define AGENT_PACKAGES_MAX 64

/** Processors of this machine, from sysfs and /proc/cpuinfo under their root paths. */
struct agent_topology {
    unsigned n_cpus;     /**< possible logical CPUs (highest number + 1) */
    unsigned n_online;
    unsigned n_cores;    /**< physical cores online */
    unsigned n_packages; /**< dense count; >= 1 */
    uint32_t package_ids[AGENT_PACKAGES_MAX]; /**< physical ids, ascending; index is the dense number */
    uint8_t cpu_package[AGENT_CPUS_MAX];      /**< CPU -> dense package number */
    char cpu_model[128];   /**< "" where unknown */
    char cpu_vendor[32];   /**< "GenuineIntel", "AuthenticAMD", ... */
    unsigned cpu_family, cpu_model_number;
};

/**
 * @param sysfs_root "/sys" or a fixture; @param procfs_root "/proc" or a fixture. What is missing there falls back to one
 *        package with every CPU of sysconf().
 * @return 0 or -ENOMEM.
 */
int agent_topology_read(const char *sysfs_root, const char *procfs_root,
                        struct agent_topology *ret);
