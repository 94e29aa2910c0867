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
        places[i] = ext_place_of(&hulls[i], candidates[i].used, 10000);
        nodes[i] = &places[i];
    }
    (void)score_all(pod, nodes, n, scratch, scores);
    for (size_t i = 0; i < n; i++) {
        if (scores[i] != candidates[i].want)
            print_error("candidate %zu: score %u, not %u\n", i, scores[i], candidates[i].want);
        assert_int_equal(scores[i], candidates[i].want);
    }
}

#define CHECK(pod, ...)                                 \
    check(pod, (const struct candidate[]){__VA_ARGS__}, \
          KW_ARRAY_SIZE(((const struct candidate[]){__VA_ARGS__})))

static const struct ext_score_pod core = {.mcpu = 1000};
static const struct ext_score_pod small = {.mcpu = 100};

static void test_stretch(void **state)
{
    (void)state;
    CHECK(&core, {4, 0, 10}, {14, 0, 0});
    CHECK(&core, {4, 0, 10}, {9, 0, 5}, {14, 0, 0});
    CHECK(&core, {104, 0, 0}, {4, 0, 10}, {54, 0, 5}, {24, 0, 8});
}

static void test_floor(void **state)
{
    (void)state;
    /* 0.9 W apart: equal; 1.1 W: not */
    CHECK(&core, {4, 0, 5}, {4.9, 0, 5});
    CHECK(&core, {4, 0, 10}, {5.1, 0, 0});
    /* 1.9 % apart: equal, however many watts */
    CHECK(&core, {100, 0, 5}, {101.9, 0, 5});
    CHECK(&core, {100, 0, 10}, {102.1, 0, 0});
    /* a tenth of a core: 0.4 W against 0.8 W are two kinds of machine */
    CHECK(&small, {4, 0, 10}, {8, 0, 0});
    CHECK(&small, {4, 0, 5}, {4.9, 0, 5});
    CHECK(&core, {0, 0, 5}, {0, 0, 5});
}

static void test_ties_go_to_the_fuller(void **state)
{
    (void)state;
    CHECK(&core, {4, 1000, 4}, {4, 5000, 5});
    CHECK(&core, {4, 5000, 5}, {4, 5100, 5}); /* as full as can be told */
    CHECK(&core, {4, 1000, 9}, {4, 5000, 10}, {14, 0, 0}, {14, 9000, 0});
    /* noise that is wider than a level: 0.43 W of 2.5 W */
    const struct ext_score_pod cool = {.mcpu = 100, .expected_mw = 500};
    CHECK(&cool, {9, 1000, 9}, {11, 5000, 10}, {34, 0, 0});
    CHECK(&cool, {11, 1000, 9}, {9, 5000, 10}, {34, 0, 0});
    /* a node that the pod would overload wins nothing by being full */
    CHECK(&core, {4, 1000, 4}, {4, 5000, 5}, {4, 9500, 4});
}

static void test_unknown_gets_the_median(void **state)
{
    (void)state;
    CHECK(&core, {-1, 0, 5}, {-1, 0, 5});
    CHECK(&core, {-1, 0, 5}, {4, 0, 10}, {9, 0, 5}, {14, 0, 0});
    CHECK(&core, {-1, 0, 5}, {4, 0, 5});
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
    const struct ext_score_pod cool = {.mcpu = 1000, .expected_mw = 450};

    CHECK(&hot, {4, 0, 10}, {4.9, 0, 0});
    CHECK(&cool, {4, 0, 5}, {5.1, 0, 5});
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

/** Price differences below this are noise to the score, as its essay says. */
static double noise_mw(const struct ext_score_pod *pod, double max_mw)
{
    double floor_mw = pod->mcpu < 1000 ? pod->mcpu : 1000;

    return floor_mw > max_mw * 0.02 ? floor_mw : max_mw * 0.02;
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
        double max = 0;
        for (size_t i = 0; i < n; i++) {
            /* several nodes share a curve, as machines of one kind do */
            struct kw_curve curve = kwt_random_curve(&seed);
            if (i == 0 || kwt_next(&seed) % 2 == 0)
                ext_hull_build(&curve, &hulls[i]);
            else
                hulls[i] = hulls[i - 1];
            double capacity = hulls[i].end_mcpu[hulls[i].n - 1];
            double used = capacity * (double)(kwt_next(&seed) % 1100) / 1000;
            places[i] = ext_place_of(&hulls[i], used, capacity);
            nodes[i] = kwt_next(&seed) % 8 == 0 ? NULL : &places[i];
            price[i] = ext_hull_marginal_mw(&hulls[i], used, pod.mcpu);
            assert_true(ext_place_marginal_mw(&places[i], pod.mcpu) == price[i]);
            if (nodes[i] != NULL && price[i] > max)
                max = price[i];
        }
        memset(scores, 99, sizeof(scores));
        (void)score_all(&pod, nodes, n, scratch, scores);
        double noise = noise_mw(&pod, max);
        for (size_t i = 0; i < n; i++) {
            assert_in_range(scores[i], 0, 10);
            for (size_t j = 0; j < n && nodes[i] != NULL; j++) {
                if (nodes[j] == NULL)
                    continue;
                /* cheaper by more than the noise, or cheaper at all and as full: never lower */
                bool as_full = places[i].used_mcpu == places[j].used_mcpu &&
                               places[i].capacity_mcpu == places[j].capacity_mcpu;
                if (price[i] < price[j] - (as_full ? 0 : noise))
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
        cmocka_unit_test(test_stretch),
        cmocka_unit_test(test_floor),
        cmocka_unit_test(test_ties_go_to_the_fuller),
        cmocka_unit_test(test_unknown_gets_the_median),
        cmocka_unit_test(test_classes),
        cmocka_unit_test(test_expected_watts),
        cmocka_unit_test(test_no_candidates),
        cmocka_unit_test(test_any_candidates),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
