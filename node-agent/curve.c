/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each window is shared between the two knots around its load (linear weights), and each knot keeps
 * a mean of what it was given. A window weighs by its length, in units of UNIT_NS, so that many
 * short ones tell no more than a long one. Memory fades in two ways: a knot's weight stops growing
 * at WEIGHT_MAX, so that its mean follows a change within that time, and all weights fade with a
 * day's time constant, whether windows come or not, so that what was seen long ago gives way to the
 * prior's confidence, not to the prior's watts.
 *
 * A straight line is fitted beside the knots (least squares over the last WEIGHT_MAX units). It
 * brings a window's power to the knots around its load, until both know enough for the slope
 * between them to do so: a curve that is bent, or has a step where the node wakes, is not the
 * line's. The line fills the knots that saw nothing, so
 * that a node which was never more than a little busy still has the price of its next core. Where
 * the loads seen are too alike to tell a slope, the line takes that of the CPU class, scaled by how
 * far off the class is at what was seen: a prior is mostly wrong by a factor (threads of a VM,
 * another stepping), less in shape. The result is made monotone by pooling adjacent violators
 * (isotonic least squares, PAVA; Ayer et al. 1955), which is linear for 11 knots and moves nothing
 * that is in order already.
 */
#include "node-agent/curve.h"

#include <math.h>
#include <stddef.h>

#define LAST           (KW_CURVE_KNOTS - 1)
#define STEP           (1000.0 / LAST)
#define UNIT_NS        5e9   /* what a weight of 1 is: a window of the default interval */
#define UNITS_MAX      12.0  /* of one window: a minute; a longer mean says no more of a load */
#define WEIGHT_MAX     200.0 /* units: a knot follows within a quarter of an hour */
#define FADE_NS        (86400.0 * 1e9) /* a day: the pattern of most loads */
#define PRIOR_WEIGHT   0.1             /* half a second seen outweighs the prior */
#define OWN_SLOPE      10.0 /* units after which the slope between two knots is their own: 50 s */
#define HALF_CONFIDENT 10.0 /* units after which a knot is half sure: 50 s */
#define QUIET_PERMILLE 20.0 /* load from which a window tells nothing of an idle node */
/* The class's slope counts as much as one unit whose load is 5 % of the node off the others'. */
#define SLOPE_WEIGHT   (50.0 * 50.0)
#define SCALE_MIN      0.05 /* limits on how wrong a prior can be */
#define SCALE_MAX      20.0
#define MW_MAX         1e9 /* one megawatt: nothing here draws more */
#define SUMS_MAX       (1000.0 * MW_MAX * (WEIGHT_MAX + UNITS_MAX)) /* of squares and products */
#define OUT_OF_RANGE   "its curve is out of range"

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

/** How far the prior is off at what was seen. */
static double prior_scale(const struct agent_curve *curve)
{
    double expected = curve->prior_idle_mw + (curve->prior_full_mw - curve->prior_idle_mw) *
                                                 curve->line_load_permille / 1000.0;

    if (curve->line_weight <= 0 || expected <= 0 || curve->line_mw <= 0)
        return 1.0;
    return fmin(fmax(curve->line_mw / expected, SCALE_MIN), SCALE_MAX);
}

/** Of the fitted line, in milliwatts per permille of load. */
static double slope(const struct agent_curve *curve)
{
    double prior = (curve->prior_full_mw - curve->prior_idle_mw) / 1000.0 * prior_scale(curve);
    double fitted =
        (curve->line_cross + SLOPE_WEIGHT * prior) / (curve->line_square + SLOPE_WEIGHT);

    return fmax(fitted, 0.0);
}

/** The fitted line at a load; the scaled prior where nothing was seen. */
static double line_at(const struct agent_curve *curve, double load_permille)
{
    if (curve->line_weight <= 0)
        return prior_at(curve, 0) + slope(curve) * load_permille;
    double mw = curve->line_mw + slope(curve) * (load_permille - curve->line_load_permille);
    return fmin(fmax(mw, 0.0), MW_MAX);
}

/** Takes a window into the line: weighted means and their central moments, the oldest forgotten. */
static void fit(struct agent_curve *curve, double load_permille, double mw, double units)
{
    double keep = 1.0 - units / WEIGHT_MAX;

    curve->line_weight = curve->line_weight * keep + units;
    curve->line_square *= keep;
    curve->line_cross *= keep;
    double part = units / curve->line_weight;
    double off_load = load_permille - curve->line_load_permille;
    curve->line_load_permille += off_load * part;
    curve->line_mw += (mw - curve->line_mw) * part;
    curve->line_square += units * off_load * (load_permille - curve->line_load_permille);
    curve->line_cross += units * off_load * (mw - curve->line_mw);
}

