/* SPDX-License-Identifier: Apache-2.0 */
/* Each rule of the score as a table, then what must hold for any candidates. */
#include <stdbool.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/score.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

#define MAX 64

/** A machine whose every core costs the same. */
static struct ext_hull flat_price(double mw_per_mcpu, double capacity_mcpu)
{
    return (struct ext_hull){.n = 1, .end_mcpu = {capacity_mcpu}, .mw_per_mcpu = {mw_per_mcpu}};
}

static size_t score_all(const struct ext_score_pod *pod, const struct ext_place *const *nodes,
                        size_t n, struct ext_score_scratch *scratch, uint8_t *scores)
{
    struct ext_score score;
    size_t first = n / 3; /* how they are split is of no matter */

    ext_score_begin(&score, pod, scratch);
    ext_score_take(&score, nodes, first);
    ext_score_take(&score, nodes + first, n - first);
    return ext_score_end(&score, scores);
}

struct candidate {
    double mw_per_mcpu; /* < 0: unknown */
    double used;        /* of 10000 mcpu */
    uint8_t want;
};

static void check(const struct ext_score_pod *pod, const struct candidate *candidates, size_t n)
{
    struct ext_hull hulls[MAX];
    struct ext_place places[MAX];
    const struct ext_place *nodes[MAX] = {0};
    struct ext_score_scratch scratch[MAX];
    uint8_t scores[MAX];

    for (size_t i = 0; i < n; i++) {
        if (candidates[i].mw_per_mcpu < 0)
            continue;
        hulls[i] = flat_price(candidates[i].mw_per_mcpu, 10000);
        places[i] = ext_place_of(&hulls[i], candidates[i].used, 10000, -1, EXT_PEERS_BAND);
        nodes[i] = &places[i];
    }
    (void)score_all(pod, nodes, n, scratch, scores);
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) {
        if (scores[i] != candidates[i].want)
            print_error("candidate %zu: score %u, not %u\n", i, scores[i], candidates[i].want);
        wrong += scores[i] != candidates[i].want;
    }
    assert_int_equal(wrong, 0);
}

#define CHECK(pod, ...)                                 \
    check(pod, (const struct candidate[]){__VA_ARGS__}, \
          KW_ARRAY_SIZE(((const struct candidate[]){__VA_ARGS__})))

static const struct ext_score_pod core = {.mcpu = 1000};
static const struct ext_score_pod small = {.mcpu = 100};

static void test_ranks(void **state)
{
    (void)state;
    CHECK(&core, {4, 0, 10}, {14, 0, 0});
    CHECK(&core, {4, 0, 10}, {9, 0, 1}, {14, 0, 0});
    /* a dear one takes few levels from those that are cheap */
    CHECK(&core, {4, 0, 10}, {5, 0, 3}, {6, 0, 1}, {20, 0, 0});
    /* six times the least and beyond is one */
    CHECK(&core, {104, 0, 0}, {4, 0, 10}, {54, 0, 0}, {10, 0, 1});
    CHECK(&core, {104, 9000, 0}, {4, 0, 10}, {54, 0, 0});
}

static void test_noise(void **state)
{
    (void)state;
    /* 0.9 % apart: equal, however many watts; 2.1 %: not */
    CHECK(&core, {100, 0, 10}, {100.9, 0, 10});
    CHECK(&core, {100, 0, 10}, {102.1, 0, 0});
    CHECK(&small, {4, 0, 10}, {4.9, 0, 0});
    /* next to nothing is nothing */
    CHECK(&core, {0.001, 0, 10}, {0.004, 0, 10});
    CHECK(&core, {0, 0, 10}, {0, 0, 10});
    CHECK(&core, {0, 0, 10}, {4, 0, 0});
}

