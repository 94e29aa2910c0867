/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: a request has hundreds to thousands of candidates, and each nanosecond of each counts.
 *
 * Approach: loops without branches, of which the compiler, or the code here, takes some candidates
 * at once: SSE2, which each x86-64 has, and AVX2 where the machine has it. What is read of a node
 * lies in one cache line (ext_place), so that four lines are turned into columns by shuffles. There
 * is no fused multiply-add in either way: it rounds once, and scores would depend on the machine.
 *
 * Invariants: each way finds the same, to the bit, and what asking one node after the other finds.
 */
#include "extender/score_rows.h"

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#define WIDE __attribute__((target("avx2")))
#endif

/** Each way is compiled with its own instructions. */
#define EACH_WAY static inline __attribute__((always_inline))

/** Bits of a cost that are dropped: 64 steps an octave are left. Steps of their own, and how many
 * share a bucket behind them. */
#define STEP_SHIFT  17
#define FINE_STEPS  32
#define COARSE_LOG2 2

/** Of its capacity: a node that the pod would fill beyond it wins no tie by being full. Neighbours
 * begin to suffer, and pods that use more than they request leave work undone, which costs more
 * than ties bring: nothing on straight lines, where up to 4.7 % by work was lost so, in the
 * simulator, and next to nothing elsewhere. */
#define TIE_FULL 0.8F

/** A number above 0 as an integer that rises with it, by 2^23 an octave. */
EACH_WAY int32_t bits_of(float value)
{
    int32_t bits;

    memcpy(&bits, &value, sizeof(bits));
    return bits;
}

EACH_WAY float value_of(uint32_t bits)
{
    float value;

    memcpy(&value, &bits, sizeof(value));
    return value;
}

/** Fill by which a node wins ties. */
static inline float fill_for_ties(const struct ext_place *place, double mcpu)
{
    float fill = place->tie < TIE_FULL ? place->tie : TIE_FULL;

    return place->at_mcpu + mcpu > (double)TIE_FULL * (double)place->capacity_mcpu ? 0 : fill;
}

static void cost(const struct ext_demand *demand, const struct ext_place *place,
                 struct ext_score_scratch *ret)
{
    if (place == NULL || place->wake_uj > demand->wake_max_uj) {
        *ret = (struct ext_score_scratch){.value = place == NULL ? EXT_SCORE_UNKNOWN
                                                                 : EXT_SCORE_SHUNNED};
        return;
    }
    ret->value = (float)ext_place_cost_mw(place, demand->mcpu, demand->wakes_per_ms);
    ret->fill = fill_for_ties(place, demand->mcpu);
}

static void costs_plain(const struct ext_demand *demand, const struct ext_place *const *places,
                        size_t n, struct ext_score_scratch *ret)
{
    for (size_t i = 0; i < n; i++)
        cost(demand, places[i], &ret[i]);
}

EACH_WAY void survey(const struct ext_score_scratch *scratch, size_t n, struct ext_survey *ret)
{
    uint32_t min = UINT32_MAX;
    int32_t max = INT32_MIN;
    uint32_t known = 0;

    /* as integers, which the compiler takes some of at once; those of unknown ones are below 0, and
     * without a sign above all others */
    for (size_t i = 0; i < n; i++) {
        int32_t bits = bits_of(scratch[i].value);
        min = (uint32_t)bits < min ? (uint32_t)bits : min;
        max = bits > max ? bits : max;
        known += bits >= 0;
    }
    *ret = (struct ext_survey){known, value_of(min), value_of((uint32_t)max)};
}

EACH_WAY void buckets(const struct ext_score_scratch *restrict scratch, size_t n, float base,
                      float least, uint8_t *restrict ret)
{
    int32_t first = bits_of(least + base);

    for (size_t i = 0; i < n; i++) {
        /* as a difference without sign, since that of an unknown one means nothing */
        int32_t step =
            (int32_t)((uint32_t)bits_of(scratch[i].value + base) - (uint32_t)first) >> STEP_SHIFT;
        int32_t wide = step > FINE_STEPS ? step - FINE_STEPS : 0;
        int32_t bucket = (step < FINE_STEPS ? step : FINE_STEPS) + (wide >> COARSE_LOG2);
        bucket = bucket < EXT_BUCKETS - 1 ? bucket : EXT_BUCKETS - 1;
        int32_t unknown = bits_of(scratch[i].value) >> 31; /* the sign, as 0 or all ones */
        ret[i] = (uint8_t)(bucket + ((EXT_NO_BUCKET - bucket) & unknown));
    }
}

