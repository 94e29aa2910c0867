/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Extended Kalman filter for one number measured at a time: a vector of states with its covariance.
 * Knows nothing of energy. Pure arithmetic in fixed memory; states are added and removed without
 * allocation. Untouched states cost no resident memory (the covariance is packed by rows in zeroed
 * pages).
 *
 * R. E. Kalman, "A New Approach to Linear Filtering and Prediction Problems", 1960; with one number
 * measured and noise > 0 the Joseph form of the update is the plain one, and loses no positive
 * definiteness but by rounding, which a floor under the variances catches.
 */

struct agent_filter;

/** @param max states at most. @return 0 or -ENOMEM. */
int agent_filter_new(size_t max, struct agent_filter **ret);
void agent_filter_free(struct agent_filter **filter);

/** States in use. */
size_t agent_filter_count(const struct agent_filter *filter);

/** Adds a state that knows nothing of the others. @return its index, the last one; -ENOSPC. */
long agent_filter_add(struct agent_filter *filter, double mean, double variance);

/** What a state has in common with others. */
struct agent_filter_like {
    const uint32_t *states;
    size_t n;
    double weight;   /**< of their mean, of 1; the rest of `mean` */
    double mean;     /**< without them */
    double variance; /**< of what they do not tell */
};

/** Adds a state that is tied to others. @return its index, the last one; -ENOSPC. */
long agent_filter_add_like(struct agent_filter *filter, const struct agent_filter_like *like);

/** Takes a state out; the last one gets its index. */
void agent_filter_remove(struct agent_filter *filter, size_t i);

/** Forgets all states. */
void agent_filter_reset(struct agent_filter *filter);

/** What is believed of a state, and how sure it is: units of the state and their products. @param
 * i, j states in use. */
double agent_filter_mean(const struct agent_filter *filter, size_t i);
double agent_filter_variance(const struct agent_filter *filter, size_t i);
double agent_filter_covariance(const struct agent_filter *filter, size_t i, size_t j);

/** Moves a mean into its range; leaves the covariance. */
void agent_filter_clamp(struct agent_filter *filter, size_t i, double low, double high);

/** Adds to the covariance of two states (prior knowledge that ties them). The caller keeps the
 * whole positive definite. */
void agent_filter_tie(struct agent_filter *filter, size_t i, size_t j, double covariance);

/** A state may have moved since the last update. @param limit its variance grows no further.
 * @return by how much it grew. */
double agent_filter_drift(struct agent_filter *filter, size_t i, double variance, double limit);

/** Covariance times a vector. @param h, ret one entry for each state. */
void agent_filter_times(const struct agent_filter *filter, const double *h, double *ret);

/**
 * Takes a measurement in.
 * @param h its slope by each state at the present means.
 * @param innovation measured - expected at the present means.
 * @param noise its variance, > 0.
 * @return variance that the innovation was expected to have; < 0: not taken, since something is not
 * finite.
 */
double agent_filter_update(struct agent_filter *filter, const double *h, double innovation,
                           double noise);
