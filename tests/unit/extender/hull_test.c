/* SPDX-License-Identifier: Apache-2.0 */
/* Prices of known curves, and what must hold for every curve: between hull and curve, same ends. */
#include <math.h>

#include "common/cleanup.h"
#include "extender/hull.h"
#include "tests/support/cmocka.h"
#include "tests/unit/extender/nodes.h"

static double total_mw(const struct ext_hull *hull, double mcpu)
{
    return ext_hull_marginal_mw(hull, 0, mcpu);
}

/* A two-socket server as published for SPECpower: a jump on waking, a flat middle, a steep top. */
static void test_server_curve(void **state)
{
    (void)state;
    struct kw_curve curve = kwt_server_curve(128000);
    struct ext_hull hull;

    ext_hull_build(&curve, NULL, &hull);
    /* at the knots of its hull (60, 70, 80 %) and at its ends, the price is the curve's */
    static const double loads[] = {0.6, 0.7, 0.8, 1}, watts[] = {442, 498, 577, 817};
    for (size_t i = 0; i < 4; i++)
        assert_true(fabs(total_mw(&hull, loads[i] * 128000) - (watts[i] - 128) * 1000) < 1e-3);
    /* between them, on the way from hull to curve: the first tenth, 52.3 and 129 W, comes as near
     * as it may to the 56 W that the tenth behind the hull's first knot costs */
    double want = EXT_LEAN_BELOW * (498 - 442);
    assert_true(fabs(total_mw(&hull, 12800) - want * 1000) < 1e-3);
    /* one that has begun to fill is cheaper than one that has not, and than a step up the top */
    assert_true(ext_hull_marginal_mw(&hull, 30000, 1000) < ext_hull_marginal_mw(&hull, 0, 1000));
    assert_true(ext_hull_marginal_mw(&hull, 0, 1000) < ext_hull_marginal_mw(&hull, 90000, 1000));
}

/* Two knots of the hull, a bump before the first: how far the price of the first tenth may go. */
static void test_lean(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t watts[4]; /* at 0, 10, 50 and 100 % */
        bool sleepable;
        double first_w; /* of a load of 10 % */
    } cases[] = {
        {"no bump", {100, 110, 150, 250}, false, 10},
        {"a small one", {100, 115, 150, 250}, false, 10 + EXT_LEAN * 5},
        {"a large one", {100, 145, 150, 250}, false, EXT_LEAN_BELOW * 20},
        {"a large one, but it sleeps", {100, 145, 150, 250}, true, 10 + EXT_LEAN * 35},
        {"a large one, nothing steeper", {100, 145, 150, 200}, false, 10 + EXT_LEAN * 35},
        {"hardly steeper", {100, 145, 150, 201}, false, 10},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct kw_curve curve = {.capacity_mcpu = 10000, .n = 4};
        static const uint32_t loads[4] = {0, 100, 500, 1000};
        struct ext_pricing pricing = {.sleepable = cases[i].sleepable, .sleep_mw = 100000};
        struct ext_hull hull;
        for (uint32_t k = 0; k < 4; k++)
            curve.knots[k] = (struct kw_curve_knot){loads[k], 1000 * cases[i].watts[k], 0};
        ext_hull_build(&curve, &pricing, &hull);
        double got = total_mw(&hull, 1000) / 1000;
        if (fabs(got - cases[i].first_w) > 1e-6)
            print_error("%s: %g W, not %g\n", cases[i].name, got, cases[i].first_w);
        assert_true(fabs(got - cases[i].first_w) <= 1e-6);
    }
}

struct pricing_case {
    const char *name;
    struct ext_pricing pricing;
    double first_mw, life_ms; /* cost of the first core, for a pod of that life */
};