/** Neighbours in a list often share a bucket, and would wait for each other's span. */
#define LANES 4

EACH_WAY void widen(float *end, float by)
{
    *end = by > *end ? by : *end;
}

#ifdef __SSE2__
/** Two candidates, each in its lane. */
EACH_WAY void widen_two(struct ext_spans *a, struct ext_spans *b,
                        const struct ext_score_scratch *scratch, const uint8_t *at)
{
    const __m128 both = _mm_loadu_ps(&scratch->value);
    const __m128 by = _mm_xor_ps(_mm_shuffle_ps(both, both, _MM_SHUFFLE(3, 3, 1, 1)),
                                 _mm_setr_ps(0, -0.0F, 0, -0.0F));
    __m64 *low = (__m64 *)(void *)a->ends[at[0]];
    __m64 *high = (__m64 *)(void *)b->ends[at[1]];
    const __m128 ends = _mm_max_ps(by, _mm_loadh_pi(_mm_loadl_pi(_mm_setzero_ps(), low), high));

    _mm_storel_pi(low, ends);
    _mm_storeh_pi(high, ends);
}
#endif

EACH_WAY void spans(const struct ext_score_scratch *scratch, const uint8_t *at, size_t n,
                    struct ext_spans *ret)
{
    struct ext_spans lanes[LANES];
    size_t from = 0;

    for (unsigned lane = 0; lane < LANES; lane++) {
        for (unsigned i = 0; i < EXT_BUCKETS + 1; i++)
            lanes[lane].ends[i][0] = lanes[lane].ends[i][1] = EXT_NO_FILL;
    }
#ifdef __SSE2__
    for (; from + LANES <= n; from += LANES) {
        widen_two(&lanes[0], &lanes[1], scratch + from, at + from);
        widen_two(&lanes[2], &lanes[3], scratch + from + 2, at + from + 2);
    }
#endif
    for (; from < n; from++) {
        float *ends = lanes[from % LANES].ends[at[from]];
        widen(&ends[0], scratch[from].fill);
        widen(&ends[1], -scratch[from].fill);
    }
    for (unsigned lane = 1; lane < LANES; lane++) {
        for (unsigned i = 0; i < EXT_BUCKETS; i++) {
            widen(&lanes[0].ends[i][0], lanes[lane].ends[i][0]);
            widen(&lanes[0].ends[i][1], lanes[lane].ends[i][1]);
        }
    }
    *ret = lanes[0];
}

EACH_WAY void charge(const struct ext_score_scratch *scratch,
                     const struct ext_score_tariff *tariffs, size_t n, uint8_t *scores)
{
    size_t i = 0;

#ifdef __SSE2__
    /* a tariff is one load: four of them, turned into columns, serve four candidates at once */
    _Static_assert(sizeof(struct ext_score_tariff) == sizeof(__m128), "four floats");
    for (; i + 4 <= n; i += 4) {
        __m128 best = _mm_loadu_ps(&tariffs[scores[i]].best);
        __m128 fullest = _mm_loadu_ps(&tariffs[scores[i + 1]].best);
        __m128 lost_per_fill = _mm_loadu_ps(&tariffs[scores[i + 2]].best);
        __m128 tie_lost = _mm_loadu_ps(&tariffs[scores[i + 3]].best);
        __m128 fill = _mm_shuffle_ps(_mm_loadu_ps(&scratch[i].value),
                                     _mm_loadu_ps(&scratch[i + 2].value), _MM_SHUFFLE(3, 1, 3, 1));
        _MM_TRANSPOSE4_PS(best, fullest, lost_per_fill, tie_lost);
        __m128 lost = _mm_min_ps(_mm_mul_ps(_mm_sub_ps(fullest, fill), lost_per_fill), tie_lost);
        __m128i levels = _mm_cvttps_epi32(_mm_sub_ps(best, lost));
        levels = _mm_packs_epi32(levels, levels);
        int32_t four = _mm_cvtsi128_si32(_mm_packus_epi16(levels, levels));
        memcpy(scores + i, &four, sizeof(four));
    }
#endif
    for (; i < n; i++) {
        const struct ext_score_tariff *tariff = &tariffs[scores[i]];
        float lost = (tariff->fullest - scratch[i].fill) * tariff->lost_per_fill;
        lost = lost < tariff->tie_lost ? lost : tariff->tie_lost;
        scores[i] = (uint8_t)(int32_t)(tariff->best - lost);
    }
}

