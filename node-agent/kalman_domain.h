/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node-agent/attribution.h"
#include "node-agent/kalman_features.h"
#include "node-agent/kalman_filter.h"
#include "node-agent/kalman_parties.h"

/*
 * What the filter of one domain knows: the states of the machine, and one intensity for each
 * workload. Of node-agent/attribution_kalman.c.
 */

/* Order of the states; those of workloads follow. */
enum {
    AGENT_STATE_IDLE,
    AGENT_STATE_CORE,
    AGENT_STATE_THREAD,
    AGENT_STATE_INSTRUCTION,
    AGENT_STATE_MISS,
    AGENT_STATE_WAKE,
    AGENT_STATE_REST,
    AGENT_STATE_FIRST
};

/** Prior standard deviation of a workload's intensity. */
#define AGENT_INTENSITY_SIGMA 0.6

/* Where means stay. */
#define AGENT_INTENSITY_MIN 0.05
#define AGENT_INTENSITY_MAX 100.0
#define AGENT_COEF_MIN      0.02
#define AGENT_COEF_MAX      50.0

struct agent_kalman_domain {
    struct agent_filter *filter; /**< NULL: not seen yet */
    struct agent_parties *parties;
    struct agent_owed owed;
};

/** Makes room for a domain at its first window and sets the machine's states to their priors.
 * @return 0 or -ENOMEM. */
int agent_kalman_domain_begin(struct agent_kalman_domain *domain,
                              const struct agent_window *window);
void agent_kalman_domain_free(struct agent_kalman_domain *domain);

/** Begins again at the priors; what is known of owners stays. */
void agent_kalman_domain_reset(struct agent_kalman_domain *domain,
                               const struct agent_window *window);

/** Lets go of a workload's state, where it has one. */
void agent_kalman_domain_forget(struct agent_kalman_domain *domain, uint64_t workload);

/**
 * A workload that ran in the window: gets a state where it has none and there is room, and what is
 * known of its owner. @param expected_j energy that is expected of it at an intensity of 1.
 */
void agent_kalman_domain_meet(struct agent_kalman_domain *domain,
                              const struct agent_features *features, double expected_j);
