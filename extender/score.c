/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: the scheduler takes integers 0..10 and adds them, times weight and ten, to the scores of
 * its own plugins. Absolute watts do not fit into that, and stretching any difference to the whole
 * range would let noise rule the placement.
 *
 * Approach, three passes over the candidates and none that sorts:
 *  1. price of each: hull(used + pod) - hull(used), and the least and greatest of them;
 *  2. prices are told apart in buckets of the noise, from the least on. All in one: all are equal.
 * Otherwise level = 10 x (last - bucket) / last, rounded to nearest. By buckets and not by prices,
 * since where the noise is wider than a level, two prices that are the same would get two levels;
 *  3. ties go to the fuller node, because real curves lie above their hull between its knots and
 *     filling one node to the knot is what reaches the hull. Eleven levels leave no room for a
 * fraction, so of those in one bucket, the emptier ones lose one level. Where buckets share a level
 * only the dearest does this: one that is cheaper by more than the noise can then never score
 * lower. Unknown and stale nodes get the median of the rest: neither preferred nor avoided.
 *
 * Noise floor: 2 % of the greatest price, and 1 W (for a pod below one core: 1 W per core, so that
 * small pods, which are the most, still see the difference between machines).
 */
#include "extender/score.h"

#include <math.h>
#include <stdbool.h>

/** Curves are learnt; their slopes repeat to about a watt per core and two percent. */
#define FLOOR_MW       1000.0
#define FLOOR_MW_MCPU  1.0
#define FLOOR_RELATIVE 0.02

/** Fills closer than this are the same: utilisation of a window is no more exact. */
#define FLOOR_FILL 0.02

#define LEVELS 11

/** Levels over a range of values: what is divided by is turned round once. */
struct scale {
    double max;
    double per_level; /* levels of one unit */
};

static struct scale scale_of(double min, double max)
{
    return (struct scale){max, (double)(LEVELS - 1) / (max - min)};
}

static uint8_t level_of(const struct scale *scale, double value)
{
    return (uint8_t)((scale->max - value) * scale->per_level + 0.5);
}

/** Lower median of the known candidates' scores. */
static uint8_t median(const size_t counts[LEVELS], size_t known)
{
    size_t seen = 0;

    for (uint8_t level = 0; level < LEVELS; level++) {
        seen += counts[level];
        if (seen > 0 && seen * 2 >= known)
            return level;
    }
    return EXT_SCORE_NEUTRAL;
}

static bool is_unknown(const struct ext_score_scratch *s)
{
    return s->value < 0;
}

static void fill_unknown(const struct ext_score *score, uint8_t *scores)
{
    size_t counts[LEVELS] = {0};

    for (size_t i = 0; i < score->n; i++) {
        if (!is_unknown(&score->scratch[i]))
            counts[scores[i]]++;
    }
    uint8_t neutral = median(counts, score->known);
    for (size_t i = 0; i < score->n; i++) {
        if (is_unknown(&score->scratch[i]))
            scores[i] = neutral;
    }
}

/** Range below which prices are the same. */
static double noise_mw(const struct ext_score *score)
{
    const struct ext_score_pod *pod = &score->pod;
    double floor_mw = pod->mcpu * FLOOR_MW_MCPU;
    double relative_mw = score->max * FLOOR_RELATIVE;

    if (floor_mw > FLOOR_MW)
        floor_mw = FLOOR_MW;
    /* a pod said to draw more or less than its cores cost makes each difference larger or smaller
     */
    if (pod->expected_mw > 0)
        floor_mw *= (score->min + score->max) / 2 / pod->expected_mw;
    return floor_mw > relative_mw ? floor_mw : relative_mw;
}

/** Of the candidates of one level, those whose key lies in [from, to) lose one. */
struct ties {
    double top; /* greatest key */
    double from, to;
};

/**
 * Levels of `efficient`: scratch.value holds prices. Bucket and fill of a candidate make one number
 * to compare by, its key, since a fill that counts is below 1: which of two nodes is the greater
 * cannot be foretold, and a wrong guess costs a branch more than all else here.
 */
