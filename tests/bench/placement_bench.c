/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What placement saves in a simulated cluster (extender/sim.h, tests/sim/cluster), by fleet, load,
 * policy and quality of the data. Seeded: every run prints the same. docs/placement.md says what it
 * assumes. Savings are of the energy that the default plugins spend on the same pods, medians over
 * seeds.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "tests/bench/placement_lives.h"
#include "tests/bench/placement_packages.h"
#include "tests/bench/placement_random.h"
#include "tests/sim/cluster/cluster_sim.h"

#define SEEDS 3

static const double loads[] = {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.85};
#define N_LOADS KW_ARRAY_SIZE(loads)

/** The scheduler with or without its own resource scores, and what data kwatt has. */
struct variant {
    const char *name;
    enum ext_sim_policy policy;
    enum ext_sim_profile profile;
    unsigned weight;
    double noise, interval_s, late_s;
};

static const struct variant spread = {"spread", EXT_SIM_SPREAD, EXT_SIM_PROFILE_DEFAULT, 3, 0, 5,
                                      0};

enum { KWATT, KWATT_QUIET, NOISY, RARE, LATE, PACK, MARGINAL, PEAKS, VARIANTS };

static const struct variant variants[VARIANTS] = {
    [KWATT] = {"kwatt", EXT_SIM_KWATT, EXT_SIM_PROFILE_DEFAULT, 5, 0, 5, 0},
    [KWATT_QUIET] = {"kwatt, resource scores off", EXT_SIM_KWATT, EXT_SIM_PROFILE_QUIET, 3, 0, 5,
                     0},
    [NOISY] = {"kwatt, noise of 5 %", EXT_SIM_KWATT, EXT_SIM_PROFILE_DEFAULT, 5, 0.05, 5, 0},
    [RARE] = {"kwatt, samples of 60 s", EXT_SIM_KWATT, EXT_SIM_PROFILE_DEFAULT, 5, 0, 60, 0},
    [LATE] = {"kwatt, 60 s late", EXT_SIM_KWATT, EXT_SIM_PROFILE_DEFAULT, 5, 0, 5, 60},
    [PACK] = {"MostAllocated", EXT_SIM_PACK, EXT_SIM_PROFILE_DEFAULT, 3, 0, 5, 0},
    [MARGINAL] = {"plain marginal", EXT_SIM_MARGINAL, EXT_SIM_PROFILE_QUIET, 3, 0, 5, 0},
    [PEAKS] = {"Peaks", EXT_SIM_PEAKS, EXT_SIM_PROFILE_QUIET, 3, 0, 5, 0},
};

/** A variant in one setting, of the default plugins' figures there. */
struct outcome {
    double energy, peak, high_permille;
    double unplaced;
};

static bool quick;

static unsigned seeds(void)
{
    return quick ? 1 : SEEDS;
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof(*values), compare);
    return values[n / 2];
}

/** @param tier_age_s for EXT_SIM_TIERS. */
static struct ext_sim_result run_aged(const struct ext_sim_input *input,
                                      const struct variant *variant, double tier_age_s,
                                      uint64_t seed)
{
    struct ext_sim_conf conf = ext_sim_defaults(variant->policy, SIM_TO_S);
    struct ext_sim_result result;

    conf.profile = variant->profile;
    conf.weight = variant->weight;
    conf.noise = variant->noise;
    conf.interval_s = variant->interval_s;
    conf.late_s = variant->late_s;
    conf.tier_age_s = tier_age_s;
    conf.from_s = SIM_FROM_S;
    conf.seed = seed;
    if (ext_sim_run(input, &conf, &result, NULL) < 0)
        abort();
    return result;
}

static struct ext_sim_result run(const struct ext_sim_input *input, const struct variant *variant,
                                 uint64_t seed)
{
    return run_aged(input, variant, 0, seed);
}

/** All variants (or the first n) in one setting. @param ret n elements; @param ret_base what the
 * default plugins came to. */
static void compare_all(struct sim_setting setting, size_t n, struct outcome *ret,
                        struct ext_sim_result *ret_base)
{
    double energy[VARIANTS][SEEDS], peak[VARIANTS][SEEDS], high[VARIANTS][SEEDS];

