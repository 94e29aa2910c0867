/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "node-agent/ledger.h"

/*
 * Whose idle energy is: nobody's, for a machine draws it with nothing to do. Who wants to bill it
 * all the same chooses a policy. What a workload gets by it is a number of its own beside its
 * active energy, and never a part of that. Pure.
 */

enum agent_idle_policy {
    AGENT_IDLE_NONE,     /**< it stays the node's */
    AGENT_IDLE_EQUAL,    /**< the same for each workload that runs */
    AGENT_IDLE_REQUESTS, /**< by the CPU that a pod's running containers request, of the node's
                            CPUs; what nobody requests stays the node's */
    AGENT_IDLE__MAX
};

/** "none", "equal", "requests"; ends with NULL. */
extern const char *const agent_idle_policy_names[];

/** Zeros but for the policy: nothing shared yet. */
struct agent_idle_shares {
    enum agent_idle_policy policy;
    uint64_t unshared_uj; /**< what no workload got */
    uint64_t *memory;     /**< owned */
    size_t cap;
};

/**
 * Shares the idle energy of a window out; allocates only where workloads became more.
 * Exactly: what the workloads' idle_uj and unshared_uj grow by is idle_uj.
 * @param capacity_mcpu of the node; 0: all CPU that is requested.
 */
void agent_idle_share(struct agent_idle_shares *shares, struct agent_workload *const *workloads,
                      size_t n, uint64_t idle_uj, uint64_t capacity_mcpu);

/**
 * What each workload would get of `idle` by a policy, in its unit, whichever policy is in use.
 * @return n entries and the node's own; they add up to `idle` and are valid until the next call.
 * NULL: nobody gets any, or there is no memory.
 */
const uint64_t *agent_idle_portions(struct agent_idle_shares *shares, enum agent_idle_policy policy,
                                    struct agent_workload *const *workloads, size_t n,
                                    uint64_t idle, uint64_t capacity_mcpu);

/** Frees the memory, not the struct. */
void agent_idle_shares_free(struct agent_idle_shares *shares);