static void survey_plain(const struct ext_score_scratch *scratch, size_t n, struct ext_survey *ret)
{
    survey(scratch, n, ret);
}

static void buckets_plain(const struct ext_score_scratch *scratch, size_t n, float base,
                          float least, uint8_t *ret)
{
    buckets(scratch, n, base, least, ret);
}

static void spans_plain(const struct ext_score_scratch *scratch, const uint8_t *at, size_t n,
                        struct ext_spans *ret)
{
    spans(scratch, at, n, ret);
}

static void charge_plain(const struct ext_score_scratch *scratch,
                         const struct ext_score_tariff *tariffs, size_t n, uint8_t *scores)
{
    charge(scratch, tariffs, n, scores);
}

const struct ext_score_rows ext_score_rows_plain = {costs_plain, survey_plain, buckets_plain,
                                                    spans_plain, charge_plain};

#ifdef __SSE2__

/** 16 bytes of each of two nodes, side by side. */
WIDE static inline __m256d halves(const void *low, const void *high)
{
    return _mm256_insertf128_pd(_mm256_castpd128_pd256(_mm_loadu_pd(low)), _mm_loadu_pd(high), 1);
}

/** Of four nodes, a pair of numbers each. */
struct columns {
    __m256d first, second;
};

/** @param offset of two doubles in a place. */
WIDE static inline struct columns columns(const struct ext_place *const *places, size_t offset)
{
    const __m256d even = halves((const char *)places[0] + offset, (const char *)places[2] + offset);
    const __m256d odd = halves((const char *)places[1] + offset, (const char *)places[3] + offset);

    return (struct columns){_mm256_unpacklo_pd(even, odd), _mm256_unpackhi_pd(even, odd)};
}

/** What of four nodes is kept in floats. */
struct fills {
    __m128 next_room, tie, capacity;
};

WIDE static inline struct fills fills(const struct ext_place *const *places)
{
    _Static_assert(offsetof(struct ext_place, capacity_mcpu) ==
                       offsetof(struct ext_place, next_room_mcpu) + 3 * sizeof(float),
                   "next_room_mcpu, fill, tie and capacity_mcpu stand side by side");
    const __m256 even =
        _mm256_castpd_ps(halves(&places[0]->next_room_mcpu, &places[2]->next_room_mcpu));
    const __m256 odd =
        _mm256_castpd_ps(halves(&places[1]->next_room_mcpu, &places[3]->next_room_mcpu));
    /* pairs of them: the lower halves first */
    const __m256d low = _mm256_permute4x64_pd(_mm256_castps_pd(_mm256_unpacklo_ps(even, odd)),
                                              _MM_SHUFFLE(3, 1, 2, 0));
    const __m256d high = _mm256_permute4x64_pd(_mm256_castps_pd(_mm256_unpackhi_ps(even, odd)),
                                               _MM_SHUFFLE(3, 1, 2, 0));

    return (struct fills){_mm_castpd_ps(_mm256_castpd256_pd128(low)),
                          _mm_castpd_ps(_mm256_castpd256_pd128(high)),
                          _mm_castpd_ps(_mm256_extractf128_pd(high, 1))};
}

/** The price of energy and the closeness of the cap, in millionths: ext_place_cost_mw. */
WIDE static inline __m256d factors(__m128i permille)
{
    const __m128i product = _mm_mullo_epi32(_mm_and_si128(permille, _mm_set1_epi32(0xFFFF)),
                                            _mm_srli_epi32(permille, 16));
    /* numbers without sign, as the last bits of 2^52 */
    const __m256d one = _mm256_set1_pd(0x1p52);
    const __m256d number = _mm256_or_pd(_mm256_castsi256_pd(_mm256_cvtepu32_epi64(product)), one);

    return _mm256_mul_pd(_mm256_sub_pd(number, one), _mm256_set1_pd(1e-6));
}

/** Four nodes. @return false where one is to be asked by itself. */
WIDE static inline bool costs_of_four(const struct ext_demand *demand,
                                      const struct ext_place *const *places,
                                      struct ext_score_scratch *ret)
{
    const __m256d mcpu = _mm256_set1_pd(demand->mcpu);

