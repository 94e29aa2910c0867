/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * How far pods' use lies from what was expected of them, learnt from the loads of nodes alone: for
 * caps, which count pods that no sample shows yet, and those that have not come to their use. Pure.
 *
 * From one sample of a node to the next its load rises by what pods bring that were not in the
 * first one (a part of what was expected of them), by what younger pods have not used until then
 * (they come to their use within a minute, or within some), and falls by what ends. These parts are
 * the same all over the cluster, as far as this goes, and are followed by a Kalman filter (Kalman,
 * 1960): each is known as a mean and how sure it is, and what is not known counts against the room
 * under caps. Nothing that a replica learns is kept when it ends: another has the same samples.
 */

/** Parts that are followed: what a pod uses at once, what it adds within about a minute, and within
 * about ten, of what was expected of it; and what of a node's load ends, per second. */
#define EXT_GROWTH_STATES 4

/** Mean times in which pods pass through the two ages that growth is told apart by. */
#define EXT_GROWTH_FRESH_S    60.0
#define EXT_GROWTH_SETTLING_S 300.0

/** A pod counts no less than was expected of it, and no more than so many times that; by itself, no
 * more than so many times. */
#define EXT_USE_MAX   5.0
#define EXT_ALONE_MAX 20.0

/** What a milli-core that was expected of a pod counts as, under caps. */
struct ext_use {
    double flight;   /**< of a pod that no sample shows: 1 to EXT_USE_MAX */
    double fresh;    /**< of one that samples show, and that came to its first age: what is to come
                        yet, 0 to EXT_USE_MAX */
    double settling; /**< the same of the second age */
    double spread;   /**< standard deviation of a pod's use, as a part of what was expected */
    double alone;    /**< what a single pod may come to, which no other one makes up for, up to
                        EXT_ALONE_MAX */
};

/** What is taken where nothing was learnt and nothing is left to chance. */
#define EXT_USE_AS_EXPECTED ((struct ext_use){.flight = 1, .alone = 1})

struct ext_growth {
    double mean[EXT_GROWTH_STATES];
    double covariance[EXT_GROWTH_STATES][EXT_GROWTH_STATES];
    double noise_mcpu;              /**< variance of a load's change, by the load */
    double noise_weight;            /**< steps that it rests on */
    double spread2, spread2_weight; /**< of pods' use, squared; what it rests on, in pods */
};

/** From one sample of a node to the next. */
struct ext_growth_step {
    double seconds;
    double before_mcpu, after_mcpu; /**< loads */
    double level_mcpu; /**< the load before, without how it wanders: a load that is high by chance
                          falls, and nothing has ended */
    double seen_mcpu;  /**< expected of the pods that the second shows and the first does not */
    double seen_square_mcpu2;         /**< sum of the squares of that */
    double fresh_mcpu, settling_mcpu; /**< expected of those that left the ages meanwhile */
};

/** Nothing is known: a pod uses what is expected of it, give or take 40 %. */
void ext_growth_init(struct ext_growth *growth);

/** Learns from one step. Steps without load and pods are passed over. */
void ext_growth_take(struct ext_growth *growth, const struct ext_growth_step *step);

/** Time goes by: what was learnt becomes less sure. */
void ext_growth_age(struct ext_growth *growth, double seconds);

/** @param sigmas standard deviations of what is not known that count; 0: means alone. */
void ext_growth_use(const struct ext_growth *growth, double sigmas, struct ext_use *ret);
