/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/** CPU time of this process, user and system, in nanoseconds. */
uint64_t agent_self_cpu_ns(void);

/** What the agent itself draws since the epoch began. */
struct agent_self_cost {
    uint64_t base_ns;   /**< CPU time of the process when the epoch began */
    uint64_t last_ns;   /**< the same at the end of the last window */
    uint64_t active_uj; /**< of the node, since the epoch began, at the end of the last window */
    uint64_t uj;
};

/** Starts an epoch. */
void agent_self_cost_begin(struct agent_self_cost *cost);

/**
 * Adds a window: of the node's energy above idle, the agent's part of its CPU time.
 * @param active_uj of the node since the epoch began. @param busy_ns CPU time of all in the window.
 */
void agent_self_cost_add(struct agent_self_cost *cost, uint64_t active_uj, uint64_t busy_ns);

/** CPU time of the calling thread, in nanoseconds. */
uint64_t agent_thread_cpu_ns(void);

/** Resident memory of this process in bytes; 0 where /proc cannot be read. Allocates nothing. */
uint64_t agent_self_rss_bytes(void);