/* 4 cores, 10 W idle, 10 W a core */
static void test_pricing(void **state)
{
    (void)state;
    const struct kw_curve curve = {
        .capacity_mcpu = 4000, .n = 2, .knots = {{0, 10000, 0}, {1000, 50000, 0}}};
    const struct pricing_case cases[] = {
        {"nothing", {.work_per_mcpu = 0}, 10000, 1e6},
        {"twice the work", {.work_per_mcpu = 2}, 5000, 1e6},
        {"dirty energy", {.energy_price = 1.5}, 15000, 1e6},
        {"near its cap", {.risk = 4}, 40000, 1e6},
        {"both", {.energy_price = 0.5, .risk = 4}, 20000, 1e6},
        {"sleeps when empty", {.sleepable = true, .sleep_mw = 2000}, 12000, 1e6},
        {"its sleep is no rest", {.sleepable = true, .sleep_mw = 20000}, 10000, 1e6},
        {"wakes for an hour", {.asleep = true, .wake_uj = 3600e6}, 10000 + 1000, 3.6e6},
        {"wakes for a minute", {.asleep = true, .wake_uj = 3600e6}, 10000 + 60000, 6e4},
        {"awake", {.wake_uj = 3600e6}, 10000, 6e4},
        {"no number", {.energy_price = (double)NAN, .risk = -1}, 10000, 1e6},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct ext_hull hull;
        ext_hull_build(&curve, &cases[i].pricing, &hull);
        struct ext_place place =
            ext_place_of(&hull, 0, hull.end_mcpu[hull.n - 1], -1, EXT_PEERS_BAND);
        ext_place_price(&place, &cases[i].pricing);
        double got = ext_place_cost_mw(&place, 1000, 1 / cases[i].life_ms);
        if (fabs(got - cases[i].first_mw) > 1e-3)
            print_error("%s: %g mW, not %g\n", cases[i].name, got, cases[i].first_mw);
        assert_true(fabs(got - cases[i].first_mw) <= 1e-3);
    }
}

/* 100 cores, 100 W idle, asleep 10 W, 100 W for the first tenth and 50 W for each further one */
static struct ext_hull draining_hull(void)
{
    struct kw_curve curve = {.capacity_mcpu = 100000, .n = KW_CURVE_KNOTS};
    const struct ext_pricing pricing = {.sleepable = true, .sleep_mw = 10000};
    struct ext_hull hull;

    for (uint32_t k = 0; k < KW_CURVE_KNOTS; k++)
        curve.knots[k] = (struct kw_curve_knot){100 * k, k == 0 ? 100000 : 150000 + 50000 * k, 0};
    ext_hull_build(&curve, &pricing, &hull);
    return hull;
}

/* Nodes that may sleep and have little to do: the emptier, the dearer, so that it drains. */
static void test_drain(void **state)
{
    (void)state;
    const struct ext_hull hull = draining_hull();
    const double line = 6.4; /* watts of a core on the hull, of (650 - 10) W for 100 cores */
    const double lean = EXT_LEAN * (19 - line);
    static const struct {
        double used, leans;
    } cases[] = {{0, 2}, {2500, 1.5}, {5000, 1}, {7500, 0.5}, {9999.999, 0}};

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct ext_place place = ext_place_of(&hull, cases[i].used, 100000, -1, EXT_PEERS_BAND);
        double want = line + cases[i].leans * lean;
        assert_true(fabs(place.mw_per_mcpu - want) < 1e-5);
        assert_true(fabs(ext_hull_marginal_mw(&hull, cases[i].used, 1e-6) - 1e-6 * want) < 1e-11);
    }
    /* never cheaper behind its end, and dearer than a node that is half full */
    struct ext_place half = ext_place_of(&hull, 50000, 100000, -1, EXT_PEERS_BAND);
    assert_true(half.mw_per_mcpu < line && half.mw_per_mcpu > 4);
    /* a large pod costs what the hull says, and from the beginning what the curve says */
    struct ext_place empty = ext_place_of(&hull, 0, 100000, -1, EXT_PEERS_BAND);
    assert_true(ext_place_marginal_mw(&empty, 25000) == ext_hull_marginal_mw(&hull, 0, 25000));
}

