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

#include "api/profile.h"

/** Added to each cost for a core of the pod, and at most: below it, differences fade. */
#define BASE_MW_MCPU 0.32
#define BASE_MAX_MW  32000.0

/** Bits of a cost that are dropped: 64 steps an octave are left. Steps of their own; steps that
 * share a bucket behind them; all buckets, and one that is of none. */
#define STEP_SHIFT  17
#define FINE_STEPS  32
#define COARSE_LOG2 2
#define BUCKETS     64
#define NO_BUCKET   BUCKETS

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

/** Of scratch.value. */
#define UNKNOWN (-1.0f)
#define SHUNNED (-2.0f)

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
            scores[i] = score->scratch[i].value > SHUNNED ? neutral : 0;
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
    return base > (double)FLT_MIN ? base : (double)FLT_MIN;
}

/** A number above 0 as an integer that rises with it, by 2^23 an octave. */
static inline int32_t bits_of(float value)
{
    int32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

/** Puts each candidate into the bucket of its cost. @param least of the costs. */
static void fill_buckets(const struct ext_score_scratch *restrict scratch, size_t n, float base,
                         float least, uint8_t *restrict ret_buckets)
{
    int32_t first = bits_of(least + base);

    /* without branches, so that the compiler does some at once */
    for (size_t i = 0; i < n; i++) {
        /* as a difference without sign, since that of an unknown one means nothing */
        int32_t step =
            (int32_t)((uint32_t)bits_of(scratch[i].value + base) - (uint32_t)first) >> STEP_SHIFT;
        int32_t wide = step > FINE_STEPS ? step - FINE_STEPS : 0;
        int32_t bucket = (step < FINE_STEPS ? step : FINE_STEPS) + (wide >> COARSE_LOG2);
        bucket = bucket < BUCKETS - 1 ? bucket : BUCKETS - 1;
        int32_t unknown = bits_of(scratch[i].value) >> 31; /* the sign, as 0 or all ones */
        ret_buckets[i] = (uint8_t)(bucket + ((NO_BUCKET - bucket) & unknown));
    }
}

/** A bucket of costs: what its candidates lose, in levels, and between which fills they lie. */
struct bucket {
    double rank;
    double lost;     /**< by each */
    double tie_lost; /**< beyond that, by one that is emptier than the fullest, at most */
    double lost_per_fill;
    double fullest, emptiest; /**< fullest < 0: it holds none */
};

/** Between which fills the candidates of a bucket lie: the greater of each is taken. */
struct span {
    float fullest, emptiest_negative;
};

static inline void widen(struct span *span, struct span by)
{
    span->fullest = by.fullest > span->fullest ? by.fullest : span->fullest;
    span->emptiest_negative = by.emptiest_negative > span->emptiest_negative
                                  ? by.emptiest_negative
                                  : span->emptiest_negative;
}

/** Neighbours in a list often share a bucket, and would wait for each other's span. */
#define LANES 4

/** Finds between which fills the buckets' candidates lie. */
static void span_buckets(const struct ext_score_scratch *restrict scratch,
                         const uint8_t *restrict at, size_t n, struct bucket buckets[BUCKETS])
{
    struct span spans[LANES][BUCKETS + 1];

    for (unsigned lane = 0; lane < LANES; lane++) {
        for (unsigned i = 0; i < BUCKETS + 1; i++)
            spans[lane][i] = (struct span){-1, -(float)INFINITY};
    }
    for (size_t i = 0; i < n; i++) {
        float fill = scratch[i].fill;
        widen(&spans[i % LANES][at[i]], (struct span){fill, -fill});
    }
    for (unsigned i = 0; i < BUCKETS; i++) {
        struct span all = spans[0][i];
        for (unsigned lane = 1; lane < LANES; lane++)
            widen(&all, spans[lane][i]);
        buckets[i] = (struct bucket){.fullest = (double)all.fullest,
                                     .emptiest = -(double)all.emptiest_negative};
    }
}

/** fmin without a call; neither is NaN. */
static inline double lesser(double a, double b)
{
    return a < b ? a : b;
}

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
        double emptier = lesser((bucket->fullest - bucket->emptiest) / TIE_FILL, 1);
        double rank = bucket->rank + (i == BUCKETS - 1 ? 0 : emptier * TIE_RANKS);
        most = rank > most ? rank : most;
    }
    return held > 1 ? most : TIE_RANKS;
}

