/* SPDX-License-Identifier: Apache-2.0 */
/* Passes over candidates, each way beside one candidate at a time. */
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/score_rows.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define MAX 150

static const struct ext_score_rows *ways[2] = {&ext_score_rows_plain};
static size_t n_ways = 1;

/** Nodes of all kinds; some that nothing is known of. */
struct fleet {
    struct ext_hull hulls[MAX];
    struct ext_place places[MAX];
    const struct ext_place *known[MAX];
};

static void make_fleet(struct fleet *fleet, uint64_t *seed, bool odd)
{
    for (unsigned i = 0; i < MAX; i++) {
        struct kw_curve curve = kwt_random_curve(seed);
        struct ext_pricing pricing = {.sleepable = kwt_next(seed) % 4 == 0};
        if (kwt_next(seed) % 3 == 0)
            pricing.energy_price = (float)(1 + kwt_next(seed) % 65000) / 1000;
        if (kwt_next(seed) % 3 == 0)
            pricing.risk = (float)(1000 + kwt_next(seed) % 64000) / 1000;
        if (odd && kwt_next(seed) % 8 == 0) {
            pricing.asleep = true;
            pricing.wake_uj = kwt_next(seed) % 3 == 0 ? (float)INFINITY : 2e9F;
        }
        ext_hull_build(&curve, &pricing, &fleet->hulls[i]);
        double capacity = fleet->hulls[i].end_mcpu[fleet->hulls[i].n - 1];
        double used = capacity * (double)(kwt_next(seed) % 1100) / 1000;
        double peers_fill = kwt_next(seed) % 2 == 0 ? -1 : (double)(kwt_next(seed) % 100) / 100;
        fleet->places[i] =
            ext_place_of(&fleet->hulls[i], used, capacity, peers_fill, EXT_PEERS_BAND);
        ext_place_price(&fleet->places[i], &pricing);
        fleet->known[i] = odd && kwt_next(seed) % 8 == 0 ? NULL : &fleet->places[i];
    }
}

static void check_cost(const struct ext_demand *demand, const struct ext_place *place,
                       const struct ext_score_scratch *got)
{
    struct ext_score_scratch want = {0};

    if (place == NULL) {
        want.value = EXT_SCORE_UNKNOWN;
    } else if (place->wake_uj > demand->wake_max_uj) {
        want.value = EXT_SCORE_SHUNNED;
    } else {
        want.value = (float)ext_place_cost_mw(place, demand->mcpu, demand->wakes_per_ms);
        double full_mcpu = (double)0.8F * (double)place->capacity_mcpu;
        want.fill = place->at_mcpu + demand->mcpu > full_mcpu ? 0 : fminf(place->tie, 0.8F);
    }
    assert_memory_equal(got, &want, sizeof(want));
}

static void test_costs(void **state)
{
    kw_cleanup_free struct fleet *fleet = calloc(1, sizeof(*fleet));
    struct ext_score_scratch scratch[MAX];
    uint64_t seed = 3;

    (void)state;
    for (unsigned round = 0; round < 300; round++) {
        const struct ext_demand demand = {
            .mcpu = (double)(1 + kwt_next(&seed) % 8000),
            .wakes_per_ms = 1e-3 / (double)(60 + kwt_next(&seed) % 7000),
            .wake_max_uj = round % 2 == 0 ? 0 : FLT_MAX,
        };
        size_t n = kwt_next(&seed) % MAX;
        make_fleet(fleet, &seed, round % 3 > 0);
        for (size_t way = 0; way < n_ways; way++) {
            memset(scratch, 0x55, sizeof(scratch));
            ways[way]->costs(&demand, fleet->known, n, scratch);
            for (size_t i = 0; i < n; i++)
                check_cost(&demand, fleet->known[i], &scratch[i]);
        }
    }
}

/** Candidates by values that are near each other. */
static void make_candidates(struct ext_score_scratch *scratch, uint64_t *seed)
{
    for (unsigned i = 0; i < MAX; i++) {
        uint64_t kind = kwt_next(seed) % 10;
        scratch[i].value = kind == 0   ? EXT_SCORE_UNKNOWN
                           : kind == 1 ? EXT_SCORE_SHUNNED
                                       : (float)(kwt_next(seed) % 100000);
        scratch[i].fill = kind < 2 ? 0 : (float)(kwt_next(seed) % 801) / 1000;
    }
}