/* Where filling evenly is best, a node is priced by its peers' load as long as it is near. */
static void test_peers(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t watts[6]; /* at 0, 20, ... 100 % */
        double used, peers, want_at, want_tie;
    } cases[] = {
        {"bends upward: as its peers", {50, 60, 72, 86, 102, 120}, 450, 500, 500, 0.5},
        {"bends upward: far above", {50, 60, 72, 86, 102, 120}, 950, 500, 800, 0.5},
        {"bends upward: far below", {50, 60, 72, 86, 102, 120}, 50, 500, 200, 0.5},
        {"bends upward: beyond its capacity", {50, 60, 72, 86, 102, 120}, 1000, 900, 900, 0.9},
        {"alone, and filled evenly best", {50, 60, 72, 86, 102, 120}, 450, -1, 450, 0},
        {"bends downward: by itself", {50, 80, 100, 110, 116, 120}, 450, 500, 450, 0.45},
        {"a straight line: by itself", {50, 60, 70, 80, 90, 100}, 450, 500, 450, 0.45},
        {"bends but for what meters tell", {500, 600, 705, 800, 910, 1030}, 450, 500, 500, 0.5},
        {"bends less than they tell", {500, 600, 712, 800, 910, 1030}, 450, 500, 450, 0.45},
        {"the bulge lies between", {50, 70, 80, 86, 102, 120}, 450, 700, 450, 0.45},
        {"above the bulge, both", {50, 70, 80, 86, 102, 120}, 750, 700, 700, 0.7},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct kw_curve curve = {.capacity_mcpu = 1000, .n = 6};
        struct ext_hull hull;
        for (uint32_t k = 0; k < 6; k++)
            curve.knots[k] = (struct kw_curve_knot){200 * k, 1000 * cases[i].watts[k], 0};
        ext_hull_build(&curve, NULL, &hull);
        struct ext_place place =
            ext_place_of(&hull, cases[i].used, 1000, cases[i].peers / 1000, EXT_PEERS_BAND);
        if (fabs(place.at_mcpu - cases[i].want_at) > 1e-6)
            fail_msg("%s: priced at %g", cases[i].name, place.at_mcpu);
        assert_true(fabs((double)place.tie - cases[i].want_tie) < 1e-6);
        assert_true(fabs((double)place.fill - cases[i].used / 1000) < 1e-6);
        /* where there are no others, however far it is from them */
        place = ext_place_of(&hull, cases[i].used, 1000, cases[i].peers / 1000, (double)INFINITY);
        bool among = cases[i].want_at != cases[i].used;
        double at = among ? cases[i].peers : cases[i].used;
        assert_true(fabs(place.at_mcpu - at) < 1e-6);
    }
}

static void test_risk(void **state)
{
    (void)state;
    static const struct {
        double room_mw, z_sigma_mw, band_mw, want;
    } cases[] = {
        {100, 0, 50, 1},           {50, 0, 50, 1},    {25, 0, 50, 4.5}, {0, 0, 50, EXT_RISK_MAX},
        {-1, 0, 50, EXT_RISK_MAX}, {75, 50, 50, 4.5}, {1, 0, 0, 1},     {0, 0, 0, 1},
        {-1, 0, 0, EXT_RISK_MAX},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++)
        assert_true(fabs(ext_risk(cases[i].room_mw, cases[i].z_sigma_mw, cases[i].band_mw) -
                         cases[i].want) < 1e-9);
}

static void test_two_knots(void **state)
{
    (void)state;
    const struct kw_curve curve = {
        .capacity_mcpu = 4000, .n = 2, .knots = {{0, 10000, 0}, {1000, 50000, 0}}};
    struct ext_hull hull;

    ext_hull_build(&curve, NULL, &hull);
    assert_int_equal(hull.n, 1);
    assert_true(fabs(ext_hull_marginal_mw(&hull, 1000, 500) - 5000) < 1e-9);
}

static void test_flat_curve_is_free(void **state)
{
    (void)state;
    const struct kw_curve curve = {
        .capacity_mcpu = 4000, .n = 3, .knots = {{0, 7, 0}, {500, 7, 0}, {1000, 7, 0}}};
    struct ext_hull hull;

    ext_hull_build(&curve, NULL, &hull);
    assert_int_equal(hull.n, 1);
    assert_true(ext_hull_marginal_mw(&hull, 0, 4000) == 0);
}

