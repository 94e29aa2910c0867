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
#include "extender/score_rows.h"

/** Added to each cost for a core of the pod, and at most: below it, differences fade. */
#define BASE_MW_MCPU 0.32
#define BASE_MAX_MW  32000.0

/** What a node loses that is emptier than the fullest of its bucket by TIE_FILL or more, in ranks:
 * below 1, so that buckets stay apart. Of these two, half as much saved as much less, in the
 * simulator, as the scheduler's own wish to spread then won. */
#define TIE_RANKS 0.95
#define TIE_FILL  0.5

/** What a step that nobody stands on counts, in ranks, so that far is more than next: without it
 * nodes at 1.4 and 4 W a core were as far apart as neighbours; at twice it neighbours have no level
 * between them. */
#define STEP_RANKS 0.1

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
            scores[i] = score->scratch[i].value > EXT_SCORE_SHUNNED ? neutral : 0;
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

/** Fills of buckets' candidates, and what these lose; columns, so that the compiler takes some
 * buckets at once: one after the other, their roots take a third of scoring 500 candidates. */
struct buckets {
    unsigned n;                  /**< that hold a candidate, from the least cost on */
    uint8_t at[EXT_BUCKETS];     /**< which of all buckets it is */
    double fullest[EXT_BUCKETS]; /**< between which fills its candidates lie */
    double emptiest[EXT_BUCKETS];
    double rank[EXT_BUCKETS];
    double ranks[EXT_BUCKETS];   /**< that the emptier may lose beyond that */
    double lost[2][EXT_BUCKETS]; /**< levels lost by all of them, and by the emptiest at most */
};

/** Finds which buckets hold candidates. */
static void hold_buckets(const struct ext_spans *spans, struct buckets *ret)
{
    ret->n = 0;
    for (unsigned i = 0; i < EXT_BUCKETS; i++) {
        const float *ends = spans->ends[i];
        ret->at[ret->n] = (uint8_t)i;
        ret->fullest[ret->n] = (double)ends[0];
        ret->emptiest[ret->n] = -(double)ends[1];
        ret->n += ends[0] > EXT_NO_FILL;
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
static double rank_buckets(struct buckets *buckets)
{
    double most = 0;

    for (unsigned i = 0; i < buckets->n; i++) {
        bool last = buckets->at[i] == EXT_BUCKETS - 1;
        double emptier = lesser((buckets->fullest[i] - buckets->emptiest[i]) / TIE_FILL, 1);
        buckets->rank[i] = i + STEP_RANKS * buckets->at[i];
        double rank = buckets->rank[i] + (last ? 0 : emptier * TIE_RANKS);
        most = rank > most ? rank : most;
    }
    return buckets->n > 1 ? most : TIE_RANKS;
}

/** Turns parts of the greatest rank into levels lost. @param lasting by their square root: where an
 * answer stays for minutes, one that moves by a rank must not cross half of the levels. In the
 * simulator, labels of nodes keep 92 % of the saving so after a minute and 87 % after five, where
 * by the fourth root it is 89 and 76 %, and in proportion 89 and 85 %. */
static void lose(double *parts, unsigned n, bool lasting)
{
    for (unsigned i = 0; i < n; i++)
        parts[i] = sqrt(lesser(parts[i], 1));
    for (unsigned i = 0; i < n && !lasting; i++)
        parts[i] = sqrt(parts[i]);
    for (unsigned i = 0; i < n; i++)
        parts[i] *= LEVELS - 1;
}

/** From ranks to levels. */
static void level_buckets(struct buckets *buckets, bool lasting)
{
    const double most = rank_buckets(buckets);

    for (unsigned i = 0; i < buckets->n; i++) {
        const double rank = buckets->rank[i];
        /* what is beyond the last step is not told apart, by its fill neither */
        double ranks = buckets->at[i] == EXT_BUCKETS - 1 ? 0 : lesser(most - rank, TIE_RANKS);
        buckets->ranks[i] = ranks;
        buckets->lost[0][i] = rank / most;
        buckets->lost[1][i] = (rank + ranks) / most;
    }
    lose(buckets->lost[0], buckets->n, lasting);
    lose(buckets->lost[1], buckets->n, lasting);
}

/** What the candidates of each bucket score. @param tariffs of all buckets; zeros. */
static void set_tariffs(const struct buckets *buckets,
                        struct ext_score_tariff tariffs[EXT_BUCKETS + 1])
{
    for (unsigned i = 0; i < buckets->n; i++) {
        double lost = buckets->lost[0][i];
        double tie_lost = buckets->lost[1][i] - lost;
        double ranks = buckets->ranks[i];
        double lost_per_fill = ranks > 0 ? tie_lost * TIE_RANKS / (TIE_FILL * ranks) : 0;
        tariffs[buckets->at[i]] =
            (struct ext_score_tariff){.best = (float)(LEVELS - 1 + 0.5 - lost),
                                      .fullest = (float)buckets->fullest[i],
                                      .lost_per_fill = (float)lost_per_fill,
                                      .tie_lost = (float)tie_lost};
    }
}

/** Levels of `efficient`: scratch.value holds costs. Between the passes, scores hold buckets. */
static void score_costs(struct ext_score *score, uint8_t *scores)
{
    const struct ext_score_rows *rows = ext_score_rows();
    struct ext_spans spans;
    struct buckets buckets;
    struct ext_score_tariff tariffs[EXT_BUCKETS + 1] = {{0}};

    rows->buckets(score->scratch, score->n, (float)base_mw(score), (float)score->min, scores);
    rows->spans(score->scratch, scores, score->n, &spans);
    hold_buckets(&spans, &buckets);
    level_buckets(&buckets, score->pod.lasting);
    set_tariffs(&buckets, tariffs);
    rows->charge(score->scratch, tariffs, score->n, scores);
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

/** Finds how many candidates are known, and between which values they lie. */
static void survey(struct ext_score *score)
{
    struct ext_survey found;

    ext_score_rows()->survey(score->scratch, score->n, &found);
    score->known = found.known;
    score->min = (double)found.min;
    score->max = (double)found.max;
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

static void take_costs(const struct ext_score *score, const struct ext_place *const *places,
                       size_t n, struct ext_score_scratch *scratch)
{
    /* what cannot be told is more than any number */
    const struct ext_demand demand = {score->pod.mcpu, score->wakes_per_ms,
                                      score->shuns_sleep ? 0 : FLT_MAX};

    ext_score_rows()->costs(&demand, places, n, scratch);
}

static void take_crowding(const struct ext_place *const *places, size_t n,
                          struct ext_score_scratch *scratch)
{
    for (size_t i = 0; i < n; i++)
        scratch[i] = (struct ext_score_scratch){
            .value = places[i] == NULL ? EXT_SCORE_UNKNOWN : (float)crowding(places[i])};
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
        any_unknown = any_unknown || score->scratch[i].value > EXT_SCORE_SHUNNED;
    for (size_t i = 0; i < score->n; i++)
        scores[i] =
            any_unknown && score->scratch[i].value <= EXT_SCORE_SHUNNED ? 0 : EXT_SCORE_NEUTRAL;
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