    for (size_t v = 0; v < n; v++)
        ret[v] = (struct outcome){0};
    for (unsigned s = 0; s < seeds(); s++) {
        struct ext_sim_input input;
        setting.seed = s + 1;
        if (sim_cluster_make(&setting, &input) < 0)
            abort();
        *ret_base = run(&input, &spread, s + 1);
        for (size_t v = 0; v < n; v++) {
            struct ext_sim_result one = run(&input, &variants[v], s + 1);
            energy[v][s] = one.energy_uj / ret_base->energy_uj;
            peak[v][s] = one.peak_mw / ret_base->peak_mw;
            high[v][s] = one.over_permille;
            ret[v].unplaced += (double)one.unplaced;
        }
        ext_sim_input_free(&input);
    }
    for (size_t v = 0; v < n; v++) {
        ret[v].energy = median(energy[v], seeds());
        ret[v].peak = median(peak[v], seeds());
        ret[v].high_permille = median(high[v], seeds());
    }
}

/* ---- rows ---- */

static void show(const char *name, double value, const char *unit, double bound)
{
    printf("{\"name\": \"placement.%s\", \"value\": %.4f, \"unit\": \"%s\"", name, value, unit);
    if (!isnan(bound))
        printf(", \"bound\": %g, \"better\": \"lower\"", bound);
    printf("}\n");
    (void)fflush(stdout);
}

static void show_ratio(const char *name, double value, const char *unit, double reference,
                       double bound)
{
    printf("{\"name\": \"placement.%s\", \"value\": %.5g, \"unit\": \"%s\", "
           "\"reference\": {\"name\": \"default plugins\", \"value\": %.5g}, \"ratio\": %.4f",
           name, value, unit, reference, value / reference);
    if (!isnan(bound))
        printf(", \"bound\": %g, \"better\": \"lower\"", bound);
    printf("}\n");
    (void)fflush(stdout);
}

static void plot(const char *file, const char *series, double x, double value)
{
    printf("{\"name\": \"placement.%s\", \"value\": %.3f, \"unit\": \"%% of the default plugins' "
           "energy\", \"plot\": {\"file\": \"placement-%s\", \"x\": %g, \"x_label\": \"load of the "
           "cluster, %%\", \"series\": \"%s\"}}\n",
           series, value, file, x, series);
}

/** The worst of what a variant saves or costs. */
struct worst {
    double energy; /* of the default plugins', highest */
    char where[64];
};

/** What is bound at 30 % load. */
static double bound_at(enum sim_fleet fleet, double load)
{
    if (load != 0.3)
        return (double)NAN;
    return fleet == SIM_FLEET_MIXED ? 0.75 : fleet == SIM_FLEET_SLEEP ? 0.45 : (double)NAN;
}

static void tell_fleet(enum sim_fleet fleet, struct worst worst[VARIANTS], double saved[VARIANTS])
{
    static const size_t shown[] = {KWATT, KWATT_QUIET, PACK, MARGINAL, PEAKS};
    struct outcome outcomes[VARIANTS];
    struct ext_sim_result base;
    char name[160];

    for (size_t l = 0; l < N_LOADS; l++) {
        const struct sim_setting setting = {.fleet = fleet, .load = loads[l], .scale = 1};
        bool in_table = loads[l] == 0.1 || loads[l] == 0.3 || loads[l] == 0.5 || loads[l] == 0.85;
        if (quick && !in_table)
            continue;
        compare_all(setting, VARIANTS, outcomes, &base);
        for (size_t v = 0; v < VARIANTS; v++) {
            if (outcomes[v].energy > worst[v].energy) {
                worst[v].energy = outcomes[v].energy;
                (void)snprintf(worst[v].where, sizeof(worst[v].where), "%s at %.0f %%",
                               sim_fleet_names[fleet], 100 * loads[l]);
            }
            saved[v] += 1 - outcomes[v].energy;
        }
        for (size_t i = 0; i < KW_ARRAY_SIZE(shown); i++)
            plot(sim_fleet_names[fleet], variants[shown[i]].name, 100 * loads[l],
                 100 * outcomes[shown[i]].energy);
        if (!in_table)
            continue;
        for (size_t i = 0; i < KW_ARRAY_SIZE(shown); i++) {
            size_t v = shown[i];
            (void)snprintf(name, sizeof(name), "%s fleet, %.0f %% load: %s", sim_fleet_names[fleet],
                           100 * loads[l], variants[v].name);
            show_ratio(name, outcomes[v].energy * base.mean_mw * 1e-6, "kW", base.mean_mw * 1e-6,
                       v == KWATT ? bound_at(fleet, loads[l]) : (double)NAN);
        }
        (void)snprintf(name, sizeof(name), "%s fleet, %.0f %% load: peak, kwatt",
                       sim_fleet_names[fleet], 100 * loads[l]);
        show_ratio(name, outcomes[KWATT].peak * base.peak_mw * 1e-6, "kW", base.peak_mw * 1e-6,
                   (double)NAN);
        (void)snprintf(name, sizeof(name), "%s fleet, %.0f %% load: nodes over 85 %%, kwatt",
                       sim_fleet_names[fleet], 100 * loads[l]);
        show(name, outcomes[KWATT].high_permille / 10, "% of their time", (double)NAN);
        (void)snprintf(name, sizeof(name), "%s fleet, %.0f %% load: pods without a place, kwatt",
                       sim_fleet_names[fleet], 100 * loads[l]);
        show(name, outcomes[KWATT].unplaced / seeds(), "pods", (double)NAN);
    }
}