    if (places[0] == NULL || places[1] == NULL || places[2] == NULL || places[3] == NULL)
        return false;
    const struct fills f = fills(places);
    const __m128i low = _mm_unpacklo_epi32(_mm_loadu_si64(&places[0]->wake_uj),
                                           _mm_loadu_si64(&places[1]->wake_uj));
    const __m128i high = _mm_unpacklo_epi32(_mm_loadu_si64(&places[2]->wake_uj),
                                            _mm_loadu_si64(&places[3]->wake_uj));
    const __m128 wake = _mm_castsi128_ps(_mm_unpacklo_epi64(low, high));
    const int asked =
        _mm256_movemask_pd(_mm256_cmp_pd(mcpu, _mm256_cvtps_pd(f.next_room), _CMP_GT_OQ));
    const int shunned = _mm_movemask_ps(_mm_cmpgt_ps(wake, _mm_set1_ps(demand->wake_max_uj)));
    if ((asked | shunned) != 0)
        return false;
    const struct columns at = columns(places, offsetof(struct ext_place, room_mcpu));
    const struct columns next = columns(places, offsetof(struct ext_place, next_mw_per_mcpu));
    /* as ext_place_marginal_mw and ext_place_cost_mw have it */
    const __m256d here = _mm256_min_pd(mcpu, at.first);
    __m256d mw = _mm256_add_pd(_mm256_mul_pd(here, at.second),
                               _mm256_mul_pd(_mm256_sub_pd(mcpu, here), next.first));
    mw = _mm256_add_pd(mw,
                       _mm256_mul_pd(_mm256_cvtps_pd(wake), _mm256_set1_pd(demand->wakes_per_ms)));
    mw = _mm256_mul_pd(_mm256_max_pd(mw, _mm256_setzero_pd()),
                       factors(_mm_unpackhi_epi64(low, high)));
    const __m128 value = _mm256_cvtpd_ps(mw);
    /* as fill_for_ties */
    const __m256d full =
        _mm256_mul_pd(_mm256_cvtps_pd(f.capacity), _mm256_set1_pd((double)TIE_FULL));
    const __m256i over =
        _mm256_castpd_si256(_mm256_cmp_pd(_mm256_add_pd(next.second, mcpu), full, _CMP_GT_OQ));
    const __m128 mask = _mm_shuffle_ps(_mm_castsi128_ps(_mm256_castsi256_si128(over)),
                                       _mm_castsi128_ps(_mm256_extracti128_si256(over, 1)),
                                       _MM_SHUFFLE(2, 0, 2, 0));
    const __m128 fill = _mm_andnot_ps(mask, _mm_min_ps(f.tie, _mm_set1_ps(TIE_FULL)));
    _mm_storeu_ps(&ret[0].value, _mm_unpacklo_ps(value, fill));
    _mm_storeu_ps(&ret[2].value, _mm_unpackhi_ps(value, fill));
    return true;
}

WIDE static void costs_wide(const struct ext_demand *demand, const struct ext_place *const *places,
                            size_t n, struct ext_score_scratch *ret)
{
    size_t i = 0;

    for (; i + 4 <= n; i += 4) {
        if (!costs_of_four(demand, places + i, ret + i))
            costs_plain(demand, places + i, 4, ret + i);
    }
    costs_plain(demand, places + i, n - i, ret + i);
}

WIDE static void survey_wide(const struct ext_score_scratch *scratch, size_t n,
                             struct ext_survey *ret)
{
    survey(scratch, n, ret);
}

WIDE static void buckets_wide(const struct ext_score_scratch *scratch, size_t n, float base,
                              float least, uint8_t *ret)
{
    buckets(scratch, n, base, least, ret);
}

WIDE static void spans_wide(const struct ext_score_scratch *scratch, const uint8_t *at, size_t n,
                            struct ext_spans *ret)
{
    spans(scratch, at, n, ret);
}

WIDE static void charge_wide(const struct ext_score_scratch *scratch,
                             const struct ext_score_tariff *tariffs, size_t n, uint8_t *scores)
{
    charge(scratch, tariffs, n, scores);
}

const struct ext_score_rows ext_score_rows_wide = {costs_wide, survey_wide, buckets_wide,
                                                   spans_wide, charge_wide};

const struct ext_score_rows *ext_score_rows(void)
{
    return __builtin_cpu_supports("avx2") ? &ext_score_rows_wide : &ext_score_rows_plain;
}

#else

const struct ext_score_rows ext_score_rows_wide = {costs_plain, survey_plain, buckets_plain,
                                                   spans_plain, charge_plain};

const struct ext_score_rows *ext_score_rows(void)
{
    return &ext_score_rows_plain;
}

#endif
