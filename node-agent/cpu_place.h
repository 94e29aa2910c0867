/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "node-agent/topology.h"

/*
 * One CPU for each package, or each part of a package that has a counter of its own: sources that
 * read a package through one of its CPUs (perf, MSR) list these anew at each rescan, since CPUs
 * come and go.
 */

struct agent_cpu_place {
    unsigned cpu;
    uint32_t package_id; /**< physical */
    int die;             /**< -1 where sysfs does not say */
};

/** Packages of at most four dies. */
#define AGENT_PLACES_MAX (4 * AGENT_PACKAGES_MAX)

struct agent_cpu_places {
    unsigned n;
    unsigned left_out; /**< there was no room for */
    struct agent_cpu_place items[AGENT_PLACES_MAX];
};

/**
 * Chooses CPUs out of a set, the lowest of each package and die, or of each package where all dies
 * show the same counter (agent_dies_mirror). Sorted by package and die.
 */
void agent_cpu_places_find(const char *sysfs_root, const struct agent_topology *topology,
                           const struct agent_cpu_set *cpus, struct agent_cpu_places *ret);