/* Work beyond the capacity is not done: dearer than any that is, whatever the curve. */
static void test_beyond_capacity(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t idle_w, half_w, full_w;
        double work, want_mw; /* of a milli-core beyond the capacity of 10 */
    } cases[] = {
        {"four times the mean", 10, 15, 20, 1, 8},
        {"most of it idle", 18, 19, 20, 1, 8},
        {"in steps", 1, 1, 1, 1, 0.5},
        {"by work", 10, 15, 20, 2, 4},
        {"at most so much", 1800, 1900, 2000, 1, 63.75},
        {"never below the top", 0, 0, 2000, 1, 400},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        const struct kw_curve curve = {.capacity_mcpu = 10000,
                                       .n = 3,
                                       .knots = {{0, cases[i].idle_w * 1000, 0},
                                                 {500, cases[i].half_w * 1000, 0},
                                                 {1000, cases[i].full_w * 1000, 0}}};
        const struct ext_pricing pricing = {.work_per_mcpu = cases[i].work};
        struct ext_hull hull;
        ext_hull_build(&curve, &pricing, &hull);
        double full = 10000 * cases[i].work, want = cases[i].want_mw;
        double top = ext_hull_marginal_mw(&hull, full - 100, 100);
        if (fabs(ext_hull_marginal_mw(&hull, 3 * full, 1) - want) > 1e-9)
            fail_msg("%s: %g", cases[i].name, ext_hull_marginal_mw(&hull, 3 * full, 1));
        assert_true(fabs(ext_hull_marginal_mw(&hull, full - 100, 200) - top - 100 * want) < 1e-6);
        /* the same from the place */
        for (unsigned sixteenth = 0; sixteenth < 32; sixteenth++) {
            double used = full * sixteenth / 16;
            struct ext_place place = ext_place_of(&hull, used, full, -1, EXT_PEERS_BAND);
            double want_mw = ext_hull_marginal_mw(&hull, used, 0.7 * full);
            assert_true(fabs(ext_place_marginal_mw(&place, 0.7 * full) - want_mw) <=
                        1e-9 * (want_mw + 1));
        }
    }
}

/* What waking costs is spread over an hour of sleep; what is not worth that stays awake. */
static void test_dear_to_wake(void **state)
{
    (void)state;
    const struct kw_curve curve = {
        .capacity_mcpu = 4000, .n = 2, .knots = {{0, 10000, 0}, {1000, 50000, 0}}};
    static const struct {
        const char *name;
        float wake_uj;
        double used, want_mw; /* of a core for an hour */
    } cases[] = {
        {"free to wake", 0, 0, 12000},
        {"an hour at 4 W", 4 * 3600e6F, 0, 11000},
        {"as dear as sleep saves", 8 * 3600e6F, 0, 10000},
        {"dearer than all of the pod", 80 * 3600e6F, 0, 0},
        {"dear, but it has work", 80 * 3600e6F, 400, 10000},
        {"dear, and nearly empty", 9 * 3600e6F, 150, 1000},
        {"not known", INFINITY, 0, 12000},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        const struct ext_pricing pricing = {
            .sleepable = true, .sleep_mw = 2000, .wake_uj = cases[i].wake_uj};
        struct ext_hull hull;
        ext_hull_build(&curve, &pricing, &hull);
        struct ext_place place = ext_place_of(&hull, cases[i].used, 4000, -1, EXT_PEERS_BAND);
        ext_place_price(&place, &pricing);
        double got = ext_place_cost_mw(&place, 1000, 1 / 3.6e6);
        if (fabs(got - cases[i].want_mw) > 1)
            fail_msg("%s: %g mW, not %g", cases[i].name, got, cases[i].want_mw);
    }
    /* of a node that stays on nothing is saved, however dear */
    const struct ext_pricing on = {.wake_uj = 80 * 3600e6F},
                             restless = {.sleepable = true, .sleep_mw = 20000, .wake_uj = INFINITY};
    struct ext_hull hull;
    ext_hull_build(&curve, &on, &hull);
    struct ext_place place = ext_place_of(&hull, 0, 4000, -1, EXT_PEERS_BAND);
    ext_place_price(&place, &on);
    assert_true(place.wake_uj == 0);
    ext_hull_build(&curve, &restless, &hull);
    ext_place_price(&place, &restless);
    assert_true(place.wake_uj == 0);
}