static void add(struct agent_curve *curve, unsigned knot, double mw, double units)
{
    if (units <= 0)
        return;
    double weight = fmin(curve->weight[knot] + units, WEIGHT_MAX);

    curve->mean_mw[knot] += (mw - curve->mean_mw[knot]) * units / weight;
    curve->weight[knot] = weight;
}

/** Slope between a knot and the next, in milliwatts per permille of load. */
static double slope_from(const struct agent_curve *curve, unsigned knot)
{
    if (curve->weight[knot] < OWN_SLOPE || curve->weight[knot + 1] < OWN_SLOPE)
        return slope(curve);
    return fmax((curve->mean_mw[knot + 1] - curve->mean_mw[knot]) / STEP, 0.0);
}

void agent_curve_age(struct agent_curve *curve, uint64_t passed_ns)
{
    double fade = exp(-(double)passed_ns / FADE_NS);

    for (unsigned k = 0; k < KW_CURVE_KNOTS; k++)
        curve->weight[k] *= fade;
    curve->quiet_weight *= fade;
}

void agent_curve_observe(struct agent_curve *curve, uint32_t load_permille, uint64_t mw,
                         uint64_t interval_ns)
{
    double units = fmin((double)interval_ns / UNIT_NS, UNITS_MAX);
    double load = fmin((double)load_permille, 1000.0);
    double seen_mw = fmin((double)mw, MW_MAX);
    double at = load / STEP;
    unsigned knot = (unsigned)at < LAST ? (unsigned)at : LAST - 1;
    double share = at - (double)knot;

    if (interval_ns == 0)
        return;
    agent_curve_age(curve, interval_ns);
    fit(curve, load, seen_mw, units);
    curve->quiet_weight =
        fmin(curve->quiet_weight + units * fmax(1.0 - load / QUIET_PERMILLE, 0.0), WEIGHT_MAX);
    double rise = slope_from(curve, knot);
    add(curve, knot, fmax(seen_mw - rise * share * STEP, 0.0), (1.0 - share) * units);
    add(curve, knot + 1, fmin(seen_mw + rise * (1.0 - share) * STEP, MW_MAX), share * units);
}

void agent_curve_archive(struct agent_curve *curve, struct agent_archive *archive)
{
    const struct {
        double *value, min, max;
    } line[] = {{&curve->line_weight, 0, WEIGHT_MAX + UNITS_MAX},
                {&curve->line_load_permille, 0, 1000},
                {&curve->line_mw, 0, MW_MAX},
                {&curve->line_square, 0, SUMS_MAX},
                {&curve->line_cross, -SUMS_MAX, SUMS_MAX}};

    for (unsigned k = 0; k < KW_CURVE_KNOTS; k++) {
        agent_archive_real(archive, &curve->weight[k], 0, WEIGHT_MAX, OUT_OF_RANGE);
        agent_archive_real(archive, &curve->mean_mw[k], 0, MW_MAX, OUT_OF_RANGE);
    }
    agent_archive_real(archive, &curve->quiet_weight, 0, WEIGHT_MAX, OUT_OF_RANGE);
    for (size_t i = 0; i < sizeof(line) / sizeof(line[0]); i++)
        agent_archive_real(archive, line[i].value, line[i].min, line[i].max, OUT_OF_RANGE);
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

    for (unsigned k = 0; k < KW_CURVE_KNOTS; k++) {
        weight[k] = curve->weight[k] + PRIOR_WEIGHT;
        value[k] = (curve->weight[k] * curve->mean_mw[k] +
                    PRIOR_WEIGHT * line_at(curve, (double)k * STEP)) /
                   weight[k];
    }
    make_monotone(value, weight);
    *ret = (struct kw_curve){
        .capacity_mcpu = capacity_mcpu, .estimated = estimated, .n = KW_CURVE_KNOTS};
    for (unsigned k = 0; k < KW_CURVE_KNOTS; k++) {
        double seen = k == 0 ? fmin(curve->quiet_weight, curve->weight[0]) : curve->weight[k];
        ret->knots[k] = (struct kw_curve_knot){
            .load_permille = k * 1000 / LAST,
            .mw = (uint32_t)llround(value[k]),
            .confidence_permille = (uint32_t)(1000.0 * seen / (seen + HALF_CONFIDENT)),
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
