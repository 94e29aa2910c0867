/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/watts.h"

#include <math.h>

/** Weight of the latest sample in mean and variance: a few tens of seconds, as loads wander. */
#define LATEST (1.0 / 16)

void ext_watts_sample(struct ext_watts *watts, const struct kw_sample *sample)
{
    double mw = (double)sample->watts_mw;

    if (sample->platform.present && (double)sample->platform.mw > mw)
        mw = (double)sample->platform.mw;
    if (!watts->heard)
        watts->mean_mw = mw;
    double off = mw - watts->mean_mw;
    watts->mean_mw += LATEST * off;
    watts->variance_mw2 = (1 - LATEST) * (watts->variance_mw2 + LATEST * off * off);
    watts->measured_mw = mw;
    watts->heard = true;
}

void ext_watts_curve(struct ext_watts *watts, const struct kw_curve *curve)
{
    watts->n = 0;
    if (curve == NULL)
        return;
    watts->n = (uint8_t)curve->n;
    watts->capacity_mcpu = (double)curve->capacity_mcpu;
    for (uint32_t i = 0; i < curve->n; i++) {
        watts->mw[i] = curve->platform.present ? curve->platform.mw[i] : curve->knots[i].mw;
        watts->load_permille[i] = (uint16_t)curve->knots[i].load_permille;
    }
}

/** Watts of a milli-core between a knot and the next. */
static double slope_of(const struct ext_watts *watts, unsigned i)
{
    double width =
        (watts->load_permille[i + 1] - watts->load_permille[i]) * (watts->capacity_mcpu / 1000);

    return ((double)watts->mw[i + 1] - (double)watts->mw[i]) / width;
}

static double knot_mcpu(const struct ext_watts *watts, unsigned i)
{
    return watts->load_permille[i] * (watts->capacity_mcpu / 1000);
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

    return watts->mw[i] + (mcpu - knot_mcpu(watts, i)) * slope_of(watts, i);
}

struct ext_watts_slope ext_watts_slope(const struct ext_watts *watts, double used_mcpu,
                                       double held_mcpu)
{
    struct ext_watts_slope slope = {.base_mw =
                                        watts->measured_mw + held_mcpu * EXT_PRIOR_MW_PER_MCPU,
                                    .room_mcpu = (double)INFINITY,
                                    .mw_per_mcpu = EXT_PRIOR_MW_PER_MCPU,
                                    .beyond_mw_per_mcpu = EXT_PRIOR_MW_PER_MCPU};

    if (watts->n < 2)
        return slope;
    double at = used_mcpu + held_mcpu;
    double now_mw = curve_mw(watts, used_mcpu);
    unsigned i = segment_of(watts, at);
    slope.mw_per_mcpu = slope_of(watts, i);
    slope.beyond_mw_per_mcpu = slope.mw_per_mcpu;
    if (i + 2 < watts->n)
        slope.room_mcpu = knot_mcpu(watts, i + 1) - at;
    for (unsigned j = i; j + 1 < watts->n; j++) {
        double further = slope_of(watts, j);
        if (further > slope.beyond_mw_per_mcpu)
            slope.beyond_mw_per_mcpu = further;
    }
    slope.base_mw = (watts->measured_mw > now_mw ? watts->measured_mw : now_mw) +
                    (curve_mw(watts, at) - now_mw);
    return slope;
}