/* Equal machines on one segment cost exactly the same, so that ties are ties. */
static void test_same_segment_is_exact(void **state)
{
    (void)state;
    struct kw_curve curve = kwt_server_curve(128000);
    struct ext_hull hull;

    ext_hull_build(&curve, NULL, &hull);
    double price = ext_hull_marginal_mw(&hull, 13000, 1500);
    for (unsigned used = 13001; used < 24000; used += 977)
        assert_true(ext_hull_marginal_mw(&hull, used, 1500) == price);
}

static void test_every_curve(void **state)
{
    (void)state;
    uint64_t seed = 7;

    for (unsigned round = 0; round < 2000; round++) {
        struct kw_curve curve = kwt_random_curve(&seed);
        struct ext_hull hull;
        assert_null(kw_curve_check(&curve));
        ext_hull_build(&curve, NULL, &hull);
        assert_in_range(hull.n, 1, KW_CURVE_KNOTS - 1);
        double capacity = (double)curve.capacity_mcpu;
        double rise = (double)curve.knots[curve.n - 1].mw - (double)curve.knots[0].mw;
        double slack = 1e-6 * (rise + 1);
        assert_true(fabs(total_mw(&hull, capacity) - rise) < slack);
        for (uint32_t i = 1; i < hull.n; i++) {
            assert_true(hull.end_mcpu[i] > hull.end_mcpu[i - 1]);
            assert_true(hull.mw_per_mcpu[i] != hull.mw_per_mcpu[i - 1]);
        }
        for (uint32_t i = 0; i < curve.n; i++) {
            double at = capacity * curve.knots[i].load_permille / 1000;
            double above = (double)curve.knots[i].mw - (double)curve.knots[0].mw;
            assert_true(total_mw(&hull, at) <= above + slack);
        }
        /* in two steps as in one, and from a place as from the hull */
        double a = capacity * (double)(kwt_next(&seed) % 1000) / 1000;
        double b = capacity * (double)(kwt_next(&seed) % 1000) / 1000;
        double once = ext_hull_marginal_mw(&hull, a, b);
        double twice = ext_hull_marginal_mw(&hull, a, b / 3) +
                       ext_hull_marginal_mw(&hull, a + b / 3, b - b / 3);
        struct ext_place place = ext_place_of(&hull, a, capacity, -1, EXT_PEERS_BAND);
        assert_true(once >= 0 && fabs(once - twice) < slack);
        assert_true(fabs(ext_place_marginal_mw(&place, b) - once) <= slack);
        assert_true(ext_place_cost_mw(&place, b, 1) == ext_place_marginal_mw(&place, b));
    }
}

/* A cluster with less work than fills a node: the hull ends there, and begins anew behind. */
static void test_reach(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t watts[4]; /* at 0, 10, 50 and 100 % */
        uint8_t reach;
        double first_w, half_w; /* of a load of 10 % and of 50 % */
    } cases[] = {
        {"work without end", {100, 145, 150, 200}, 0, 10 + EXT_LEAN * 35, 50},
        {"as much as it can do", {100, 145, 150, 200}, 3, 10 + EXT_LEAN * 35, 50},
        {"half of that", {100, 145, 150, 200}, 2, 10 + EXT_LEAN * 35, 50},
        {"next to none", {100, 145, 150, 200}, 1, 45, 50},
        {"next to none, and cheap to begin", {100, 101, 150, 250}, 1, 1, 50},
        {"a straight line", {100, 110, 150, 200}, 1, 10, 50},
    };

    for (size_t i = 0; i < KW_ARRAY_SIZE(cases); i++) {
        struct kw_curve curve = {.capacity_mcpu = 10000, .n = 4};
        static const uint32_t loads[4] = {0, 100, 500, 1000};
        const struct ext_pricing pricing = {.reach = cases[i].reach};
        struct ext_hull hull;
        for (uint32_t k = 0; k < 4; k++)
            curve.knots[k] = (struct kw_curve_knot){loads[k], 1000 * cases[i].watts[k], 0};
        ext_hull_build(&curve, &pricing, &hull);
        if (fabs(total_mw(&hull, 1000) - 1000 * cases[i].first_w) > 1e-6 ||
            fabs(total_mw(&hull, 5000) - 1000 * cases[i].half_w) > 1e-6)
            fail_msg("%s: %g, %g", cases[i].name, total_mw(&hull, 1000), total_mw(&hull, 5000));
    }
}