static void test_survey(void **state)
{
    struct ext_score_scratch scratch[MAX];
    uint64_t seed = 4;

    (void)state;
    for (unsigned round = 0; round < 1000; round++) {
        size_t n = kwt_next(&seed) % MAX;
        struct ext_survey want = {.min = FLT_MAX}, got;
        make_candidates(scratch, &seed);
        for (size_t i = 0; i < n; i++) {
            float value = scratch[i].value;
            if (value < 0)
                continue;
            want.known++;
            want.min = value < want.min ? value : want.min;
            want.max = value > want.max ? value : want.max;
        }
        for (size_t way = 0; way < n_ways; way++) {
            ways[way]->survey(scratch, n, &got);
            assert_int_equal(got.known, want.known);
            assert_true(want.known == 0 || (got.min == want.min && got.max == want.max));
        }
    }
}

/** Buckets rise with the costs; each of them has its own up to half an octave, and spans hold the
 * fills of theirs. */
static void test_buckets_and_spans(void **state)
{
    struct ext_score_scratch scratch[MAX];
    uint8_t at[2][MAX];
    uint64_t seed = 5;

    (void)state;
    for (unsigned round = 0; round < 1000; round++) {
        size_t n = kwt_next(&seed) % MAX;
        float base = (float)(1 + kwt_next(&seed) % 3000);
        make_candidates(scratch, &seed);
        for (size_t way = 0; way < n_ways; way++) {
            struct ext_spans want, got;
            ways[way]->buckets(scratch, n, base, 0, at[way]);
            assert_memory_equal(at[way], at[0], n);
            for (unsigned b = 0; b < EXT_BUCKETS; b++)
                want.ends[b][0] = want.ends[b][1] = EXT_NO_FILL;
            for (size_t i = 0; i < n; i++) {
                assert_int_equal(at[way][i] == EXT_NO_BUCKET, scratch[i].value < 0);
                float *ends = want.ends[at[way][i]];
                ends[0] = fmaxf(ends[0], scratch[i].fill);
                ends[1] = fmaxf(ends[1], -scratch[i].fill);
                for (size_t k = 0; k < i && scratch[i].value >= 0; k++)
                    assert_true(scratch[k].value < 0 || scratch[k].value > scratch[i].value ||
                                at[way][k] <= at[way][i]);
            }
            ways[way]->spans(scratch, at[way], n, &got);
            for (unsigned b = 0; b < EXT_BUCKETS; b++)
                assert_true(got.ends[b][0] == want.ends[b][0] && got.ends[b][1] == want.ends[b][1]);
        }
    }
}

static void test_charge(void **state)
{
    struct ext_score_scratch scratch[MAX];
    struct ext_score_tariff tariffs[EXT_BUCKETS + 1] = {{0}};
    uint64_t seed = 6;

    (void)state;
    for (unsigned round = 0; round < 1000; round++) {
        size_t n = kwt_next(&seed) % MAX;
        uint8_t at[MAX], scores[MAX];
        make_candidates(scratch, &seed);
        for (unsigned b = 0; b < EXT_BUCKETS; b++) {
            float tie_lost = (float)(kwt_next(&seed) % 4000) / 1000;
            tariffs[b] =
                (struct ext_score_tariff){.best = tie_lost + (float)(kwt_next(&seed) % 6500) / 1000,
                                          .fullest = 0.8F,
                                          .lost_per_fill = (float)(kwt_next(&seed) % 9000) / 1000,
                                          .tie_lost = tie_lost};
        }
        for (size_t i = 0; i < n; i++)
            at[i] = scratch[i].value < 0 ? EXT_NO_BUCKET : (uint8_t)(kwt_next(&seed) % EXT_BUCKETS);
        for (size_t way = 0; way < n_ways; way++) {
            memcpy(scores, at, n);
            ways[way]->charge(scratch, tariffs, n, scores);
            for (size_t i = 0; i < n; i++) {
                const struct ext_score_tariff *tariff = &tariffs[at[i]];
                float lost = (tariff->fullest - scratch[i].fill) * tariff->lost_per_fill;
                assert_int_equal(scores[i], (int)(tariff->best - fminf(lost, tariff->tie_lost)));
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_costs),
        cmocka_unit_test(test_survey),
        cmocka_unit_test(test_buckets_and_spans),
        cmocka_unit_test(test_charge),
    };
    if (ext_score_rows() != &ext_score_rows_plain)
        ways[n_ways++] = ext_score_rows();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
