/* SPDX-License-Identifier: Apache-2.0 */
/* What is learnt of pods' use from the loads of nodes alone, where the truth is known. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "extender/growth.h"
#include "tests/support/cmocka.h"

#define SIGMAS 2.5
#define NODES  24
#define STEP_S 60.0
#define POD    2700.0 /* expected of each */
#define ENDS   (1 / 1500.0)

/** What pods do. */
struct truth {
    double at_once, soon, later; /* parts of what was expected, as they are followed */
    double wander;               /* of a node's load, from sample to sample, in milli-cores */
};

struct node {
    double load, level, fresh, settling;
};

static uint64_t random_state;

static double uniform(void)
{
    random_state = random_state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (double)(random_state >> 11) / 9007199254740992.0;
}

/** A minute of a node: pods come, grow, and end. */
static void live_step(struct ext_growth *growth, const struct truth *truth, struct node *node,
                      unsigned arrivals)
{
    double fresh = node->fresh * (1 - exp(-STEP_S / EXT_GROWTH_FRESH_S));
    double settling = node->settling * (1 - exp(-STEP_S / EXT_GROWTH_SETTLING_S));
    double seen = arrivals * POD;
    struct ext_growth_step step = {.seconds = STEP_S,
                                   .before_mcpu = node->load + truth->wander * (uniform() - 0.5),
                                   .level_mcpu = node->load,
                                   .seen_mcpu = seen,
                                   .seen_square_mcpu2 = seen * POD,
                                   .fresh_mcpu = fresh,
                                   .settling_mcpu = settling};

    node->settling += fresh - settling;
    node->fresh += seen - fresh;
    for (unsigned left = (unsigned)(node->load / POD); left > 0; left--)
        node->load -= uniform() < ENDS * STEP_S ? POD : 0;
    node->load += truth->at_once * seen + truth->soon * fresh + truth->later * settling;
    step.after_mcpu = node->load + truth->wander * (uniform() - 0.5);
    ext_growth_take(growth, &step);
}

static void live(struct ext_growth *growth, const struct truth *truth, unsigned minutes)
{
    struct node nodes[NODES] = {{0}};

    random_state = 20261201;
    for (unsigned minute = 0; minute < minutes; minute++) {
        bool burst = uniform() < 1.0 / 60;
        for (unsigned i = 0; i < NODES; i++)
            live_step(growth, truth, &nodes[i], (uniform() < 0.4 ? 1U : 0) + (burst ? 5U : 0));
        ext_growth_age(growth, STEP_S);
    }
}

static void check(const char *what, const char *of, double got, double least, double most)
{
    if (got < least || got > most)
        fail_msg("%s: %s: %.3f, not within %.2f to %.2f", what, of, got, least, most);
}

struct range {
    double least, most;
};

/** What pods count as is what they use, and a bit more: whatever they use. */
static void test_what_is_learnt(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        struct truth truth;
        unsigned minutes;
        double sigmas;
        struct range flight, fresh, settling;
    } cases[] = {
        {"nothing is known", {0, 0, 0, 0}, 0, SIGMAS, {2.0, 2.4}, {0.1, 0.15}, {0.08, 0.12}},
        {"nothing is known, means alone", {0, 0, 0, 0}, 0, 0, {1, 1}, {0, 0}, {0, 0}},
        {"as expected, ten minutes", {1, 0, 0, 0}, 10, SIGMAS, {1, 1.6}, {0, 0.3}, {0, 0.3}},
        {"as expected", {1, 0, 0, 0}, 240, SIGMAS, {1, 1.3}, {0, 0.15}, {0, 0.15}},
        {"and the load wanders", {1, 0, 0, 4000}, 240, SIGMAS, {1, 1.4}, {0, 0.25}, {0, 0.2}},
        {"a fifth less", {0.8, 0, 0, 0}, 240, SIGMAS, {1, 1.2}, {0, 0.2}, {0, 0.2}},
        {"never less than expected", {0.3, 0, 0, 0}, 240, SIGMAS, {1, 1}, {0, 0.1}, {0, 0.1}},
        {"twice, ten minutes", {2, 0, 0, 0}, 10, SIGMAS, {1.8, 2.7}, {0, 0.4}, {0, 0.3}},
        {"twice", {2, 0, 0, 0}, 240, SIGMAS, {1.9, 2.5}, {0, 0.3}, {0, 0.3}},
        {"twice, means alone", {2, 0, 0, 0}, 240, 0, {1.8, 2.2}, {0, 0.15}, {0, 0.15}},
        {"four times", {4, 0, 0, 0}, 240, SIGMAS, {3.7, 4.8}, {0, 0.5}, {0, 0.3}},
        {"bounded", {9, 0, 0, 0}, 240, SIGMAS, {5, 5}, {0, 1}, {0, 1}},
        {"they grow within a minute",
         {0.2, 0.8, 0, 0},
         240,
         SIGMAS,
         {1, 1.5},
         {0.7, 1.1},
         {0, 0.3}},
        {"they grow slowly", {0.1, 0, 0.9, 0}, 240, SIGMAS, {1, 1.4}, {0.8, 1.1}, {0.7, 1.1}},
        {"slowly, and twice", {0.2, 0, 1.8, 0}, 240, SIGMAS, {1.8, 2.5}, {1.6, 2.2}, {1.5, 2.1}},
        {"they calm down", {1.5, 0, -0.5, 0}, 240, SIGMAS, {1, 1.5}, {0, 0.1}, {0, 0.1}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct ext_growth growth;
        struct ext_use use;
        ext_growth_init(&growth);
        live(&growth, &cases[i].truth, cases[i].minutes);
        ext_growth_use(&growth, cases[i].sigmas, &use);
        check(cases[i].what, "flight", use.flight, cases[i].flight.least, cases[i].flight.most);
        check(cases[i].what, "fresh", use.fresh, cases[i].fresh.least, cases[i].fresh.most);
        check(cases[i].what, "settling", use.settling, cases[i].settling.least,
              cases[i].settling.most);
    }
}

