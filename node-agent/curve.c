/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each window is shared between the two knots around its load (linear weights), and each knot keeps
 * a mean of what it was given. Memory fades in two ways: a knot's weight stops growing at
 * WEIGHT_MAX, so that its mean follows a change within that many windows, and all weights fade with
 * a day's time constant, so that what was seen long ago gives way to the prior's confidence, not to
 * the prior's watts.
 *
 * A knot that saw nothing is filled from the prior line of the CPU class, scaled by how far off
 * that line was at the knots that saw something: a prior is mostly wrong by a factor (threads of a
 * VM, another stepping), less in shape. The result is made monotone by pooling adjacent violators
 * (isotonic least squares, PAVA; Ayer et al. 1955), which is linear for 11 knots and moves nothing
 * that is in order already.
 */
#include "node-agent/curve.h"

#include <math.h>
#include <stddef.h>

#define LAST           (KW_CURVE_KNOTS - 1)
#define STEP           (1000.0 / LAST)
#define WEIGHT_MAX     200.0 /* windows: at 5 s, a knot follows within a quarter of an hour */
#define FADE_NS        (86400.0 * 1e9) /* a day: the pattern of most loads */
#define PRIOR_WEIGHT   0.5             /* a single window outweighs the prior */
#define HALF_CONFIDENT 10.0            /* windows after which a knot is half sure */
#define SCALE_MIN      0.05            /* limits on how wrong a prior can be */
#define SCALE_MAX      20.0
#define MW_MAX         1e9 /* one megawatt: nothing here draws more */

static double prior_at(const struct agent_curve *curve, unsigned knot)
{
    return curve->prior_idle_mw +
           (curve->prior_full_mw - curve->prior_idle_mw) * (double)knot / LAST;
}

void agent_curve_init(struct agent_curve *curve, uint64_t prior_idle_mw, uint64_t prior_full_mw)
{
    *curve = (struct agent_curve){0};
    curve->prior_idle_mw = fmin((double)prior_idle_mw, MW_MAX);
    curve->prior_full_mw = fmin(fmax((double)prior_full_mw, (double)prior_idle_mw), MW_MAX);
}

static void add(struct agent_curve *curve, unsigned knot, double mw, double share)
{
    if (share <= 0)
        return;
    double weight = fmin(curve->weight[knot] + share, WEIGHT_MAX);

    curve->mean_mw[knot] += (mw - curve->mean_mw[knot]) * share / weight;
    curve->weight[knot] = weight;
}

void agent_curve_observe(struct agent_curve *curve, uint32_t load_permille, uint64_t mw,
                         uint64_t interval_ns)
{
    double fade = exp(-(double)interval_ns / FADE_NS);
    double at = fmin((double)load_permille, 1000.0) / STEP;
    unsigned knot = (unsigned)at < LAST ? (unsigned)at : LAST - 1;
    double share = at - (double)knot;

    for (unsigned k = 0; k < KW_CURVE_KNOTS; k++)
        curve->weight[k] *= fade;
    add(curve, knot, fmin((double)mw, MW_MAX), 1.0 - share);
    add(curve, knot + 1, fmin((double)mw, MW_MAX), share);
}

/** How far the prior was off at what was seen. */
static double prior_scale(const struct agent_curve *curve)
{
    double seen = 0, expected = 0;

    for (unsigned k = 0; k < KW_CURVE_KNOTS; k++) {
        seen += curve->weight[k] * curve->mean_mw[k];
        expected += curve->weight[k] * prior_at(curve, k);
    }
    if (seen <= 0 || expected <= 0)
        return 1.0;
    return fmin(fmax(seen / expected, SCALE_MIN), SCALE_MAX);
}

/** Pools adjacent violators: the nearest values that never fall, by weighted squares. */
static void make_monotone(double value[KW_CURVE_KNOTS], const double weight[KW_CURVE_KNOTS])
{
    double mean[KW_CURVE_KNOTS], mass[KW_CURVE_KNOTS];
    unsigned length[KW_CURVE_KNOTS], blocks = 0;

    for (unsigned k = 0; k < KW_CURVE_KNOTS; k++) {
        mean[blocks] = value[k];
        mass[blocks] = weight[k];
        length[blocks] = 1;
        blocks++;
        while (blocks > 1 && mean[blocks - 2] > mean[blocks - 1]) {
            double both = mass[blocks - 2] + mass[blocks - 1];
            mean[blocks - 2] =
                (mean[blocks - 2] * mass[blocks - 2] + mean[blocks - 1] * mass[blocks - 1]) / both;
            mass[blocks - 2] = both;
            length[blocks - 2] += length[blocks - 1];
            blocks--;
        }
    }
    for (unsigned b = 0, k = 0; b < blocks; b++) {
        for (unsigned i = 0; i < length[b]; i++)
            value[k++] = mean[b];
    }
}

void agent_curve_get(const struct agent_curve *curve, uint64_t capacity_mcpu, bool estimated,
                     struct kw_curve *ret)
{
    double value[KW_CURVE_KNOTS], weight[KW_CURVE_KNOTS];
    double scale = prior_scale(curve);

    for (unsigned k = 0; k < KW_CURVE_KNOTS; k++) {
        weight[k] = curve->weight[k] + PRIOR_WEIGHT;
        value[k] = (curve->weight[k] * curve->mean_mw[k] +
                    PRIOR_WEIGHT * fmin(prior_at(curve, k) * scale, MW_MAX)) /
                   weight[k];
    }
    make_monotone(value, weight);
    *ret = (struct kw_curve){
        .capacity_mcpu = capacity_mcpu, .estimated = estimated, .n = KW_CURVE_KNOTS};
    for (unsigned k = 0; k < KW_CURVE_KNOTS; k++) {
        ret->knots[k] = (struct kw_curve_knot){
            .load_permille = k * 1000 / LAST,
            .mw = (uint32_t)llround(value[k]),
            .confidence_permille =
                (uint32_t)(1000.0 * curve->weight[k] / (curve->weight[k] + HALF_CONFIDENT)),
        };
    }
}

uint64_t agent_curve_marginal_mw(const struct kw_curve *curve, uint64_t used_mcpu)
{
    const uint64_t core_mcpu = 1000;
    uint64_t from = used_mcpu + core_mcpu <= curve->capacity_mcpu ? used_mcpu
                    : curve->capacity_mcpu > core_mcpu            ? curve->capacity_mcpu - core_mcpu
                                                                  : 0;

    return kw_curve_mw_at(curve, from + core_mcpu) - kw_curve_mw_at(curve, from);
}
