/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fleets drawn at random from curves of servers that nothing was tuned on (../shared/data, not part
 * of the repository; KWATT_SHARED names the folder above data), and fleets made up to be awkward:
 * how kwatt's energy for the same work, by its price, is spread over them. By work, since in a
 * crowded cluster fewer pods wait for room with one policy than with another. And what the default
 * plugins come to against themselves where only ties fall otherwise: so much is chance.
 */
#include "tests/bench/placement_random.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/sim/cluster/random_fleet.h"
#include "tests/sim/cluster/shaped_fleet.h"

#define FLEETS 200
/** Of each fleet, so that few large pods do not decide. */
#define DRAWS  4
/** Fleets from this on were never looked at while constants were chosen. */
#define FIRST  20001

/** Where fleets come from. */
struct source {
    const char *name;
    const struct sim_server *servers; /* NULL: they are made up */
    size_t n;
};

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static struct ext_sim_result run(const struct ext_sim_input *input, struct ext_sim_conf conf,
                                 uint64_t seed)
{
    struct ext_sim_result result;

    conf.from_s = SIM_FROM_S;
    conf.seed = seed;
    if (ext_sim_run(input, &conf, &result, NULL) < 0)
        abort();
    return result;
}

static void make(const struct source *source, uint64_t fleet, uint64_t pods,
                 struct ext_sim_input *ret)
{
    int rc = source->servers == NULL
                 ? sim_shaped_make(fleet, pods, ret)
                 : sim_random_make(source->servers, source->n, fleet, pods, ret);

    if (rc < 0)
        abort();
}

/** Priced energy by work of a fleet, of the default plugins'. @param other the seed of a run is
 * that of the default plugins, plus this. */
static double of_fleet(const struct source *source, uint64_t fleet, const struct ext_sim_conf *conf,
                       uint64_t other)
{
    double energy[2] = {0}, work[2] = {0};

    for (uint64_t draw = 1; draw <= DRAWS; draw++) {
        struct ext_sim_input input;
        uint64_t seed = fleet * 100 + draw;
        make(source, fleet, seed, &input);
        struct ext_sim_result base = run(&input, ext_sim_defaults(EXT_SIM_SPREAD, SIM_TO_S), seed);
        struct ext_sim_result got = run(&input, *conf, seed + other);
        energy[0] += base.priced_uj;
        work[0] += base.work_mcpu_s;
        energy[1] += got.priced_uj;
        work[1] += got.work_mcpu_s;
        ext_sim_input_free(&input);
    }
    /* of some fleets no pod is there after the first hour */
    return work[0] > 0 && work[1] > 0 ? energy[1] / work[1] / (energy[0] / work[0]) : 1;
}

/** @param bound of it, or NAN. */
static void show(const struct source *source, const char *what, const char *name, double value,
                 double bound)
{
    printf("{\"name\": \"placement.%s, energy by work: %s, %s\", \"value\": %.4f, "
           "\"unit\": \"%% above the default plugins'\"",
           source->name, what, name, 100 * (value - 1));
    if (!isnan(bound))
        printf(", \"bound\": %g, \"better\": \"lower\"", bound);
    printf("}\n");
    (void)fflush(stdout);
}

static void tell_fleets(const struct source *source, unsigned fleets)
{
    static const struct {
        const char *name;
        enum ext_sim_policy policy;
        double noise, interval_s, late_s;
    } data[] = {{"good data", EXT_SIM_KWATT, 0, 5, 0},
                {"noise of 5 %", EXT_SIM_KWATT, 0.05, 5, 0},
                {"samples of 60 s", EXT_SIM_KWATT, 0, 60, 0},
                {"60 s late", EXT_SIM_KWATT, 0, 5, 60},
                {"default plugins where ties fall otherwise", EXT_SIM_SPREAD, 0, 5, 0}};
    double ratios[FLEETS];

    for (size_t d = 0; d < sizeof(data) / sizeof(*data); d++) {
        struct ext_sim_conf conf = ext_sim_defaults(data[d].policy, SIM_TO_S);
        bool kwatt = data[d].policy == EXT_SIM_KWATT;
        conf.noise = data[d].noise;
        conf.interval_s = data[d].interval_s;
        conf.late_s = data[d].late_s;
        for (unsigned i = 0; i < fleets; i++)
            ratios[i] = of_fleet(source, FIRST + i, &conf, kwatt ? 0 : 7);
        qsort(ratios, fleets, sizeof(*ratios), compare);
        show(source, data[d].name, "median", ratios[fleets / 2], kwatt ? 0 : (double)NAN);
        show(source, data[d].name, "95 of 100 are below", ratios[fleets * 95 / 100],
             kwatt ? 0 : (double)NAN);
        show(source, data[d].name, "worst", ratios[fleets - 1], (double)NAN);
    }
}

/** Ties fall by the seed of the run. */
static void tell_chance(void)
{
    static const double loads[] = {0.3, 0.5, 0.7, 0.85};
    double most = 0;

    for (size_t l = 0; l < sizeof(loads) / sizeof(*loads); l++) {
        const struct sim_setting setting = {
            .fleet = SIM_FLEET_OLD, .load = loads[l], .scale = 1, .seed = 1};
        const struct ext_sim_conf conf = ext_sim_defaults(EXT_SIM_SPREAD, SIM_TO_S);
        struct ext_sim_input input;
        if (sim_cluster_make(&setting, &input) < 0)
            abort();
        double base = run(&input, conf, 1).energy_uj;
        for (uint64_t seed = 2; seed < 6; seed++) {
            double ratio = run(&input, conf, seed).energy_uj / base;
            most = ratio > most ? ratio : most;
        }
        ext_sim_input_free(&input);
    }
    printf(
        "{\"name\": \"placement.old fleet: default plugins where ties fall otherwise, most of five "
        "seeds and four loads\", \"value\": %.4f, \"unit\": \"%% above\"}\n",
        100 * (most - 1));
}

void placement_random_tell(bool quick)
{
    const char *shared = getenv("KWATT_SHARED"), *root = getenv("KWATT_SOURCE_DIR");
    const struct source awkward = {.name = "awkward fleets"};
    unsigned fleets = quick ? FLEETS / 10 : FLEETS;
    struct sim_server *servers = NULL;
    char path[4096];

    tell_chance();
    tell_fleets(&awkward, fleets);
    if (shared != NULL)
        (void)snprintf(path, sizeof(path), "%s/data/server-curves/specpower-fits.csv", shared);
    else
        (void)snprintf(path, sizeof(path), "%s/../shared/data/server-curves/specpower-fits.csv",
                       root == NULL ? "." : root);
    size_t n = sim_servers_read(path, &servers);
    if (n == 0) {
        (void)fprintf(stderr,
                      "no random fleets: no server curves in %s (KWATT_SHARED names the folder "
                      "above data)\n",
                      path);
        return;
    }
    const struct source drawn = {.name = "random fleets", .servers = servers, .n = n};
    tell_fleets(&drawn, fleets);
    free(servers);
}