/** Levels lost by a part of the greatest rank. @param lasting by its square root: where an answer
 * stays for minutes, one that moves by a rank must not cross half of the levels. In the simulator,
 * labels of nodes keep 92 % of the saving so after a minute and 87 % after five, where by the
 * fourth root it is 89 and 76 %, and in proportion 89 and 85 %. */
static double lost_at(double part, bool lasting)
{
    double lost = lesser(part, 1);

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
        double ranks = i == BUCKETS - 1 ? 0 : lesser(most - bucket->rank, TIE_RANKS);
        bucket->tie_lost = lost_at((bucket->rank + ranks) / most, lasting) - bucket->lost;
        bucket->lost_per_fill = ranks > 0 ? bucket->tie_lost * TIE_RANKS / (TIE_FILL * ranks) : 0;
    }
}

/** What a bucket's candidates score: `best` for the fullest. */
struct tariff {
    float best, fullest, lost_per_fill, tie_lost;
};

/** Turns buckets into scores. */
static void charge(const struct ext_score_scratch *restrict scratch,
                   const struct tariff *restrict tariffs, size_t n, uint8_t *restrict scores)
{
    for (size_t i = 0; i < n; i++) {
        const struct tariff *tariff = &tariffs[scores[i]];
        float lost = (tariff->fullest - scratch[i].fill) * tariff->lost_per_fill;
        lost = lost < tariff->tie_lost ? lost : tariff->tie_lost;
        scores[i] = (uint8_t)(int32_t)(tariff->best - lost);
    }
}

/** Levels of `efficient`: scratch.value holds costs. Between the passes, scores hold buckets. */
static void score_costs(struct ext_score *score, uint8_t *scores)
{
    struct bucket buckets[BUCKETS];
    struct tariff tariffs[BUCKETS + 1] = {{0}};

    fill_buckets(score->scratch, score->n, (float)base_mw(score), (float)score->min, scores);
    span_buckets(score->scratch, scores, score->n, buckets);
    level_buckets(buckets, score->pod.lasting);
    for (unsigned i = 0; i < BUCKETS; i++) {
        const struct bucket *bucket = &buckets[i];
        if (bucket->fullest >= 0)
            tariffs[i] = (struct tariff){.best = (float)(LEVELS - 1 + 0.5 - bucket->lost),
                                         .fullest = (float)bucket->fullest,
                                         .lost_per_fill = (float)bucket->lost_per_fill,
                                         .tie_lost = (float)bucket->tie_lost};
    }
    charge(score->scratch, tariffs, score->n, scores);
}

/** Levels of `performance`: the emptier, the better. */
static void score_room(const struct ext_score *score, uint8_t *scores)
{
    bool equal = score->max - score->min < FLOOR_FILL;
    struct scale scale = equal ? (struct scale){0} : scale_of(score->min, score->max);

    for (size_t i = 0; i < score->n; i++) {
        const struct ext_score_scratch *s = &score->scratch[i];
        if (is_known(s))
            scores[i] = equal ? EXT_SCORE_NEUTRAL : level_of(&scale, (double)s->value);
    }
}

static inline double value_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return (double)value;
}

