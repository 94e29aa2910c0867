/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/sim_plugins.h"

#include <math.h>

/** Best score of a plugin. */
#define TOP 100

/** Of PodTopologySpread among the default plugins; the others here have 1. */
#define SPREAD_WEIGHT 2

/** maxSkew of the default constraint on host names. */
#define SPREAD_MAX_SKEW 3

/** What the resource plugins take for a pod without requests. */
#define DEFAULT_MCPU 100
#define DEFAULT_MIB  200

/** Nodes below which all are scored, and fewest that ever are. */
#define SAMPLE_MIN 100

static double part_of(double used, double capacity)
{
    return capacity > 0 && used < capacity ? used / capacity : 1;
}

/** NodeResourcesFit by the parts that are taken with the pod. */
static int64_t fit(bool most_allocated, double cpu_part, double memory_part)
{
    if (most_allocated)
        return ((int64_t)(cpu_part * TOP) + (int64_t)(memory_part * TOP)) / 2;
    return ((int64_t)((1 - cpu_part) * TOP) + (int64_t)((1 - memory_part) * TOP)) / 2;
}

/** NodeResourcesBalancedAllocation: the standard deviation of two numbers. */
static int64_t balance(double cpu_part, double memory_part)
{
    return (int64_t)((1 - fabs(cpu_part - memory_part) / 2) * TOP);
}

static int64_t by_resources(const struct ext_sim_question *question,
                            const struct ext_sim_candidate *candidate)
{
    double mcpu = question->request_mcpu > 0 ? question->request_mcpu : DEFAULT_MCPU;
    double mib = question->request_mib > 0 ? question->request_mib : DEFAULT_MIB;
    double cpu_part = part_of(candidate->requested_mcpu + mcpu, candidate->capacity_mcpu);
    double memory_part = candidate->capacity_mib > 0
                             ? part_of(candidate->requested_mib + mib, candidate->capacity_mib)
                             : cpu_part;

    return (question->fit ? fit(question->most_allocated, cpu_part, memory_part) : 0) +
           (question->balanced ? balance(cpu_part, memory_part) : 0);
}

/** PodTopologySpread over host names: fewer replicas of the workload are better. */
static void by_replicas(const struct ext_sim_candidate *candidates, size_t n, double *scratch,
                        int64_t *points)
{
    double weight = log((double)n + 2);
    double min = (double)INFINITY, max = 0;

    for (size_t i = 0; i < n; i++) {
        scratch[i] = round(candidates[i].replicas * weight + SPREAD_MAX_SKEW - 1);
        min = fmin(min, scratch[i]);
        max = fmax(max, scratch[i]);
    }
    for (size_t i = 0; i < n; i++)
        points[i] += SPREAD_WEIGHT * (int64_t)(TOP * (max + min - scratch[i]) / max);
}

void ext_sim_plugins(const struct ext_sim_question *question,
                     const struct ext_sim_candidate *candidates, size_t n, double *scratch,
                     int64_t *ret_points)
{
    for (size_t i = 0; i < n; i++)
        ret_points[i] = by_resources(question, &candidates[i]);
    if (question->has_workload)
        by_replicas(candidates, n, scratch, ret_points);
}

size_t ext_sim_sample_size(size_t n)
{
    size_t percent = n / 125 < 45 ? 50 - n / 125 : 5;

    if (n < SAMPLE_MIN)
        return n;
    return n * percent / 100 < SAMPLE_MIN ? SAMPLE_MIN : n * percent / 100;
}