/* Any curve and reach: at its knot the price is the curve's; without one, or where the node may
 * sleep, it is as if there was none. */
static void test_every_reach(void **state)
{
    (void)state;
    uint64_t seed = 11;

    for (unsigned round = 0; round < 2000; round++) {
        struct kw_curve curve = kwt_random_curve(&seed);
        struct ext_pricing pricing = {.reach = (uint8_t)(kwt_next(&seed) % (KW_CURVE_KNOTS + 2)),
                                      .sleepable = kwt_next(&seed) % 4 == 0};
        struct ext_pricing plain = {.sleepable = pricing.sleepable};
        struct ext_hull hull, want;
        ext_hull_build(&curve, &pricing, &hull);
        ext_hull_build(&curve, &plain, &want);
        bool whole = pricing.reach == 0 || pricing.reach + 1u >= curve.n || pricing.sleepable;
        if (whole) {
            assert_int_equal(hull.n, want.n);
            assert_int_equal(hull.plain, want.plain);
            assert_memory_equal(hull.end_mcpu, want.end_mcpu, want.n * sizeof(*want.end_mcpu));
            assert_memory_equal(hull.mw_per_mcpu, want.mw_per_mcpu,
                                want.n * sizeof(*want.mw_per_mcpu));
        }
        assert_in_range(hull.n, 1, KW_CURVE_KNOTS - 1);
        double capacity = (double)curve.capacity_mcpu;
        double rise = (double)curve.knots[curve.n - 1].mw - (double)curve.knots[0].mw;
        double slack = 1e-6 * (rise + 1);
        if (!pricing.sleepable)
            assert_true(fabs(total_mw(&hull, capacity) - rise) < slack);
        if (!whole) {
            const struct kw_curve_knot *end = &curve.knots[pricing.reach];
            double at = capacity * end->load_permille / 1000;
            assert_true(fabs(total_mw(&hull, at) - ((double)end->mw - curve.knots[0].mw)) < slack);
        }
        for (uint32_t i = 0; i < hull.n; i++)
            assert_true(hull.mw_per_mcpu[i] >= 0);
        double a = capacity * (double)(kwt_next(&seed) % 1000) / 1000;
        double b = capacity * (double)(kwt_next(&seed) % 1000) / 1000;
        struct ext_place place = ext_place_of(&hull, a, capacity, -1, EXT_PEERS_BAND);
        assert_true(fabs(ext_place_marginal_mw(&place, b) - ext_hull_marginal_mw(&hull, a, b)) <=
                    slack);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_server_curve),    cmocka_unit_test(test_lean),
        cmocka_unit_test(test_two_knots),       cmocka_unit_test(test_flat_curve_is_free),
        cmocka_unit_test(test_beyond_capacity), cmocka_unit_test(test_same_segment_is_exact),
        cmocka_unit_test(test_every_curve),     cmocka_unit_test(test_pricing),
        cmocka_unit_test(test_dear_to_wake),    cmocka_unit_test(test_drain),
        cmocka_unit_test(test_peers),           cmocka_unit_test(test_risk),
        cmocka_unit_test(test_reach),           cmocka_unit_test(test_every_reach),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
