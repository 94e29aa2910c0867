/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

#define AGENT_CPUS_MAX     1024
#define AGENT_PACKAGES_MAX 64

/** Processors of this machine, from sysfs and /proc/cpuinfo under their root paths. */
struct agent_topology {
    unsigned n_cpus; /**< possible logical CPUs (highest number + 1), at most AGENT_CPUS_MAX */
    unsigned n_online;
    unsigned n_cores;    /**< physical cores online */
    unsigned n_packages; /**< dense count; >= 1 */
    uint32_t
        package_ids[AGENT_PACKAGES_MAX]; /**< physical ids, ascending; index is the dense number */
    uint8_t cpu_package[AGENT_CPUS_MAX]; /**< CPU -> dense package number */
    unsigned threads_per_core;           /**< online, of the core that has most; 0: not known */
    /** CPU -> 1 + number of the one other thread of its core; 0: runs alone, or has several */
    uint16_t cpu_sibling[AGENT_CPUS_MAX];
    uint16_t package_cpus[AGENT_PACKAGES_MAX]; /**< logical CPUs online of each dense package */
    /** CPU -> 1 + its core's id within the package, as the kernel has it (not dense); 0: offline */
    uint32_t cpu_core[AGENT_CPUS_MAX];
    char cpu_model[128]; /**< "" where unknown */
    char cpu_vendor[32]; /**< "GenuineIntel", "AuthenticAMD", ... */
    unsigned cpu_family, cpu_model_number;
};

/**
 * @param sysfs_root "/sys" or a fixture; @param procfs_root "/proc" or a fixture. What is missing
 * there falls back to one package with every CPU of sysconf(). A CPU that is offline has no package
 * in sysfs: it counts to the first one until the topology is read again.
 * @return 0 or -ENOMEM.
 */
int agent_topology_read(const char *sysfs_root, const char *procfs_root,
                        struct agent_topology *ret);

/** Logical CPUs of a package; of the node where it is one that the topology does not know. */
unsigned agent_topology_cpus_of(const struct agent_topology *topology, unsigned package);

/**
 * Takes vendor, family, model and model name of the first CPU out of the text of /proc/cpuinfo
 * (pure). What the text does not say stays as it was; bytes of the model that are no printable
 * ASCII become '?'.
 * @param text `len` bytes that need no terminator.
 */
void agent_cpuinfo_parse(const char *text, size_t len, struct agent_topology *topology);

/** Set of CPU numbers, as sysfs lists them ("0-3,8"). */
struct agent_cpu_set {
    unsigned n;                    /**< CPUs in the set */
    uint16_t cpus[AGENT_CPUS_MAX]; /**< ascending */
};

/**
 * Reads a list of CPUs from its text (pure). Numbers from AGENT_CPUS_MAX on are left out.
 * @return 0; -EBADMSG where the text is no ascending list; *ret untouched then.
 */
int agent_cpu_set_parse(const char *text, size_t len, struct agent_cpu_set *ret);

/** Reads sysfs_root/devices/system/cpu/NAME ("possible", "online"). @return 0; -errno; -EBADMSG. */
int agent_cpu_set_read(const char *sysfs_root, const char *name, struct agent_cpu_set *ret);
