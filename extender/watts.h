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
struct ext_watts {
    double measured_mw; /**< of the last sample; the platform's meter counts where it shows more */
    double mean_mw;     /**< of past samples, the latest weighing 1/16 */
    double variance_mw2;
    uint32_t mw[KW_CURVE_KNOTS]; /**< the curve, not its hull: the platform's where there is one */
    uint16_t load_permille[KW_CURVE_KNOTS];
    uint8_t n;  /**< knots; 0: no curve */
    bool heard; /**< a sample has come */
    double capacity_mcpu;
};

/** Takes a sample's power. */
void ext_watts_sample(struct ext_watts *watts, const struct kw_sample *sample);

/** @param curve NULL: it has none. */
void ext_watts_curve(struct ext_watts *watts, const struct kw_curve *curve);

/** Prices of more work on a node that uses so much. */
struct ext_watts_slope {
    double base_mw;   /**< what it draws: measured or by its curve, whichever is more */
    double room_mcpu; /**< to the next knot; infinite behind the last */
    double mw_per_mcpu, beyond_mw_per_mcpu;
};

/** Of a node without a curve or beyond it: what a core of a server draws at the steep end of its
 * curve (median of SPECpower's last tenth, api/README.md "caps"). */
#define EXT_PRIOR_MW_PER_MCPU 6.0

/** @param held_mcpu of pods that used_mcpu does not show yet. Without a curve the prior holds. */
struct ext_watts_slope ext_watts_slope(const struct ext_watts *watts, double used_mcpu,
                                       double held_mcpu);
