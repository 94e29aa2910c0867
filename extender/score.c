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

static void widen(struct range *range, double value)
{
    if (range->n == 0 || value < range->min)
        range->min = value;
    if (range->n == 0 || value > range->max)
        range->max = value;
    range->n++;
}

static uint8_t level_of(const struct range *range, double value)
{
    double level = (double)(LEVELS - 1) * (range->max - value) / (range->max - range->min);

    return (uint8_t)(level + 0.5);
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

static void fill_unknown(const struct ext_score_node *nodes, size_t n, uint8_t *scores)
{
    size_t counts[LEVELS] = {0};
    size_t known = 0;

    for (size_t i = 0; i < n; i++) {
        if (nodes[i].hull == NULL)
            continue;
        counts[scores[i]]++;
        known++;
    }
    uint8_t neutral = median(counts, known);
    for (size_t i = 0; i < n; i++) {
        if (nodes[i].hull == NULL)
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

/** Levels of `efficient`: scratch.value holds prices. */
static void score_prices(const struct ext_score_pod *pod, const struct ext_score_node *nodes,
                         size_t n, const struct range *range, struct ext_score_scratch *scratch,
                         uint8_t *scores)
{
    double noise = noise_mw(pod, range);
    bool equal = range->max - range->min < noise || range->max <= range->min;
    struct {
        double fill;     /* of the fullest node in the bucket below */
        uint32_t bucket; /* the dearest of the level */
        bool used;
    } tie[LEVELS] = {0};

    for (size_t i = 0; i < n; i++) {
        struct ext_score_scratch *s = &scratch[i];
        if (nodes[i].hull == NULL)
            continue;
        s->level = equal ? EXT_SCORE_NEUTRAL : level_of(range, s->value);
        s->bucket = equal ? 0 : (uint32_t)((s->value - range->min) / noise);
        if (!tie[s->level].used || s->bucket > tie[s->level].bucket) {
            tie[s->level].used = true;
            tie[s->level].bucket = s->bucket;
            tie[s->level].fill = s->fill;
        } else if (s->bucket == tie[s->level].bucket && s->fill > tie[s->level].fill) {
            tie[s->level].fill = s->fill;
        }
    }
    for (size_t i = 0; i < n; i++) {
        const struct ext_score_scratch *s = &scratch[i];
        if (nodes[i].hull == NULL)
            continue;
        bool loses = s->bucket == tie[s->level].bucket && s->level > 0 &&
                     s->fill < tie[s->level].fill - FLOOR_FILL;
        scores[i] = (uint8_t)(s->level - (loses ? 1 : 0));
    }
}

/** Levels of `performance`: the emptier, the better. */
static void score_room(const struct ext_score_node *nodes, size_t n, const struct range *range,
                       const struct ext_score_scratch *scratch, uint8_t *scores)
{
    bool equal = range->max - range->min < FLOOR_FILL;

    for (size_t i = 0; i < n; i++) {
        if (nodes[i].hull != NULL)
            scores[i] = equal ? EXT_SCORE_NEUTRAL : level_of(range, scratch[i].value);
    }
}

size_t ext_score(const struct ext_score_pod *pod, const struct ext_score_node *nodes, size_t n,
                 struct ext_score_scratch *scratch, uint8_t *ret_scores)
{
    struct range range = {0};
    bool by_price = pod->placement == KW_PLACEMENT_EFFICIENT;

    if (pod->placement == KW_PLACEMENT_OFF) {
        for (size_t i = 0; i < n; i++)
            ret_scores[i] = EXT_SCORE_NEUTRAL;
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        const struct ext_score_node *node = &nodes[i];
        struct ext_score_scratch *s = &scratch[i];
        if (node->hull == NULL)
            continue;
        s->fill = node->used_mcpu / node->capacity_mcpu;
        s->value =
            by_price ? ext_hull_marginal_mw(node->hull, node->used_mcpu, pod->mcpu) : s->fill;
        /* a node that the pod would overload wins no tie by being full */
        if (by_price && node->used_mcpu + pod->mcpu > node->capacity_mcpu)
            s->fill = 0;
        widen(&range, s->value);
    }
    if (by_price)
        score_prices(pod, nodes, n, &range, scratch, ret_scores);
    else
        score_room(nodes, n, &range, scratch, ret_scores);
    fill_unknown(nodes, n, ret_scores);
    return range.n;
}