static void tell_fleets(void)
{
    struct worst worst[VARIANTS] = {0};
    double saved[VARIANTS] = {0};
    char name[160];

    for (unsigned fleet = 0; fleet < SIM_FLEET__MAX; fleet++)
        tell_fleet((enum sim_fleet)fleet, worst, saved);
    for (size_t v = 0; v < VARIANTS; v++) {
        (void)snprintf(name, sizeof(name), "most energy against the default plugins, %s (%s)",
                       variants[v].name, worst[v].where);
        show(name, 100 * (worst[v].energy - 1), "% above", v <= LATE ? 0 : (double)NAN);
    }
    for (size_t v = NOISY; v <= LATE; v++) {
        (void)snprintf(name, sizeof(name), "part of the saving lost, all fleets and loads, %s",
                       variants[v].name);
        show(name, 1 - saved[v] / saved[KWATT], "", 0.2);
    }
}

/** Loads that swing, and the pods of a production cluster. */
static void tell_traces(void)
{
    static const size_t shown[] = {KWATT, KWATT_QUIET, PACK, MARGINAL, PEAKS};
    struct outcome outcomes[VARIANTS];
    struct ext_sim_result base;
    char name[160];

    for (unsigned trace = SIM_TRACE_DAY; trace < SIM_TRACE__MAX; trace++) {
        for (unsigned fleet = SIM_FLEET_MIXED; fleet <= SIM_FLEET_SLEEP; fleet++) {
            const struct sim_setting setting = {
                .fleet = fleet, .trace = trace, .load = 0.3, .scale = 1};
            compare_all(setting, VARIANTS, outcomes, &base);
            for (size_t i = 0; i < KW_ARRAY_SIZE(shown); i++) {
                (void)snprintf(name, sizeof(name), "%s fleet, 30 %% load, %s trace: %s",
                               sim_fleet_names[fleet], sim_trace_names[trace],
                               variants[shown[i]].name);
                show_ratio(name, outcomes[shown[i]].energy * base.mean_mw * 1e-6, "kW",
                           base.mean_mw * 1e-6, shown[i] == KWATT ? 1 : (double)NAN);
            }
        }
    }
}

/** Labels of nodes in place of a call for each pod, by how long they stay; both as
 * `kwatt scheduler-config` prints them. */
static void tell_tiers(void)
{
    static const struct {
        struct variant variant;
        double age_s;
    } tiers[] = {
        {{"kwatt at weight 3", EXT_SIM_KWATT, EXT_SIM_PROFILE_DEFAULT, 3, 0, 5, 0}, 0},
        {{"tiers, always new", EXT_SIM_TIERS, EXT_SIM_PROFILE_DEFAULT, 3, 0, 5, 0}, 0},
        {{"tiers, for 60 s", EXT_SIM_TIERS, EXT_SIM_PROFILE_DEFAULT, 3, 0, 5, 0}, 60},
        {{"tiers, for 300 s", EXT_SIM_TIERS, EXT_SIM_PROFILE_DEFAULT, 3, 0, 5, 0}, 300},
    };
    double saved[KW_ARRAY_SIZE(tiers)] = {0};
    char name[160];

    for (unsigned fleet = 0; fleet < SIM_FLEET__MAX; fleet++) {
        for (size_t l = 0; l < N_LOADS; l++) {
            double energy[KW_ARRAY_SIZE(tiers)][SEEDS];
            if (loads[l] != 0.1 && loads[l] != 0.3 && loads[l] != 0.5 && loads[l] != 0.85)
                continue;
            for (unsigned s = 0; s < seeds(); s++) {
                const struct sim_setting setting = {
                    .fleet = fleet, .load = loads[l], .scale = 1, .seed = s + 1};
                struct ext_sim_input input;
                if (sim_cluster_make(&setting, &input) < 0)
                    abort();
                double base = run(&input, &spread, s + 1).energy_uj;
                for (size_t v = 0; v < KW_ARRAY_SIZE(tiers); v++)
                    energy[v][s] =
                        run_aged(&input, &tiers[v].variant, tiers[v].age_s, s + 1).energy_uj / base;
                ext_sim_input_free(&input);
            }
            for (size_t v = 0; v < KW_ARRAY_SIZE(tiers); v++) {
                double part = median(energy[v], seeds());
                saved[v] += 1 - part;
                (void)snprintf(name, sizeof(name), "%s fleet, %.0f %% load: %s",
                               sim_fleet_names[fleet], 100 * loads[l], tiers[v].variant.name);
                show(name, 100 * part, "% of the default plugins' energy", (double)NAN);
            }
        }
    }
    for (size_t v = 1; v < KW_ARRAY_SIZE(tiers); v++) {
        (void)snprintf(name, sizeof(name), "part of the extender's saving kept, %s",
                       tiers[v].variant.name);
        show(name, saved[v] / saved[0], "", (double)NAN);
    }
}