static void score_prices(struct ext_score *score, uint8_t *scores)
{
    double min = score->min;
    double per_noise = score->max > min ? 1 / noise_mw(score) : 0;
    uint32_t last = (uint32_t)((score->max - min) * per_noise); /* 50 at most, by FLOOR_RELATIVE */
    bool equal = last == 0;
    /* where all are equal, the scale is 0 and each gets the base */
    struct scale scale = equal ? (struct scale){0} : scale_of(0, last);
    unsigned base = equal ? EXT_SCORE_NEUTRAL : 0;
    struct ties ties[LEVELS] = {0};

    for (size_t i = 0; i < score->n; i++) {
        struct ext_score_scratch *s = &score->scratch[i];
        if (is_unknown(s))
            continue;
        uint32_t bucket = (uint32_t)((s->value - min) * per_noise);
        uint8_t level = (uint8_t)(base + level_of(&scale, bucket));
        double key = 2.0 * bucket + s->fill;
        ties[level].top = key > ties[level].top ? key : ties[level].top;
        scores[i] = level;
        s->value = key;
    }
    for (size_t level = 1; level < LEVELS; level++) { /* nobody loses below 0 */
        struct ties *t = &ties[level];
        t->from = 2.0 * (uint32_t)(t->top / 2); /* the dearest bucket */
        t->to = t->top - FLOOR_FILL;
    }
    for (size_t i = 0; i < score->n; i++) {
        double key = score->scratch[i].value;
        if (key < 0)
            continue;
        const struct ties *t = &ties[scores[i]];
        scores[i] = (uint8_t)(scores[i] - ((key >= t->from) & (key < t->to)));
    }
}

/** Levels of `performance`: the emptier, the better. */
static void score_room(const struct ext_score *score, uint8_t *scores)
{
    bool equal = score->max - score->min < FLOOR_FILL;
    struct scale scale = equal ? (struct scale){0} : scale_of(score->min, score->max);

    for (size_t i = 0; i < score->n; i++) {
        const struct ext_score_scratch *s = &score->scratch[i];
        if (!is_unknown(s))
            scores[i] = equal ? EXT_SCORE_NEUTRAL : level_of(&scale, s->value);
    }
}

void ext_score_begin(struct ext_score *score, const struct ext_score_pod *pod,
                     struct ext_score_scratch *scratch)
{
    *score = (struct ext_score){
        .pod = *pod, .scratch = scratch, .min = (double)INFINITY, .max = -(double)INFINITY};
}

void ext_score_take(struct ext_score *score, const struct ext_place *const *places, size_t n)
{
    struct ext_score_scratch *scratch = score->scratch + score->n;
    bool by_price = score->pod.placement == KW_PLACEMENT_EFFICIENT;
    double mcpu = score->pod.mcpu;
    double min = score->min;
    double max = score->max;
    size_t known = 0;

    score->n += n;
    if (score->pod.placement == KW_PLACEMENT_OFF)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct ext_place *place = places[i];
        struct ext_score_scratch *s = &scratch[i];
        if (place == NULL) {
            s->value = -1;
            continue;
        }
        s->value = by_price ? ext_place_marginal_mw(place, mcpu) : place->fill;
        /* a node that the pod would overload wins no tie by being full */
        s->fill = place->used_mcpu + mcpu > place->capacity_mcpu ? 0 : place->fill;
        min = s->value < min ? s->value : min;
        max = s->value > max ? s->value : max;
        known++;
    }
    score->known += known;
    score->min = min;
    score->max = max;
}

size_t ext_score_end(struct ext_score *score, uint8_t *ret_scores)
{
    if (score->known == 0) {
        for (size_t i = 0; i < score->n; i++)
            ret_scores[i] = EXT_SCORE_NEUTRAL;
        return 0;
    }
    if (score->pod.placement == KW_PLACEMENT_EFFICIENT)
        score_prices(score, ret_scores);
    else
        score_room(score, ret_scores);
    if (score->known < score->n)
        fill_unknown(score, ret_scores);
    return score->known;
}
