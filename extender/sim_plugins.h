/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The scores of kube-scheduler's own plugins that tell nodes apart by what they hold, as version
 * 1.25 to 1.34 compute them. The others (taints, affinity, images) are the same for all nodes here.
 * Pure.
 */

/** What the scheduler knows of a candidate, this pod not counted. */
struct ext_sim_candidate {
    double capacity_mcpu, capacity_mib; /**< memory 0: it has none to account for */
    double requested_mcpu, requested_mib;
    uint32_t replicas; /**< of the pod's own workload */
};

/** What is asked of the plugins. */
struct ext_sim_question {
    double request_mcpu, request_mib;
    bool has_workload;   /**< PodTopologySpread's default constraints apply */
    bool fit;            /**< NodeResourcesFit scores */
    bool balanced;       /**< NodeResourcesBalancedAllocation scores */
    bool most_allocated; /**< NodeResourcesFit prefers the fuller */
};

/** Weighted sum of the plugins' scores of each candidate. @param scratch, ret_points n elements. */
void ext_sim_plugins(const struct ext_sim_question *question,
                     const struct ext_sim_candidate *candidates, size_t n, double *scratch,
                     int64_t *ret_points);

/** How many nodes that fit the scheduler looks for before it scores, of n in all
 * (percentageOfNodesToScore unset). */
size_t ext_sim_sample_size(size_t n);
