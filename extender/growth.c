/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/growth.h"

#include <math.h>
#include <string.h>

enum state { AT_ONCE, SOON, LATER, ENDS };

/** What is taken before anything is known. Requests are wrong by factors of two to five both ways
 * in published traces; at the default of 2.5 deviations a pod then counts for 2 of what was
 * expected, and a young one keeps a part of that free. */
static const double prior_mean[EXT_GROWTH_STATES] = {
    [AT_ONCE] = 1, [SOON] = 0, [LATER] = 0, [ENDS] = 3e-4};
static const double prior_sigma[EXT_GROWTH_STATES] = {
    [AT_ONCE] = 0.4, [SOON] = 0.15, [LATER] = 0.2, [ENDS] = 1e-3};
/** How far they move in an hour: other workloads come. */
static const double hourly_sigma[EXT_GROWTH_STATES] = {
    [AT_ONCE] = 0.1, [SOON] = 0.05, [LATER] = 0.05, [ENDS] = 3e-4};

/** The variance of a load's change grows with the load: pods end. Of a milli-core, at first. */
#define NOISE_MCPU    300.0
/** An idle node's load changes, too. */
#define NOISE_AT_MCPU 1000.0
/** Steps that this counts for, and how many are looked back on. */
#define NOISE_STEPS   32.0
#define NOISE_MEMORY  1024.0
/** A step that is more than this part of the load counts as that much: rare ones are most of it. */
#define NOISE_PART    0.3

/** No step tells more than one so far from what was expected. One that is much further off tells
 * nothing where no pod that came can be the cause: deployments are scaled down, batches end
 * together, load moves from node to node. */
#define STEP_SIGMAS 4.0
#define FAR_SIGMAS  8.0

/** Deviation of a pod's use from the mean part, before anything is known, and the pods that this
 * counts for; and how many are looked back on. */
#define SPREAD_PRIOR  0.2
#define SPREAD_PODS   30.0
#define SPREAD_MEMORY 2000.0
#define SPREAD_MAX    2.0
/** Of one step. */
#define SPREAD2_MAX   16.0

/** Further deviations of a single pod: one in four thousand uses more. Use lies around requests by
 * factors, so that far off it is more than deviations of a sum say. */
#define ALONE_SIGMAS 1.0
/** Of pods that use less than this part at once it is not seen how they differ. */
#define AT_ONCE_MIN  0.1

/** Part of the deviations that counts of pods that samples show: a third of what runs is young in a
 * busy cluster, and most pods have come to their use. */
#define GROWTH_PART 0.2

void ext_growth_init(struct ext_growth *growth)
{
    *growth = (struct ext_growth){.noise_mcpu = NOISE_MCPU,
                                  .noise_weight = NOISE_STEPS,
                                  .spread2 = SPREAD_PRIOR * SPREAD_PRIOR,
                                  .spread2_weight = SPREAD_PODS};
    for (unsigned i = 0; i < EXT_GROWTH_STATES; i++) {
        growth->mean[i] = prior_mean[i];
        growth->covariance[i][i] = prior_sigma[i] * prior_sigma[i];
    }
}

void ext_growth_age(struct ext_growth *growth, double seconds)
{
    for (unsigned i = 0; i < EXT_GROWTH_STATES; i++) {
        double most = prior_sigma[i] * prior_sigma[i];
        double *variance = &growth->covariance[i][i];
        *variance += hourly_sigma[i] * hourly_sigma[i] * seconds / 3600;
        if (*variance > most)
            *variance = most;
    }
}

/** How the uses of pods differ, and how loads change without any, by a step that was `off` from
 * what was expected with a variance of `sure`. */
static void learn_noise(struct ext_growth *growth, const struct ext_growth_step *step, double off,
                        double sure, double load)
{
    double noise = growth->noise_mcpu * load;
    double square = step->seen_square_mcpu2;

    if (square <= 0) {
        double now = off * off / load;
        double most = NOISE_PART * NOISE_PART * load;
        growth->noise_weight += growth->noise_weight < NOISE_MEMORY;
        growth->noise_mcpu +=
            ((now < most ? now : most) - growth->noise_mcpu) / growth->noise_weight;
        return;
    }
    double now = (off * off - noise - sure) / square;
    double weight = square / (square + noise + sure);
    if (now > SPREAD2_MAX)
        now = SPREAD2_MAX;
    growth->spread2_weight += weight;
    growth->spread2 += weight / growth->spread2_weight * (now - growth->spread2);
    if (growth->spread2_weight > SPREAD_MEMORY)
        growth->spread2_weight = SPREAD_MEMORY;
}