static void test_ties_go_to_the_fuller(void **state)
{
    (void)state;
    CHECK(&core, {4, 1000, 2}, {4, 5000, 10});
    CHECK(&core, {4, 0, 0}, {4, 5000, 10}, {4, 2500, 5});
    CHECK(&core, {4, 5000, 10}, {4, 5100, 10}); /* as full as can be told */
    /* nor do dear ones from ties */
    CHECK(&core, {4, 1000, 5}, {4, 5000, 10}, {14, 0, 0}, {14, 9000, 0});
    /* one that the pod would fill beyond four fifths wins nothing by being full */
    CHECK(&core, {4, 1000, 2}, {4, 5000, 10}, {4, 7001, 0});
    CHECK(&core, {4, 5000, 6}, {4, 7000, 10}, {4, 8900, 0});
    CHECK(&small, {4, 7000, 8}, {4, 7900, 10}, {4, 7901, 0});
    CHECK(&core, {4, 8000, 10}, {4, 8900, 10});
    CHECK(&core, {4, 1000, 2}, {4, 5000, 10}, {4, 9500, 0});
}

static void test_unknown_gets_the_median(void **state)
{
    (void)state;
    CHECK(&core, {-1, 0, 5}, {-1, 0, 5});
    CHECK(&core, {-1, 0, 1}, {4, 0, 10}, {9, 0, 1}, {14, 0, 0});
    CHECK(&core, {-1, 0, 10}, {4, 0, 10});
    CHECK(&core, {4, 0, 10}, {14, 0, 0}, {14, 0, 0}, {-1, 0, 0});
}

static void test_classes(void **state)
{
    (void)state;
    const struct ext_score_pod off = {.mcpu = 1000, .placement = KW_PLACEMENT_OFF};
    const struct ext_score_pod fast = {.mcpu = 1000, .placement = KW_PLACEMENT_PERFORMANCE};

    CHECK(&off, {4, 0, 5}, {14, 0, 5}, {-1, 0, 5});
    CHECK(&fast, {4, 9000, 0}, {14, 0, 10}, {4, 4500, 5}, {-1, 0, 5});
    CHECK(&fast, {4, 1000, 5}, {14, 1100, 5});
}

/* Said to draw ten times what its cores cost, the same difference is worth ten times as much. */
static void test_expected_watts(void **state)
{
    (void)state;
    const struct ext_score_pod hot = {.mcpu = 1000, .expected_mw = 44500};
    const struct ext_score_pod cool = {.mcpu = 1000, .expected_mw = 45};

    CHECK(&core, {4, 0, 10}, {4.06, 0, 10});
    CHECK(&hot, {4, 0, 10}, {4.06, 0, 0});
    CHECK(&core, {4, 0, 10}, {4.1, 0, 0});
    CHECK(&cool, {4, 0, 10}, {4.1, 0, 10});
}

static void test_no_candidates(void **state)
{
    (void)state;
    const struct ext_place *node = NULL;
    struct ext_score_scratch scratch;
    uint8_t score = 77;

    assert_int_equal(score_all(&core, &node, 0, &scratch, &score), 0);
    assert_int_equal(score, 77);
}

/** Watts next to which others fade, as the score's essay says. */
static double base_mw(const struct ext_score_pod *pod)
{
    return pod->mcpu * 0.32;
}

/* Four nodes alike but for sleep and cap. */
static void test_sleep_and_risk(void **state)
{
    (void)state;
    struct ext_hull hull = flat_price(4, 10000);
    struct ext_place awake = ext_place_of(&hull, 0, 10000, -1, EXT_PEERS_BAND), asleep = awake,
                     capped = awake;
    const struct ext_place *nodes[] = {&awake, &asleep, &capped, NULL};
    static const struct {
        struct ext_score_pod pod;
        uint8_t want[4];
    } cases[] = {
        {{.mcpu = 1000, .life_s = 86400},
         {10, 2, 0, 2}},                                /* 1.5 W for the waking, 16 W for the cap */
        {{.mcpu = 1000, .life_s = 601}, {10, 0, 0, 0}}, /* 216 W */
        {{.mcpu = 1000}, {10, 0, 0, 0}},                /* an hour: 36 W */
        {{.mcpu = 1000, .life_s = 599}, {10, 0, 0, 0}}, /* never wakes one */
        {{.mcpu = 1000, .placement = KW_PLACEMENT_PERFORMANCE}, {10, 0, 0, 0}},
        {{.mcpu = 1000, .life_s = 1, .placement = KW_PLACEMENT_OFF}, {5, 5, 5, 5}},
    };

    ext_place_price(&asleep, &(struct ext_pricing){.asleep = true, .wake_uj = 129.6e9F});
    ext_place_price(&capped, &(struct ext_pricing){.risk = 5});
    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct ext_score_scratch scratch[4];
        uint8_t scores[4];
        (void)score_all(&cases[i].pod, nodes, 4, scratch, scores);
        for (size_t k = 0; k < 4; k++) {
            if (scores[k] != cases[i].want[k])
                print_error("case %zu, node %zu: score %u, not %u\n", i, k, scores[k],
                            cases[i].want[k]);
            assert_int_equal(scores[k], cases[i].want[k]);
        }
    }
    /* nothing but nodes asleep: no opinion on which to wake */
    const struct ext_place *beds[] = {&asleep, &asleep};
    struct ext_score_scratch scratch[2];
    uint8_t scores[2];
    assert_int_equal(score_all(&cases[3].pod, beds, 2, scratch, scores), 0);
    assert_int_equal(scores[0], EXT_SCORE_NEUTRAL);
    /* but one that nothing is known of, and that may be awake, goes before one asleep */
    const struct ext_place *bed_and_unknown[] = {&asleep, NULL};
    assert_int_equal(score_all(&cases[3].pod, bed_and_unknown, 2, scratch, scores), 0);
    assert_int_equal(scores[0], 0);
    assert_int_equal(scores[1], EXT_SCORE_NEUTRAL);
}

