/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Caps are about moments, samples about means. A node's power wanders because the use of its pods
 * does; how far is seen in its samples, in watts and in CPU. Both are needed: watts hold what a
 * meter adds, and CPU is what tells how far the next moment may be where the curve is steeper than
 * where the samples were taken. Use then counts at least as its mean, since a sample may be of a
 * lull.
 */
#include "extender/watts.h"

#include <math.h>

/** Weights of the latest sample: minutes, in which a new set of pods shows itself, and a quarter of
 * an hour, which smooths the variance's own error (a sixth over 16 samples). */
#define SOON (1.0 / 16)
#define LATE (1.0 / 128)

/** What goes beyond so many deviations is a step: pods came or went. */
#define STEP_SIGMAS 4
/** A deviation is taken to be no less than this part of the value, which is a good meter's own. */
#define CALM        0.01

static void wander(struct ext_wander *wander, double value, bool first)
{
    if (first)
        *wander = (struct ext_wander){.mean = (float)value};
    double off = value - (double)wander->mean;
    double soon = (double)wander->soon;
    double calm = CALM * value;
    double step = STEP_SIGMAS * STEP_SIGMAS * (soon > calm * calm ? soon : calm * calm);
    bool steps = off * off > step;

    /* after a step the mean begins anew, and what is expected soon grows by no more than to its
     * double: steps that go on are a way to wander, a single one is none */
    wander->mean = (float)(steps ? value : (double)wander->mean + SOON * off);
    wander->soon = (float)((1 - SOON) * (soon + SOON * (steps ? step : off * off)));
    wander->late = (float)((1 - LATE) * ((double)wander->late + LATE * off * off));
}

static double variance(const struct ext_wander *wander)
{
    return (double)(wander->soon > wander->late ? wander->soon : wander->late);
}

void ext_watts_sample(struct ext_watts *watts, const struct kw_sample *sample)
{
    double mw = (double)sample->watts_mw;

    if (sample->platform.present && (double)sample->platform.mw > mw)
        mw = (double)sample->platform.mw;
    wander(&watts->mw, mw, !watts->heard);
    wander(&watts->mcpu, (double)kw_sample_load_mcpu(sample), !watts->heard);
    watts->measured_mw = (float)mw;
    watts->heard = true;
}

void ext_watts_join(struct ext_watts *watts, double variance_mcpu2)
{
    watts->mcpu.soon += (float)variance_mcpu2;
}

void ext_watts_curve(struct ext_watts *watts, const struct kw_curve *curve)
{
    watts->n = 0;
    if (curve == NULL)
        return;
    watts->n = (uint8_t)curve->n;
    watts->capacity_mcpu = (float)curve->capacity_mcpu;
    for (uint32_t i = 0; i < curve->n; i++) {
        watts->knot_mw[i] = curve->platform.present ? curve->platform.mw[i] : curve->knots[i].mw;
        watts->load_permille[i] = (uint16_t)curve->knots[i].load_permille;
    }
}

/** Watts of a milli-core between a knot and the next. */
static double slope_of(const struct ext_watts *watts, unsigned i)
{
    double width = (watts->load_permille[i + 1] - watts->load_permille[i]) *
                   ((double)watts->capacity_mcpu / 1000);

    return ((double)watts->knot_mw[i + 1] - (double)watts->knot_mw[i]) / width;
}

static double knot_mcpu(const struct ext_watts *watts, unsigned i)
{
    return watts->load_permille[i] * ((double)watts->capacity_mcpu / 1000);
}

/** The segment that a load lies in; the last one for more than the capacity. */
static unsigned segment_of(const struct ext_watts *watts, double mcpu)
{
    unsigned i = 0;

    while (i + 2 < watts->n && mcpu >= knot_mcpu(watts, i + 1))
        i++;
    return i;
}

static double curve_mw(const struct ext_watts *watts, double mcpu)
{
    unsigned i = segment_of(watts, mcpu);

    return watts->knot_mw[i] + (mcpu - knot_mcpu(watts, i)) * slope_of(watts, i);
}

static double greater(double a, double b)
{
    return a > b ? a : b;
}

/** A node of which no curve is known. */
static struct ext_watts_slope flat(const struct ext_watts *watts, const struct ext_watts_load *load)
{
    double spread_mw = EXT_PRIOR_MW_PER_MCPU * sqrt(load->held_variance_mcpu2);

    return (struct ext_watts_slope){
        .base_mw = greater((double)watts->measured_mw, (double)watts->mw.mean) +
                   load->held_mcpu * EXT_PRIOR_MW_PER_MCPU,
        .risk_mw = load->sigmas * sqrt(variance(&watts->mw) + spread_mw * spread_mw),
        .room_mcpu = (double)INFINITY,
        .mw_per_mcpu = EXT_PRIOR_MW_PER_MCPU,
        .beyond_mw_per_mcpu = EXT_PRIOR_MW_PER_MCPU};
}

struct ext_watts_slope ext_watts_slope(const struct ext_watts *watts,
                                       const struct ext_watts_load *load)
{
    if (watts->n < 2)
        return flat(watts, load);
    double level = greater(load->used_mcpu, (double)watts->mcpu.mean);
    double level_mw = curve_mw(watts, level);
    double held = level + load->held_mcpu;
    double held_mw = curve_mw(watts, held);
    double top = held + load->sigmas * sqrt(variance(&watts->mcpu) + load->held_variance_mcpu2);
    if (top > (double)watts->capacity_mcpu) /* more than all its processors cannot run */
        top = greater(held, (double)watts->capacity_mcpu);
    unsigned i = segment_of(watts, top);
    double slope = slope_of(watts, i);
    struct ext_watts_slope ret = {
        .base_mw = greater(greater((double)watts->measured_mw, (double)watts->mw.mean), level_mw) +
                   (held_mw - level_mw),
        .risk_mw =
            greater(curve_mw(watts, top) - held_mw, load->sigmas * sqrt(variance(&watts->mw))),
        .room_mcpu = (double)INFINITY,
        .mw_per_mcpu = slope,
        .beyond_mw_per_mcpu = slope};

    if (i + 2 < watts->n)
        ret.room_mcpu = knot_mcpu(watts, i + 1) - top;
    for (unsigned j = i; j + 1 < watts->n; j++)
        ret.beyond_mw_per_mcpu = greater(ret.beyond_mw_per_mcpu, slope_of(watts, j));
    return ret;
}
