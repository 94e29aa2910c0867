/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A node of several packages is priced as one. Which package a pod lands on the kernel chooses
 * after the scheduler has, so that at best the least that any of them would take could be known.
 * With hulls of packages (curves that bend upward are their own) and a node whose hull is their
 * sum: where equal packages share their load, none ever offers less than the node's hull says;
 * where they do not, the emptiest may, by no more than the slope rises between what it has and
 * their mean.
 */
#include <math.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "extender/hull.h"
#include "tests/support/cmocka.h"

#define PACKAGES_MAX 8
#define ROUNDS       20000

static double uniform(uint64_t *seed)
{
    *seed ^= *seed >> 12; /* xorshift64* */
    *seed ^= *seed << 25;
    *seed ^= *seed >> 27;
    return (double)(*seed * UINT64_C(2685821657736338717) >> 11) * 0x1p-53;
}

static int compare(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/** A package that bends upward, now and then by much, and now and then not at all. */
static struct kw_curve draw_package(uint64_t *seed)
{
    uint32_t steps[KW_CURVE_KNOTS - 1];
    struct kw_curve curve = {.capacity_mcpu = 1000 * (1 + (uint64_t)(64 * uniform(seed))),
                             .n = KW_CURVE_KNOTS};
    double bend = 4 * uniform(seed);
    bool straight = uniform(seed) < 0.1;

    for (uint32_t k = 0; k + 1 < KW_CURVE_KNOTS; k++)
        steps[k] = straight ? 9000 : (uint32_t)(20000 * pow(uniform(seed), bend));
    qsort(steps, KW_CURVE_KNOTS - 1, sizeof(*steps), compare);
    curve.knots[0].mw = (uint32_t)(50000 * uniform(seed));
    for (uint32_t k = 1; k < KW_CURVE_KNOTS; k++)
        curve.knots[k] = (struct kw_curve_knot){.load_permille = 100 * k,
                                                .mw = curve.knots[k - 1].mw + steps[k - 1]};
    return curve;
}

/** The node of n such packages, as its agent learns it where they share its load. */
static struct kw_curve node_of(const struct kw_curve *package, unsigned n)
{
    struct kw_curve node = *package;

    node.capacity_mcpu *= n;
    for (uint32_t k = 0; k < node.n; k++)
        node.knots[k].mw *= n;
    return node;
}

struct drawn {
    unsigned n;
    double capacity_mcpu; /**< of a package */
    struct ext_hull package, node;
};

static struct drawn draw(uint64_t *seed)
{
    struct drawn drawn = {.n = 2 + (unsigned)((PACKAGES_MAX - 1) * uniform(seed))};
    const struct kw_curve package = draw_package(seed);
    const struct kw_curve node = node_of(&package, drawn.n);

    drawn.capacity_mcpu = (double)package.capacity_mcpu;
    ext_hull_build(&package, NULL, &drawn.package);
    ext_hull_build(&node, NULL, &drawn.node);
    return drawn;
}

static void test_shared_load(void **state)
{
    (void)state;
    uint64_t seed = 5;

    for (unsigned round = 0; round < ROUNDS; round++) {
        const struct drawn drawn = draw(&seed);
        double each = drawn.capacity_mcpu * uniform(&seed);
        double pod = drawn.capacity_mcpu * uniform(&seed);
        double least = ext_hull_marginal_mw(&drawn.package, each, pod);
        double told = ext_hull_marginal_mw(&drawn.node, drawn.n * each, pod);
        assert_true(least >= told * (1 - 1e-9));
        /* a pod that shares itself among all of them, as large ones do, costs what is told */
        double shared = drawn.n * ext_hull_marginal_mw(&drawn.package, each, pod / drawn.n);
        assert_true(fabs(shared - told) <= 1e-9 * told + 1e-9);
    }
}

static void test_unshared_load(void **state)
{
    (void)state;
    uint64_t seed = 7;
    unsigned less = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        const struct drawn drawn = draw(&seed);
        double sum = 0, emptiest = (double)INFINITY,
               pod = 0.1 * drawn.capacity_mcpu * uniform(&seed);
        for (unsigned p = 0; p < drawn.n; p++) {
            double load = drawn.capacity_mcpu * uniform(&seed);
            sum += load;
            emptiest = fmin(emptiest, load);
        }
        double least = ext_hull_marginal_mw(&drawn.package, emptiest, pod);
        double told = ext_hull_marginal_mw(&drawn.node, sum, pod);
        /* as much as if all were as empty as that one, at the least */
        assert_true(least >=
                    ext_hull_marginal_mw(&drawn.node, drawn.n * emptiest, pod) * (1 - 1e-9));
        /* and as if the pod went to one that has their mean, at the most */
        assert_true(least <=
                    ext_hull_marginal_mw(&drawn.package, sum / drawn.n, pod) * (1 + 1e-9) + 1e-9);
        less += least < told * (1 - 1e-9);
    }
    assert_true(less > ROUNDS / 2); /* it does happen: unlike the above, this is no bound */
}

/** Packages that differ: the node's hull is their mean, and the cheaper offers less. */
static void test_unlike_packages(void **state)
{
    (void)state;
    static const struct {
        uint32_t mw[2];           /* of each package at its full 10 cores, above idle */
        double told_mw, least_mw; /* of a core more */
    } rows[] = {{{50000, 50000}, 5000, 5000}, {{40000, 60000}, 5000, 4000}, {{0, 100000}, 5000, 0}};

    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        double least = (double)INFINITY;
        struct kw_curve node = {
            .capacity_mcpu = 20000,
            .n = 2,
            .knots = {{0, 9000, 0}, {1000, 9000 + rows[i].mw[0] + rows[i].mw[1], 0}}};
        struct ext_hull hull;
        for (unsigned p = 0; p < 2; p++) {
            const struct kw_curve package = {
                .capacity_mcpu = 10000,
                .n = 2,
                .knots = {{0, 4500, 0}, {1000, 4500 + rows[i].mw[p], 0}}};
            ext_hull_build(&package, NULL, &hull);
            least = fmin(least, ext_hull_marginal_mw(&hull, 3000, 1000));
        }
        ext_hull_build(&node, NULL, &hull);
        assert_true(fabs(ext_hull_marginal_mw(&hull, 6000, 1000) - rows[i].told_mw) < 1e-9);
        assert_true(fabs(least - rows[i].least_mw) < 1e-9);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_shared_load),
        cmocka_unit_test(test_unshared_load),
        cmocka_unit_test(test_unlike_packages),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