/** Deployments that are scaled down, all at once, say nothing of those that come. */
static void test_loads_that_move_by_themselves(void **state)
{
    (void)state;
    const struct truth truth = {1, 0, 0, 0};
    struct ext_growth growth;
    struct ext_use before;
    struct ext_use after;

    ext_growth_init(&growth);
    live(&growth, &truth, 240);
    ext_growth_use(&growth, 0, &before);
    for (unsigned i = 0; i < NODES; i++)
        ext_growth_take(&growth, &(const struct ext_growth_step){.seconds = STEP_S,
                                                                 .before_mcpu = 80000,
                                                                 .level_mcpu = 80000,
                                                                 .after_mcpu = 1000,
                                                                 .seen_mcpu = 1000,
                                                                 .seen_square_mcpu2 = 1e6});
    /* nor does what rises by itself say anything of the few that came before */
    for (unsigned i = 0; i < NODES; i++)
        ext_growth_take(&growth, &(const struct ext_growth_step){.seconds = STEP_S,
                                                                 .before_mcpu = 1000,
                                                                 .level_mcpu = 1000,
                                                                 .after_mcpu = 40000,
                                                                 .fresh_mcpu = 3000,
                                                                 .settling_mcpu = 3000});
    ext_growth_use(&growth, 0, &after);
    check("after", "flight", after.flight, before.flight - 0.1, before.flight + 0.1);
    check("after", "fresh", after.fresh, 0, before.fresh + 0.1);
    check("after", "settling", after.settling, 0, before.settling + 0.1);
}

/** Pods of which each uses something else: how much they differ is found, too. */
static void test_pods_that_differ(void **state)
{
    (void)state;
    static const double spreads[] = {0, 0.5, 1};

    for (size_t i = 0; i < sizeof(spreads) / sizeof(*spreads); i++) {
        struct ext_growth growth;
        struct ext_use use;
        ext_growth_init(&growth);
        random_state = 5;
        for (unsigned n = 0; n < 4000; n++) {
            double off = spreads[i] * (uniform() < 0.5 ? -1 : 1);
            bool seen = n % 2 == 0;
            ext_growth_take(&growth, &(const struct ext_growth_step){
                                         .seconds = STEP_S,
                                         .before_mcpu = 30000,
                                         .level_mcpu = 30000,
                                         .after_mcpu = 30000 + (seen ? (1 + off) * POD : 0),
                                         .seen_mcpu = seen ? POD : 0,
                                         .seen_square_mcpu2 = seen ? POD * POD : 0});
        }
        ext_growth_use(&growth, SIGMAS, &use);
        check("spread", "", use.spread, spreads[i] * 0.8, spreads[i] * 1.2 + 0.05);
    }
}

/** What a single pod may come to: what one in thousands uses where they differ, and little more
 * than all use where they do not. */
static void test_single_pods(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        double mean, spread, sigmas;
        struct range alone;
    } cases[] = {
        {"all alike", 1, 0, SIGMAS, {1, 1.2}},
        {"they differ a bit", 1, 0.2, SIGMAS, {1.8, 2.1}},
        {"lognormal by 0.7", 1.28, 1.02, SIGMAS, {11, 12}},
        {"twice, and a bit", 2, 0.4, SIGMAS, {3.6, 4.2}},
        {"at most", 5, 8, SIGMAS, {EXT_ALONE_MAX, EXT_ALONE_MAX}},
        {"never less than expected", 0.2, 0.02, SIGMAS, {1, 1}},
        {"nothing is left to chance", 1.28, 1.02, 0, {1, 1}},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct ext_growth growth = {.mean = {cases[i].mean},
                                    .spread2 = cases[i].spread * cases[i].spread};
        struct ext_use use;
        ext_growth_use(&growth, cases[i].sigmas, &use);
        check(cases[i].what, "alone", use.alone, cases[i].alone.least, cases[i].alone.most);
    }
}

/** With time what was learnt is less sure, and never less than when nothing was known. */
static void test_it_is_forgotten(void **state)
{
    (void)state;
    const struct truth truth = {1, 0, 0, 0};
    struct ext_growth growth;
    struct ext_use use[3];

    ext_growth_init(&growth);
    ext_growth_use(&growth, SIGMAS, &use[0]);
    live(&growth, &truth, 240);
    ext_growth_use(&growth, SIGMAS, &use[1]);
    ext_growth_age(&growth, 3600 * 1e6);
    ext_growth_use(&growth, SIGMAS, &use[2]);
    assert_true(use[1].flight < use[0].flight);
    assert_true(use[2].flight > use[1].flight && use[2].flight < use[0].flight + 0.2);
    ext_growth_take(&growth, &(const struct ext_growth_step){0});
    ext_growth_use(&growth, SIGMAS, &use[1]);
    assert_true(use[1].flight == use[2].flight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_learnt),
        cmocka_unit_test(test_loads_that_move_by_themselves),
        cmocka_unit_test(test_pods_that_differ),
        cmocka_unit_test(test_single_pods),
        cmocka_unit_test(test_it_is_forgotten),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
