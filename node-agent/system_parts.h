/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/sample.h"
#include "node-agent/topology.h"

/*
 * What the system's energy is made of. Pure. The parts add up to it exactly: each slot's share of
 * the system is divided among them by CPU time, by largest remainder.
 */

enum agent_system_part {
    AGENT_SYSTEM_KERNEL, /**< kernel threads */
    AGENT_SYSTEM_ROOT,   /**< processes in the root cgroup, that nobody put elsewhere; and kernel
                            threads where the accounting does not tell them apart */
    AGENT_SYSTEM_INTERRUPTS, /**< interrupts, where their time is in no cgroup's */
    AGENT_SYSTEM_SLICES,     /**< what runs right in a cgroup that only groups others: a slice,
                                "kubepods" */
    AGENT_SYSTEM_OTHER, /**< cgroups that lived too shortly to be named, that are outside of the
                           tree that is seen, or that did not fit */
    AGENT_SYSTEM__MAX
};

/** Zero-initialised is empty. */
struct agent_system_parts {
    uint64_t window_ns[AGENT_SYSTEM__MAX][AGENT_PACKAGES_MAX]; /**< of the present window */
    uint64_t cpu_ns[AGENT_SYSTEM__MAX];                        /**< since the epoch began */
    uint64_t uj[AGENT_SYSTEM__MAX];                            /**< since the epoch began */
};

/** Starts a window. */
void agent_system_parts_begin(struct agent_system_parts *parts);

/** CPU time in the window. @param cpu_ns one entry per package. */
void agent_system_parts_use(struct agent_system_parts *parts, enum agent_system_part part,
                            const uint64_t *cpu_ns, unsigned n_packages);

/** Divides energy that the system got. @param package whose CPU time decides; n_packages or more:
 * that of all. */
void agent_system_parts_share(struct agent_system_parts *parts, uint64_t uj, unsigned package,
                              unsigned n_packages);

/** What a sample says of them. @param merged AGENT_SYSTEM_KERNEL is not told apart. */
void agent_system_parts_show(const struct agent_system_parts *parts, bool merged,
                             struct kw_system_sample *ret);
