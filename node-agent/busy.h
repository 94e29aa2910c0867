/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stddef.h>
#include <stdint.h>

#include "node-agent/topology.h"

/** Busy time of the packages, from /proc/stat, between two readings. */
struct agent_busy {
    char path[PATH_MAX];
    char *text; /**< owned */
    uint64_t tick_ns;
    unsigned n_packages, n_cpus;
    uint8_t cpu_package[AGENT_CPUS_MAX];
    uint64_t at_ns[AGENT_PACKAGES_MAX];    /**< at the last reading */
    uint64_t delta_ns[AGENT_PACKAGES_MAX]; /**< in the last interval */
    uint64_t sum_ns;                       /**< of delta_ns */
};

/** Takes the first reading. @return 0; -ENOMEM; -EINVAL, -ENAMETOOLONG. */
int agent_busy_open(struct agent_busy *busy, const char *procfs_root,
                    const struct agent_topology *topology);
void agent_busy_close(struct agent_busy *busy);

/** Fills delta_ns and sum_ns; zeros where /proc/stat cannot be read. */
void agent_busy_read(struct agent_busy *busy);

/** Adds `ns` to the `cells` of the packages as they were busy in the last interval; what does not
 * divide, to the busiest. */
void agent_busy_split(const struct agent_busy *busy, uint64_t ns, uint64_t *cells);
