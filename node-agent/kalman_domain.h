/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node-agent/attribution.h"
#include "node-agent/kalman_evidence.h"
#include "node-agent/kalman_features.h"
#include "node-agent/kalman_filter.h"
#include "node-agent/kalman_parties.h"

/*
 * What is known of one domain: for each view of its features a filter with the states of the
 * machine and one intensity for each workload, and one with the same for all. Of
 * node-agent/attribution_kalman.c.
 */

/* Order of the states; those of workloads follow. */
enum {
    AGENT_STATE_IDLE,
    AGENT_STATE_CORE, /**< this and the next three: how far the machine's coefficient is off the
                         prior's, in parts of it */
    AGENT_STATE_THREAD,
    AGENT_STATE_INSTRUCTION,
    AGENT_STATE_MISS,
    AGENT_STATE_WAKE,
    AGENT_STATE_BEND, /**< how power bends with frequency, or with load where that is unknown */
    AGENT_STATE_REST, /**< intensity of workloads without a state of their own */
    AGENT_STATE_FIRST
};

/** Prior standard deviation of a workload's intensity: some draw a third of what their features
 * say, some three times as much. A narrower one costs most where there are many workloads. */
#define AGENT_INTENSITY_SIGMA 1.0

/** A filter that sees a part of the features. */
struct agent_kalman_view {
    struct agent_filter *filter; /**< NULL: nothing was seen yet */
    double unit;      /**< joules of this machine for one under prior coefficients; 0: unknown */
    double noise;     /**< variance of what the model misses of a window, of its energy squared */
    double noise_min; /**< which is taken no smaller than this */
    double belief;    /**< how much this view is believed, of 1 */
    /* of the block of windows at hand: sum of the errors, their expected variance, s */
    double block_error, block_expected, block_s;
    double strain; /**< square of a block's error, of what was expected: mean of late */
    double usual;  /**< the same of long; below 1, the filter is surer than it says */
    double blocks; /**< that `usual` is the mean of */
    double told;   /**< how much of what sets workloads apart is believed, of 1 */
    double like;   /**< mean intensity of those of the last window, by their size */
};

struct agent_kalman_domain {
    struct agent_kalman_view views[AGENT_VIEWS];
    struct agent_kalman_view alike[AGENT_VIEWS]; /**< all workloads go by AGENT_STATE_REST */
    struct agent_evidence evidence[AGENT_VIEWS]; /**< of the former against the latter */
    struct agent_parties *parties;
    struct agent_owed owed;
    bool siblings; /**< threads were seen to share cores */
    double doubt;  /**< how far instructions are off what workloads did before, of late: mean square
                      of the logarithm */
};

/** Makes room for a domain at its first window and sets the machine's states to their priors.
 * @return 0 or -ENOMEM. */
int agent_kalman_domain_begin(struct agent_kalman_domain *domain,
                              const struct agent_window *window);
void agent_kalman_domain_free(struct agent_kalman_domain *domain);

/** Begins again at the priors; what is known of owners stays. */
void agent_kalman_domain_reset(struct agent_kalman_domain *domain,
                               const struct agent_window *window);

/** Ties workloads of one owner whose covariance is not known, as far as they are to be like each
 * other. */
void agent_kalman_domain_tie(struct agent_kalman_domain *domain);

/** Lets go of a workload's state, where it has one. */
void agent_kalman_domain_forget(struct agent_kalman_domain *domain, uint64_t workload);

/**
 * A workload that ran in the window: gets a state where it has none and there is room, and what is
 * known of its owner. @param expected_j energy that is expected of it at an intensity of 1.
 */
void agent_kalman_domain_meet(struct agent_kalman_domain *domain,
                              const struct agent_features *features, double expected_j);
