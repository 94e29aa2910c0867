/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node-agent/kalman_domain.h"

/*
 * What a window's energy is made of, by one view of the features: linear in the states, so that the
 * filter is exact. Of node-agent/attribution_kalman.c.
 */

/** What one workload has in the window at hand. */
struct agent_part {
    size_t state;
    double f[AGENT_COEFFICIENTS]; /**< joules under prior coefficients, at the view's unit */
    double scaled;                /**< sum of f */
    double wake;                  /**< seconds that it keeps the package awake */
    double bent;                  /**< slope of its energy by AGENT_STATE_BEND */
    double raw;                   /**< what the states say of it, J */
    double expected;              /**< the same, > 0 where it ran */
    double variance;              /**< of its share, J^2; agent_model_variances */
};

/** Numbers of a window that all of its workloads have in common. */
struct agent_model {
    struct agent_kalman_view *view;
    const struct agent_window *window; /**< with the features that the view sees */
    struct agent_part *parts;          /**< n */
    size_t n;
    bool alike;                        /**< one intensity for all workloads */
    double seconds, measured;          /**< s, J */
    double awake_s, threads_s, busy_s; /**< of the package; of its threads; of logical CPUs that
                                          cannot take a thread without sharing a core */
    double raw, expected;              /**< sums of the parts' */
    double error;                      /**< what was measured beyond what was expected, J */
    const uint64_t *kin;               /**< of each state's workload; 0: none */
    double *slope, *times;             /**< one for each state of the filter */
};

/** Features of one workload. */
void agent_model_take(struct agent_model *model, size_t i);

/** What is expected of each workload, at the present means: of what sets them apart, as much as
 * the view's `told` says. */
void agent_model_expect(struct agent_model *model);

/** Takes the scale of the machine from the first window that says something of it: whether its
 * cores are a telephone's or a mainframe's shall not have to be learnt workload by workload. */
void agent_model_find_unit(struct agent_model *model);

/**
 * Brings the states nearer to what was measured; expectations are then to be made anew.
 * @param belief how much of the window speaks of this view, of 1.
 * @return false where the filter lost its footing to rounding.
 */
bool agent_model_learn(struct agent_model *model, double belief);

/** Variance of each workload's share of the energy above idle. */
void agent_model_variances(struct agent_model *model);