static void test_any_candidates(void **state)
{
    (void)state;
    uint64_t seed = 11;
    static struct ext_hull hulls[MAX];
    struct ext_place places[MAX];
    const struct ext_place *nodes[MAX], *shuffled[MAX];
    struct ext_score_scratch scratch[MAX];
    uint8_t scores[MAX], again[MAX];

    for (unsigned round = 0; round < 3000; round++) {
        size_t n = 1 + kwt_next(&seed) % MAX;
        struct ext_score_pod pod = {.mcpu = (double)(1 + kwt_next(&seed) % 8000)};
        double price[MAX];
        for (size_t i = 0; i < n; i++) {
            /* several nodes share a curve, as machines of one kind do */
            struct kw_curve curve = kwt_random_curve(&seed);
            if (i == 0 || kwt_next(&seed) % 2 == 0)
                ext_hull_build(&curve, NULL, &hulls[i]);
            else
                hulls[i] = hulls[i - 1];
            double capacity = hulls[i].end_mcpu[hulls[i].n - 1];
            double used = capacity * (double)(kwt_next(&seed) % 1100) / 1000;
            places[i] = ext_place_of(&hulls[i], used, capacity, -1, EXT_PEERS_BAND);
            nodes[i] = kwt_next(&seed) % 8 == 0 ? NULL : &places[i];
            price[i] = ext_hull_marginal_mw(&hulls[i], used, pod.mcpu);
            assert_true(ext_place_marginal_mw(&places[i], pod.mcpu) == price[i]);
        }
        memset(scores, 99, sizeof(scores));
        (void)score_all(&pod, nodes, n, scratch, scores);
        double base = base_mw(&pod);
        for (size_t i = 0; i < n; i++) {
            assert_in_range(scores[i], 0, 10);
            for (size_t j = 0; j < n && nodes[i] != NULL; j++) {
                if (nodes[j] == NULL)
                    continue;
                /* cheaper by more than the noise, or cheaper at all and as full: never lower */
                bool as_full = places[i].at_mcpu == places[j].at_mcpu &&
                               places[i].capacity_mcpu == places[j].capacity_mcpu;
                if (price[i] + base < (price[j] + base) / (as_full ? 1 : 1 + 1.0 / 16))
                    assert_true(scores[i] >= scores[j]);
            }
        }
        /* rotated: the same scores */
        size_t by = kwt_next(&seed) % n;
        for (size_t i = 0; i < n; i++)
            shuffled[i] = nodes[(i + by) % n];
        (void)score_all(&pod, shuffled, n, scratch, again);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(again[i], scores[(i + by) % n]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_ranks),
        cmocka_unit_test(test_noise),
        cmocka_unit_test(test_ties_go_to_the_fuller),
        cmocka_unit_test(test_unknown_gets_the_median),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_expected_watts),
        cmocka_unit_test(test_sleep_and_risk),
        cmocka_unit_test(test_no_candidates),
        cmocka_unit_test(test_any_candidates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
