/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: the scheduler takes integers 0..10 and adds them, times weight and ten, to the scores of
 * its own plugins. Absolute watts do not fit into that: between an old machine and a new one lies a
 * factor of ten, and between the nodes of one kind, where most of the saving is decided, a tenth.
 * Stretched over the range of the candidates, the first would leave no level for the second.
 *
 * Approach, three passes over the candidates and none that sorts:
 *  1. cost of each: what it adds on the node's hull, with the price of its energy, the closeness of
 *     its cap, and of a sleeping node its waking by the pod's life; and the least of them;
 *  2. costs are told apart in buckets of a sixty-fourth of an octave (1.1 to 1.6 %), from the least
 *     on, taken from the bits of the number, which rise with it; from half an octave on in wider
 *     ones, and all beyond 5.6 times the least in one. Buckets that hold a candidate are ranked,
 *     and each bucket of the way counts a tenth of a rank;
 *  3. level = 10 less what a rank loses: 10 times the fourth root of its part of the last one's, so
 *     that the last has 0 and most lies between the best and the next best. Who is far behind does
 *     not matter; but that between two good ones the scheduler's own wish to spread, which is worth
 *     one to two levels, does not decide. Within a bucket the emptier lose up to nearly a rank: for
 *     equal machines on one segment nothing else tells them apart.
 * Unknown and stale nodes get the median of the rest: neither preferred nor avoided.
 *
 * Noise: meters of equal machines differ by some percent, and wide buckets then hide the steps of
 * the curves and bring no calm: in the simulator, buckets of 3 % cost a fifth of the saving when
 * curves are wrong by 5 %, and those of 1.4 % nothing. Costs near nothing are not told apart: a
 * third of a watt per core is added to each.
 */
#include "extender/score.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

/** Added to each cost for a core of the pod, and at most: below it, differences fade. */
#define BASE_MW_MCPU 0.32
#define BASE_MAX_MW  32000.0

/** Bits of a cost that are dropped: 64 steps an octave are left. Steps of their own; steps that
 * share a bucket behind them; all buckets. */
#define STEP_SHIFT  46
#define FINE_STEPS  32
#define COARSE_LOG2 2
#define BUCKETS     64

/** What a node loses that is emptier than the fullest of its bucket by TIE_FILL or more, in ranks:
 * below 1, so that buckets stay apart. Of these two, half as much saved as much less, in the
 * simulator, as the scheduler's own wish to spread then won. */
#define TIE_RANKS 0.95
#define TIE_FILL  0.5

/** Beyond it, fuller is no better: neighbours begin to suffer, and each pod that leaves the others
 * makes room for one that was put on top. */
#define TIE_FULL 0.8f

/** What a step that nobody stands on counts, in ranks, so that far is more than next: without it
 * nodes at 1.4 and 4 W a core were as far apart as neighbours; at twice it neighbours have no level
 * between them. */
#define STEP_RANKS 0.1

/** Life of a pod that says nothing, for the cost of waking a node. */
#define DEFAULT_LIFE_S 3600.0

/** Of scratch.value. */
#define UNKNOWN (-1.0)
#define SHUNNED (-2.0)

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

static bool is_known(const struct ext_score_scratch *s)
{
    return s->value >= 0;
}

static void fill_rest(const struct ext_score *score, uint8_t *scores)
{
    size_t counts[LEVELS] = {0};

    for (size_t i = 0; i < score->n; i++) {
        if (is_known(&score->scratch[i]))
            counts[scores[i]]++;
    }
    uint8_t neutral = median(counts, score->known);
    for (size_t i = 0; i < score->n; i++) {
        if (!is_known(&score->scratch[i]))
            scores[i] = score->scratch[i].value == UNKNOWN ? neutral : 0;
    }
}

/** What is added to each cost. */
static double base_mw(const struct ext_score *score)
{
    const struct ext_score_pod *pod = &score->pod;
    double base = pod->mcpu * BASE_MW_MCPU;

    if (base > BASE_MAX_MW)
        base = BASE_MAX_MW;
    /* a pod said to draw more or less than its cores cost makes each difference larger or smaller
     */
    if (pod->expected_mw > 0)
        base *= (score->min + score->max) / 2 / pod->expected_mw;
    /* never 0, which has no octaves */
    return base > DBL_MIN ? base : DBL_MIN;
}

