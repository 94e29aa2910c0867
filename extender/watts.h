/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/curve.h"
#include "api/sample.h"

/*
 * What a node draws, for caps: those are about watts as they are, where scoring is about the price
 * of work in the long run. Small, since a snapshot holds one for each node.
 */

/** Mean of past samples, and their variance: over minutes, and over a quarter of an hour, since few
 * samples can look calm by chance. */
struct ext_wander {
    float mean, soon, late;
};

struct ext_watts {
    float measured_mw; /**< of the last sample; the platform's meter counts where it shows more */
    struct ext_wander mw, mcpu;       /**< how its power and its CPU use wander */
    uint32_t knot_mw[KW_CURVE_KNOTS]; /**< the curve, not its hull: the platform's where there is
                                         one */
    uint16_t load_permille[KW_CURVE_KNOTS];
    uint8_t n;  /**< knots; 0: no curve */
    bool heard; /**< a sample has come */
    float capacity_mcpu;
};

/** Takes a sample's power. */
void ext_watts_sample(struct ext_watts *watts, const struct kw_sample *sample);

/** @param curve NULL: it has none. */
void ext_watts_curve(struct ext_watts *watts, const struct kw_curve *curve);

/** What a node is taken to run. */
struct ext_watts_load {
    double used_mcpu;           /**< by the last sample */
    double held_mcpu;           /**< of pods that used_mcpu does not show yet */
    double held_variance_mcpu2; /**< of their use */
    double sigmas;              /**< standard deviations that it may go above that */
};

/** Prices of more work on a node. */
struct ext_watts_slope {
    double base_mw; /**< what it draws: measured, on the mean, or by its curve, whichever is more */
    double risk_mw; /**< what it may draw beside that for a moment */
    /* from there on */
    double room_mcpu; /**< to the next knot; infinite behind the last */
    double mw_per_mcpu, beyond_mw_per_mcpu;
};

/** Of a node without a curve or beyond it: what a core of a server draws at the steep end of its
 * curve (median of SPECpower's last tenth, api/README.md "caps"). */
#define EXT_PRIOR_MW_PER_MCPU 6.0

/** Without a curve the prior holds. */
struct ext_watts_slope ext_watts_slope(const struct ext_watts *watts,
                                       const struct ext_watts_load *load);

/** Standard deviation of a pod's use, as a part of what is expected of it, as long as nothing was
 * learnt: a tenth and half as much again. */
#define EXT_PRIOR_SPREAD 0.15

/** Pods are in the samples now: how their use wanders is not, and is learnt by the next ones. */
void ext_watts_join(struct ext_watts *watts, double variance_mcpu2);