/** Fleets and loads whose figures are bound, and whose best is told. */
static const struct sim_setting unseen[] = {
    {.fleet = SIM_FLEET_NEW, .load = 0.6, .scale = 1},
    {.fleet = SIM_FLEET_MIXED, .load = 0.3, .scale = 1},
    {.fleet = SIM_FLEET_SLEEP, .load = 0.3, .scale = 1},
    {.fleet = SIM_FLEET_AGED, .load = 0.3, .scale = 1},
};
/** No constant was chosen by what pods of these do. */
static const uint64_t unseen_seeds[] = {101, 102, 103};

/** The weight that `kwatt scheduler-config` prints, and seeds that nothing was tuned on. */
static void tell_unseen(void)
{
    const struct variant shipped[] = {
        {"kwatt at weight 3", EXT_SIM_KWATT, EXT_SIM_PROFILE_DEFAULT, 3, 0, 5, 0},
        {"kwatt at weight 3, noise of 5 %", EXT_SIM_KWATT, EXT_SIM_PROFILE_DEFAULT, 3, 0.05, 5, 0},
        {"kwatt at weight 5", EXT_SIM_KWATT, EXT_SIM_PROFILE_DEFAULT, 5, 0, 5, 0},
        {"least of any placement", EXT_SIM_POLICY__MAX, EXT_SIM_PROFILE_DEFAULT, 0, 0, 0, 0},
    };
    char name[160];

    for (size_t i = 0; i < KW_ARRAY_SIZE(unseen); i++) {
        for (size_t v = 0; v < KW_ARRAY_SIZE(shipped); v++) {
            double ratios[KW_ARRAY_SIZE(unseen_seeds)], base = 0;
            for (size_t s = 0; s < KW_ARRAY_SIZE(unseen_seeds); s++) {
                struct sim_setting setting = unseen[i];
                struct ext_sim_input input;
                setting.seed = unseen_seeds[s];
                if (sim_cluster_make(&setting, &input) < 0)
                    abort();
                base = run(&input, &spread, setting.seed).energy_uj;
                if (shipped[v].policy != EXT_SIM_POLICY__MAX)
                    ratios[s] = run(&input, &shipped[v], setting.seed).energy_uj;
                else if (sim_cluster_least_uj(&input, &ratios[s]) < 0)
                    abort();
                ratios[s] /= base;
                ext_sim_input_free(&input);
            }
            double mean_kw = base * 1e-9 / (SIM_TO_S - SIM_FROM_S);
            (void)snprintf(name, sizeof(name), "%s fleet, %.0f %% load, other seeds: %s",
                           sim_fleet_names[unseen[i].fleet], 100 * unseen[i].load, shipped[v].name);
            bool bound = shipped[v].policy == EXT_SIM_KWATT;
            double limit = bound_at(unseen[i].fleet, unseen[i].load);
            show_ratio(name, median(ratios, KW_ARRAY_SIZE(ratios)) * mean_kw, "kW", mean_kw,
                       !bound                                 ? (double)NAN
                       : isnan(limit) || shipped[v].noise > 0 ? 1
                                                              : limit);
        }
    }
}