void ext_growth_take(struct ext_growth *growth, const struct ext_growth_step *step)
{
    const double by[EXT_GROWTH_STATES] = {[AT_ONCE] = step->seen_mcpu,
                                          [SOON] = step->fresh_mcpu,
                                          [LATER] = step->settling_mcpu,
                                          [ENDS] = -step->level_mcpu * step->seconds};
    double load = step->level_mcpu + step->seen_mcpu + NOISE_AT_MCPU;
    double cross[EXT_GROWTH_STATES] = {0};
    double off = step->after_mcpu - step->before_mcpu;
    double sure = 0; /* variance of what is expected */

    for (unsigned i = 0; i < EXT_GROWTH_STATES; i++) {
        off -= by[i] * growth->mean[i];
        for (unsigned j = 0; j < EXT_GROWTH_STATES; j++)
            cross[i] += growth->covariance[i][j] * by[j];
        sure += by[i] * cross[i];
    }
    double spread2 = growth->spread2 > 0 ? growth->spread2 : 0;
    double all = sure + growth->noise_mcpu * load + spread2 * step->seen_square_mcpu2;
    double sigma = sqrt(all);
    double most = STEP_SIGMAS * sigma;
    learn_noise(growth, step, off, sure, load);
    /* more than the pods could bring that came lately: others have changed */
    double could = EXT_USE_MAX * (step->seen_mcpu + step->fresh_mcpu + step->settling_mcpu);
    if (off < -FAR_SIGMAS * sigma || (off > FAR_SIGMAS * sigma && off > could))
        return;
    off = off > most ? most : off < -most ? -most : off;
    for (unsigned i = 0; i < EXT_GROWTH_STATES; i++)
        growth->mean[i] += cross[i] / all * off;
    for (unsigned i = 0; i < EXT_GROWTH_STATES; i++) {
        for (unsigned j = 0; j < EXT_GROWTH_STATES; j++)
            growth->covariance[i][j] -= cross[i] * cross[j] / all;
    }
}

/** The mean of the parts from one on up to LATER, and what is not known of it. */
static double upper(const struct ext_growth *growth, unsigned from, double sigmas)
{
    double mean = 0;
    double variance = 0;

    for (unsigned i = from; i <= LATER; i++) {
        mean += growth->mean[i];
        for (unsigned j = from; j <= LATER; j++)
            variance += growth->covariance[i][j];
    }
    return mean + sigmas * sqrt(variance > 0 ? variance : 0);
}

/** What a pod may come to, where its use is lognormal by the mean and the deviation learnt. */
static double alone(const struct ext_growth *growth, double sigmas)
{
    double at_once = growth->mean[AT_ONCE] > AT_ONCE_MIN ? growth->mean[AT_ONCE] : AT_ONCE_MIN;
    double spread2 = growth->spread2 > 0 ? growth->spread2 : 0;
    double mean = upper(growth, AT_ONCE, 0);
    double unsure = upper(growth, AT_ONCE, 1) - mean;

    mean = mean > AT_ONCE_MIN ? mean : AT_ONCE_MIN;
    double log2 = log1p(spread2 / (at_once * at_once) + unsure * unsure / (mean * mean));
    return mean * exp((sigmas + ALONE_SIGMAS) * sqrt(log2) - log2 / 2);
}

static double within(double value, double least, double most)
{
    return value > least ? value < most ? value : most : least;
}

void ext_growth_use(const struct ext_growth *growth, double sigmas, struct ext_use *ret)
{
    *ret = (struct ext_use){
        .flight = within(upper(growth, AT_ONCE, sigmas), 1, EXT_USE_MAX),
        .fresh = within(upper(growth, SOON, sigmas * GROWTH_PART), 0, EXT_USE_MAX),
        .settling = within(upper(growth, LATER, sigmas * GROWTH_PART), 0, EXT_USE_MAX),
        .spread = within(sqrt(growth->spread2 > 0 ? growth->spread2 : 0), 0, SPREAD_MAX),
        .alone = sigmas > 0 ? within(alone(growth, sigmas), 1, EXT_ALONE_MAX) : 1};
}