/** A number above 0 as an integer that rises with it, by 2^52 an octave. */
static uint64_t bits_of(double value)
{
    uint64_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/** @param bits of a cost. @param least of the least. */
static unsigned bucket_of(uint64_t bits, uint64_t least)
{
    uint64_t step = (bits - least) >> STEP_SHIFT;
    /* the lesser of both, as below the first wide one this wraps round to more than any step */
    uint64_t coarse = FINE_STEPS + ((step - FINE_STEPS) >> COARSE_LOG2);
    uint64_t bucket = step < coarse ? step : coarse;

    return bucket < BUCKETS - 1 ? (unsigned)bucket : BUCKETS - 1;
}

/** A bucket of costs: what its candidates lose, in levels, and between which fills they lie. */
struct bucket {
    double rank;
    double lost;     /**< by each */
    double tie_lost; /**< beyond that, by one that is emptier than the fullest, at most */
    double lost_per_fill;
    double fullest, emptiest;
};

/** Ranks the buckets that hold a candidate. @return the greatest rank of a candidate, as lost by
 * cost and ties together; TIE_RANKS where there is one bucket: ranks are stretched, ties alone are
 * not (a twentieth of fill is a level). */
static double rank_buckets(struct bucket buckets[BUCKETS])
{
    double most = 0;
    unsigned held = 0;

    for (unsigned i = 0; i < BUCKETS; i++) {
        struct bucket *bucket = &buckets[i];
        if (bucket->fullest < 0)
            continue;
        bucket->rank = held++ + STEP_RANKS * i;
        double emptier = fmin((bucket->fullest - bucket->emptiest) / TIE_FILL, 1);
        most = fmax(most, bucket->rank + (i == BUCKETS - 1 ? 0 : emptier * TIE_RANKS));
    }
    return held > 1 ? most : TIE_RANKS;
}

/** Levels lost by a part of the greatest rank. @param lasting by its square root: where an answer
 * stays for minutes, one that moves by a rank must not cross half of the levels. In the simulator,
 * labels of nodes keep 92 % of the saving so after a minute and 87 % after five, where by the
 * fourth root it is 89 and 76 %, and in proportion 89 and 85 %. */
static double lost_at(double part, bool lasting)
{
    double lost = fmin(part, 1);

    return (LEVELS - 1) * (lasting ? sqrt(lost) : sqrt(sqrt(lost)));
}

/** From ranks to levels. */
static void level_buckets(struct bucket buckets[BUCKETS], bool lasting)
{
    double most = rank_buckets(buckets);

    for (unsigned i = 0; i < BUCKETS; i++) {
        struct bucket *bucket = &buckets[i];
        if (bucket->fullest < 0)
            continue;
        bucket->lost = lost_at(bucket->rank / most, lasting);
        /* what is beyond the last step is not told apart, by its fill neither */
        double ranks = i == BUCKETS - 1 ? 0 : fmin(most - bucket->rank, TIE_RANKS);
        bucket->tie_lost = lost_at((bucket->rank + ranks) / most, lasting) - bucket->lost;
        bucket->lost_per_fill = ranks > 0 ? bucket->tie_lost * TIE_RANKS / (TIE_FILL * ranks) : 0;
    }
}

/** Levels of `efficient`: scratch.value holds costs. Between the passes, scores hold buckets. */
static void score_costs(struct ext_score *score, uint8_t *scores)
{
    double base = base_mw(score);
    uint64_t least = bits_of(score->min + base);
    struct bucket buckets[BUCKETS];

    for (unsigned i = 0; i < BUCKETS; i++)
        buckets[i] = (struct bucket){.fullest = -1, .emptiest = (double)INFINITY};
    for (size_t i = 0; i < score->n; i++) {
        const struct ext_score_scratch *s = &score->scratch[i];
        if (!is_known(s))
            continue;
        unsigned at = bucket_of(bits_of(s->value + base), least);
        struct bucket *bucket = &buckets[at];
        bucket->fullest = s->fill > bucket->fullest ? s->fill : bucket->fullest;
        bucket->emptiest = s->fill < bucket->emptiest ? s->fill : bucket->emptiest;
        scores[i] = (uint8_t)at;
    }
    level_buckets(buckets, score->pod.lasting);
    for (size_t i = 0; i < score->n; i++) {
        const struct ext_score_scratch *s = &score->scratch[i];
        if (!is_known(s))
            continue;
        const struct bucket *bucket = &buckets[scores[i]];
        double lost = (bucket->fullest - s->fill) * bucket->lost_per_fill;
        lost = lost < bucket->tie_lost ? lost : bucket->tie_lost;
        scores[i] = (uint8_t)(LEVELS - 1 + 0.5 - bucket->lost - lost);
    }
}

/** Levels of `performance`: the emptier, the better. */
static void score_room(const struct ext_score *score, uint8_t *scores)
{
    bool equal = score->max - score->min < FLOOR_FILL;
    struct scale scale = equal ? (struct scale){0} : scale_of(score->min, score->max);

    for (size_t i = 0; i < score->n; i++) {
        const struct ext_score_scratch *s = &score->scratch[i];
        if (is_known(s))
            scores[i] = equal ? EXT_SCORE_NEUTRAL : level_of(&scale, s->value);
    }
}

void ext_score_begin(struct ext_score *score, const struct ext_score_pod *pod,
                     struct ext_score_scratch *scratch)
{
    double life_s = pod->life_s > 0 ? pod->life_s : DEFAULT_LIFE_S;

    *score = (struct ext_score){
        .pod = *pod,
        .scratch = scratch,
        .wakes_per_ms = 1e-3 / life_s,
        .shuns_sleep = life_s < EXT_WAKES_FROM_S,
        .min = (double)INFINITY,
        .max = -(double)INFINITY,
    };
}

/** How crowded a node is to a pod that wants room: one that sleeps or nears its cap is as good as
 * full. */
static double crowding(const struct ext_place *place)
{
    return (double)place->fill + (place->risk_permille > 1000 || place->wake_uj > 0 ? 1 : 0);
}

void ext_score_take(struct ext_score *score, const struct ext_place *const *places, size_t n)
{
    struct ext_score_scratch *scratch = score->scratch + score->n;
    bool by_cost = score->pod.placement == KW_PLACEMENT_EFFICIENT;
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
            s->value = UNKNOWN;
            continue;
        }
        if (score->shuns_sleep && by_cost && place->wake_uj > 0) {
            s->value = SHUNNED;
            continue;
        }
        s->value = by_cost ? ext_place_cost_mw(place, mcpu, score->wakes_per_ms) : crowding(place);
        /* a node that the pod would overload wins no tie by being full */
        s->fill = (double)(place->fill < TIE_FULL ? place->fill : TIE_FULL);
        if (place->used_mcpu + mcpu > (double)place->capacity_mcpu)
            s->fill = 0;
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
        score_costs(score, ret_scores);
    else
        score_room(score, ret_scores);
    if (score->known < score->n)
        fill_rest(score, ret_scores);
    return score->known;
}