/** More nodes than the scheduler looks at. */
static void tell_large(void)
{
    struct outcome outcomes[VARIANTS];
    struct ext_sim_result base;
    const struct sim_setting setting = {
        .fleet = SIM_FLEET_MIXED, .load = 0.3, .scale = quick ? 10 : 20};
    char name[160];

    compare_all(setting, KWATT_QUIET + 1, outcomes, &base);
    (void)snprintf(name, sizeof(name),
                   "mixed fleet of %d nodes, 30 %% load, of which a part is "
                   "scored: kwatt",
                   quick ? 300 : 600);
    show_ratio(name, outcomes[KWATT].energy * base.mean_mw * 1e-6, "kW", base.mean_mw * 1e-6, 0.75);
}

/* ---- small cases, solved by trying everything ---- */

#define SMALL_NODES 4
#define SMALL_PODS  8

/** Least watts of all assignments that fit. */
static double least_mw(const struct ext_sim_input *input)
{
    double least = (double)INFINITY;
    size_t ways = 1;

    for (size_t p = 0; p < input->n_pods; p++)
        ways *= input->n_nodes;
    for (size_t way = 0; way < ways; way++) {
        double requested[SMALL_NODES] = {0}, work[SMALL_NODES] = {0}, mw = 0;
        size_t rest = way;
        bool fits = true;
        for (size_t p = 0; p < input->n_pods; p++, rest /= input->n_nodes) {
            requested[rest % input->n_nodes] += input->pods[p].request_mcpu;
            work[rest % input->n_nodes] += input->pods[p].work_mcpu;
        }
        for (size_t i = 0; i < input->n_nodes; i++) {
            const struct kw_curve *curve = &input->nodes[i].curve;
            fits = fits && requested[i] <= (double)curve->capacity_mcpu;
            mw += (double)kw_curve_mw_at(curve, (uint64_t)work[i]);
        }
        least = fits && mw < least ? mw : least;
    }
    return least;
}

static void tell_regret(void)
{
    static const size_t shown[] = {KWATT, PACK, MARGINAL, PEAKS};
    double above[VARIANTS + 1] = {0};
    unsigned cases = quick ? 20 : 100;

    for (unsigned c = 1; c <= cases; c++) {
        const struct sim_setting setting = {
            .fleet = SIM_FLEET_AGED, .load = 0.3, .scale = 0.13, .seed = c};
        struct ext_sim_input input;
        if (sim_cluster_make(&setting, &input) < 0)
            abort();
        /* the first nodes of each kind, and pods that all come within a minute and stay */
        input.nodes[1] = input.nodes[input.n_nodes - 1];
        input.nodes[2] = input.nodes[input.n_nodes - 2];
        input.nodes[3] = input.nodes[4];
        input.n_nodes = SMALL_NODES;
        input.n_pods = input.n_pods < SMALL_PODS ? input.n_pods : SMALL_PODS;
        for (size_t p = 0; p < input.n_pods; p++) {
            input.pods[p].arrival_s = 60.0 * (double)p / SMALL_PODS;
            input.pods[p].end_s = 2 * SIM_TO_S;
            /* as if each were several: an eighth to a third of an old node */
            input.pods[p].request_mcpu = 4000 * (double)(1 + (p + c) % 5);
            input.pods[p].work_mcpu = input.pods[p].request_mcpu;
        }
        double least = least_mw(&input);
        above[VARIANTS] += run(&input, &spread, c).mean_mw / least - 1;
        for (size_t i = 0; i < KW_ARRAY_SIZE(shown); i++)
            above[shown[i]] += run(&input, &variants[shown[i]], c).mean_mw / least - 1;
        ext_sim_input_free(&input);
    }
    show("small cases, above the best of all assignments: default plugins",
         100 * above[VARIANTS] / cases, "%", (double)NAN);
    for (size_t i = 0; i < KW_ARRAY_SIZE(shown); i++) {
        char name[160];
        (void)snprintf(name, sizeof(name), "small cases, above the best of all assignments: %s",
                       variants[shown[i]].name);
        show(name, 100 * above[shown[i]] / cases, "%", (double)NAN);
    }
}

int main(void)
{
    const char *wanted = getenv("KWATT_BENCH_QUICK");

    quick = wanted != NULL && wanted[0] != '\0';
    tell_fleets();
    tell_traces();
    tell_tiers();
    tell_unseen();
    tell_large();
    tell_regret();
    placement_lives_tell(quick);
    placement_packages_tell();
    placement_random_tell(quick);
    return 0;
}
