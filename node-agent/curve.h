/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/curve.h"
#include "node-agent/archive.h"

/*
 * The node's power curve, learnt online: watts against load, monotone, 11 knots, each with a
 * confidence. Pure: windows in, knots out.
 */

struct agent_curve {
    double prior_idle_mw, prior_full_mw;
    double weight[KW_CURVE_KNOTS];  /**< time seen near the knot, in units of 5 s, decayed */
    double mean_mw[KW_CURVE_KNOTS]; /**< their mean power, brought to the knot's load */
    double quiet_weight; /**< as weight: time at next to no load. The node may wake in a step, of
                            which what it draws at 5 % tells nothing */
    /* the fitted line: weight of the windows in it, their mean load and power, and the sums of
     * squares and products of what they are off these means */
    double line_weight, line_load_permille, line_mw, line_square, line_cross;
};

/** @param prior_idle_mw, prior_full_mw class prior of the whole node (CPU and DRAM). */
void agent_curve_init(struct agent_curve *curve, uint64_t prior_idle_mw, uint64_t prior_full_mw);

/**
 * Takes one window in.
 * @param load_permille mean work of the window, of the node's capacity; above 1000 counts as 1000.
 * @param mw mean power of the window. @param interval_ns its length, by which it weighs, and by
 * which what was seen before ages; 0: nothing is taken in.
 */
void agent_curve_observe(struct agent_curve *curve, uint32_t load_permille, uint64_t mw,
                         uint64_t interval_ns);

/** Time passed of which nothing can be learnt: what was seen ages. */
void agent_curve_age(struct agent_curve *curve, uint64_t passed_ns);

/** Saves or loads what was seen; the prior is not of it. */
void agent_curve_archive(struct agent_curve *curve, struct agent_archive *archive);

/** The curve as it stands: always one that kw_curve_check accepts. @param capacity_mcpu > 0. */
void agent_curve_get(const struct agent_curve *curve, uint64_t capacity_mcpu, bool estimated,
                     struct kw_curve *ret);

/** Power of one more core at a load, from the slope there. */
uint64_t agent_curve_marginal_mw(const struct kw_curve *curve, uint64_t used_mcpu);