/** Finds how many candidates are known, and between which values they lie. */
static void survey(struct ext_score *score)
{
    const struct ext_score_scratch *scratch = score->scratch;
    uint32_t min = UINT32_MAX;
    int32_t max = INT32_MIN;
    uint32_t known = 0;

    /* as integers, which the compiler takes some of at once; those of unknown ones are below 0, and
     * without a sign above all others */
    for (size_t i = 0; i < score->n; i++) {
        int32_t bits = bits_of(scratch[i].value);
        min = (uint32_t)bits < min ? (uint32_t)bits : min;
        max = bits > max ? bits : max;
        known += bits >= 0;
    }
    score->known = known;
    score->min = value_of(min);
    score->max = value_of((uint32_t)max);
}

void ext_score_begin(struct ext_score *score, const struct ext_score_pod *pod,
                     struct ext_score_scratch *scratch)
{
    double life_s = pod->life_s > 0 ? pod->life_s : KW_LIFE_ASSUMED_S;

    *score = (struct ext_score){
        .pod = *pod,
        .scratch = scratch,
        .wakes_per_ms = 1e-3 / life_s,
        .shuns_sleep = life_s < EXT_WAKES_FROM_S,
    };
}

/** How crowded a node is to a pod that wants room: one that sleeps or nears its cap is as good as
 * full. */
static double crowding(const struct ext_place *place)
{
    return (double)place->fill + (place->risk_permille > 1000 || place->wake_uj > 0 ? 1 : 0);
}

/** Fill by which a node wins ties: one that the pod would overload wins none by being full. */
static inline float fill_for_ties(const struct ext_place *place, double mcpu)
{
    float fill = place->tie < TIE_FULL ? place->tie : TIE_FULL;

    return place->at_mcpu + mcpu > (double)place->capacity_mcpu ? 0 : fill;
}

static void take_costs(const struct ext_score *score, const struct ext_place *const *places,
                       size_t n, struct ext_score_scratch *scratch)
{
    const double mcpu = score->pod.mcpu;
    const double wakes_per_ms = score->wakes_per_ms;
    /* what cannot be told is more than any number */
    const float wake_max_uj = score->shuns_sleep ? 0 : FLT_MAX;

    for (size_t i = 0; i < n; i++) {
        const struct ext_place *place = places[i];
        if (place == NULL || place->wake_uj > wake_max_uj) {
            scratch[i] = (struct ext_score_scratch){.value = place == NULL ? UNKNOWN : SHUNNED};
            continue;
        }
        scratch[i].value = (float)ext_place_cost_mw(place, mcpu, wakes_per_ms);
        scratch[i].fill = fill_for_ties(place, mcpu);
    }
}

static void take_crowding(const struct ext_place *const *places, size_t n,
                          struct ext_score_scratch *scratch)
{
    for (size_t i = 0; i < n; i++)
        scratch[i] = (struct ext_score_scratch){
            .value = places[i] == NULL ? UNKNOWN : (float)crowding(places[i])};
}

void ext_score_take(struct ext_score *score, const struct ext_place *const *places, size_t n)
{
    struct ext_score_scratch *scratch = ext_score_next(score);

    score->n += n;
    if (score->pod.placement == KW_PLACEMENT_EFFICIENT)
        take_costs(score, places, n, scratch);
    else if (score->pod.placement != KW_PLACEMENT_OFF)
        take_crowding(places, n, scratch);
}

/** Scores where none is known: one that sleeps is left alone where another may be awake. */
static void fill_all(const struct ext_score *score, uint8_t *scores)
{
    bool scored = score->pod.placement == KW_PLACEMENT_EFFICIENT;
    bool any_unknown = false;

    for (size_t i = 0; scored && i < score->n; i++)
        any_unknown = any_unknown || score->scratch[i].value > SHUNNED;
    for (size_t i = 0; i < score->n; i++)
        scores[i] = any_unknown && score->scratch[i].value <= SHUNNED ? 0 : EXT_SCORE_NEUTRAL;
}

size_t ext_score_end(struct ext_score *score, uint8_t *ret_scores)
{
    if (score->pod.placement != KW_PLACEMENT_OFF)
        survey(score);
    if (score->known == 0) {
        fill_all(score, ret_scores);
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
