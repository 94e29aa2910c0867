/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it is worth to know how long pods live, where nodes may sleep: jobs among services, whose
 * lives are learnt, told or assumed to be an hour. Means over loads and seeds, since which node was
 * awake first decides for long, and one run says little.
 */
#include "tests/bench/placement_lives.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/cleanup.h"
#include "tests/sim/cluster/cluster_sim.h"

#define SEEDS 4

static const double loads[] = {0.1, 0.3, 0.5};

static const struct {
    const char *name;
    struct sim_jobs jobs;
} worlds[] = {
    {"a tenth of the load are jobs of 5 min", {.part = 0.1, .life_s = 300, .service_s = 7200}},
    {"half of it are jobs of 2 min that come in waves",
     {.part = 0.5, .life_s = 120, .service_s = 3600, .swing = 0.9}},
    {"half of it are jobs of 5 min", {.part = 0.5, .life_s = 300, .service_s = 7200}},
    {"a fifth of it are jobs of 5 min, all at each full hour",
     {.part = 0.2, .life_s = 300, .service_s = 7200, .period_s = 3600}},
    {"a fifth of it are jobs of 2 min each half hour, and services live for ten hours",
     {.part = 0.2, .life_s = 120, .service_s = 36000, .period_s = 1800}},
};

static const char *const names[EXT_SIM_LIVES_ASSUMED] = {
    [EXT_SIM_LIVES_LEARNT] = "learnt, within bounds",
    [EXT_SIM_LIVES_PLAIN] = "learnt, without bounds",
    [EXT_SIM_LIVES_TOLD] = "known of each pod",
};

static double energy_uj(const struct ext_sim_input *input, enum ext_sim_lives lives, uint64_t seed)
{
    struct ext_sim_conf conf = ext_sim_defaults(EXT_SIM_KWATT, SIM_TO_S);
    struct ext_sim_result result;

    conf.from_s = SIM_FROM_S;
    conf.lives = lives;
    conf.seed = seed;
    if (ext_sim_run(input, &conf, &result, NULL) < 0)
        abort();
    return result.energy_uj;
}

static void show(const char *what, const char *name, double percent)
{
    printf("{\"name\": \"placement.lives on the sleep fleet, %s: %s\", \"value\": %.2f, \"unit\": "
           "\"%% more than with an hour for each\"}\n",
           what, name, percent);
    (void)fflush(stdout);
}

void placement_lives_tell(bool quick)
{
    double all[EXT_SIM_LIVES_ASSUMED] = {0};
    unsigned seeds = quick ? 1 : SEEDS;
    size_t runs = seeds * KW_ARRAY_SIZE(loads), all_runs = runs * KW_ARRAY_SIZE(worlds);

    for (size_t w = 0; w < KW_ARRAY_SIZE(worlds); w++) {
        double more[EXT_SIM_LIVES_ASSUMED] = {0};
        for (size_t l = 0; l < KW_ARRAY_SIZE(loads); l++) {
            for (unsigned seed = 1; seed <= seeds; seed++) {
                const struct sim_setting setting = {.fleet = SIM_FLEET_SLEEP,
                                                    .load = loads[l],
                                                    .scale = 1,
                                                    .jobs = worlds[w].jobs,
                                                    .seed = seed};
                struct ext_sim_input input;
                if (sim_cluster_make(&setting, &input) < 0)
                    abort();
                double hour = energy_uj(&input, EXT_SIM_LIVES_ASSUMED, seed);
                for (unsigned i = 0; i < EXT_SIM_LIVES_ASSUMED; i++)
                    more[i] += 100 * (energy_uj(&input, i, seed) / hour - 1);
                ext_sim_input_free(&input);
            }
        }
        for (unsigned i = 0; i < EXT_SIM_LIVES_ASSUMED; i++) {
            show(worlds[w].name, names[i], more[i] / (double)runs);
            all[i] += more[i] / (double)all_runs;
        }
    }
    for (unsigned i = 0; i < EXT_SIM_LIVES_ASSUMED; i++)
        show("mean", names[i], all[i]);
}
