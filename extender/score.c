/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: the scheduler takes integers 0..10 and adds them, times weight and ten, to the scores of
 * its own plugins. Absolute watts do not fit into that, and stretching any difference to the whole
 * range would let noise rule the placement.
 *
 * Approach, three passes over the candidates and none that sorts:
 *  1. price of each: hull(used + pod) - hull(used), and the least and greatest of them;
 *  2. range below the noise floor: all are equal. Otherwise level = 10 x (max - price) / range,
 * rounded to nearest;
 *  3. ties go to the fuller node, because real curves lie above their hull between its knots and
 *     filling one node to the knot is what reaches the hull. Eleven levels leave no room for a
 * fraction, so of those in one noise bucket of a level, the emptier ones lose one level. Only the
 * dearest bucket of a level does this: one that is cheaper by more than the noise can then never
 * score lower. Unknown and stale nodes get the median of the rest: neither preferred nor avoided.
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

struct range {
    double min, max;
    size_t n;
};

/** Levels over a range of values: what is divided by is turned round once. */
struct scale {
    double max;
    double per_level; /* levels of one unit */
};

static struct scale scale_of(const struct range *range)
{
    return (struct scale){range->max, (double)(LEVELS - 1) / (range->max - range->min)};
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

static void fill_unknown(const struct ext_place *const *places, size_t n, uint8_t *scores)
{
    size_t counts[LEVELS] = {0};
    size_t known = 0;

    for (size_t i = 0; i < n; i++) {
        if (places[i] == NULL)
            continue;
        counts[scores[i]]++;
        known++;
    }
    uint8_t neutral = median(counts, known);
    for (size_t i = 0; i < n; i++) {
        if (places[i] == NULL)
            scores[i] = neutral;
    }
}

/** Range below which prices are the same. */
static double noise_mw(const struct ext_score_pod *pod, const struct range *range)
{
    double floor_mw = pod->mcpu * FLOOR_MW_MCPU;
    double relative_mw = range->max * FLOOR_RELATIVE;

    if (floor_mw > FLOOR_MW)
        floor_mw = FLOOR_MW;
    /* a pod said to draw more or less than its cores cost makes each difference larger or smaller
     */
    if (pod->expected_mw > 0)
        floor_mw *= (range->min + range->max) / 2 / pod->expected_mw;
    return floor_mw > relative_mw ? floor_mw : relative_mw;
}

/**
 * Bucket and fill as one number to compare by, since a fill that counts is below 1: which of two
 * nodes is the greater cannot be foretold, and a wrong guess costs a branch more than all else
 * here.
 */
static double tie_key(const struct ext_score_scratch *s)
{
    return 2.0 * s->bucket + s->fill;
}

/** Levels of `efficient`: scratch.value holds prices. */
static void score_prices(const struct ext_score_pod *pod, const struct ext_place *const *places,
                         size_t n, const struct range *range, struct ext_score_scratch *scratch,
                         uint8_t *scores)
{
    double noise = noise_mw(pod, range);
    bool equal = range->max - range->min < noise || range->max <= range->min;
    /* where all are equal, the scales are 0 and each gets the base */
    struct scale scale = equal ? (struct scale){0} : scale_of(range);
    double per_noise = equal ? 0 : 1 / noise;
    unsigned base = equal ? EXT_SCORE_NEUTRAL : 0;
    double tops[LEVELS] = {0}; /* the fullest node in the dearest bucket of each level */

    for (size_t i = 0; i < n; i++) {
        struct ext_score_scratch *s = &scratch[i];
        if (places[i] == NULL)
            continue;
        s->level = (uint8_t)(base + level_of(&scale, s->value));
        s->bucket = (uint32_t)((s->value - range->min) * per_noise);
        double key = tie_key(s);
        tops[s->level] = key > tops[s->level] ? key : tops[s->level];
    }
    for (size_t i = 0; i < n; i++) {
        const struct ext_score_scratch *s = &scratch[i];
        if (places[i] == NULL)
            continue;
        double top = tops[s->level];
        bool dearest = s->bucket == (uint32_t)(top / 2);
        bool loses = dearest & (s->level > 0) & (tie_key(s) < top - FLOOR_FILL);
        scores[i] = (uint8_t)(s->level - loses);
    }
}

/** Levels of `performance`: the emptier, the better. */
static void score_room(const struct ext_place *const *places, size_t n, const struct range *range,
                       const struct ext_score_scratch *scratch, uint8_t *scores)
{
    bool equal = range->max - range->min < FLOOR_FILL;
    struct scale scale = equal ? (struct scale){0} : scale_of(range);

    for (size_t i = 0; i < n; i++) {
        if (places[i] != NULL)
            scores[i] = equal ? EXT_SCORE_NEUTRAL : level_of(&scale, scratch[i].value);
    }
}

/** Values to score by, into the scratch. @return their range. */
static struct range evaluate(const struct ext_score_pod *pod, const struct ext_place *const *places,
                             size_t n, struct ext_score_scratch *scratch)
{
    struct range range = {.min = (double)INFINITY, .max = -(double)INFINITY};
    bool by_price = pod->placement == KW_PLACEMENT_EFFICIENT;

    for (size_t i = 0; i < n; i++) {
        const struct ext_place *place = places[i];
        struct ext_score_scratch *s = &scratch[i];
        if (place == NULL)
            continue;
        s->value = by_price ? ext_place_marginal_mw(place, pod->mcpu) : place->fill;
        /* a node that the pod would overload wins no tie by being full */
        s->fill = place->used_mcpu + pod->mcpu > place->capacity_mcpu ? 0 : place->fill;
        range.min = s->value < range.min ? s->value : range.min;
        range.max = s->value > range.max ? s->value : range.max;
        range.n++;
    }
    return range;
}

size_t ext_score(const struct ext_score_pod *pod, const struct ext_place *const *places, size_t n,
                 struct ext_score_scratch *scratch, uint8_t *ret_scores)
{
    struct range range = {0};

    if (pod->placement != KW_PLACEMENT_OFF)
        range = evaluate(pod, places, n, scratch);
    if (range.n == 0) {
        for (size_t i = 0; i < n; i++)
            ret_scores[i] = EXT_SCORE_NEUTRAL;
        return 0;
    }
    if (pod->placement == KW_PLACEMENT_EFFICIENT)
        score_prices(pod, places, n, &range, scratch, ret_scores);
    else
        score_room(places, n, &range, scratch, ret_scores);
    if (range.n < n)
        fill_unknown(places, n, ret_scores);
    return range.n;
}
