/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is lost because a node of two equal packages is priced as one. Of four nodes of a fleet, at
 * loads near each other, which leaves the least room for luck, the one where a pod looks cheapest
 * by the node's hull is compared with the one where it is by the hulls of the packages: both by
 * what it then adds on the emptier package, where the kernel puts it. Loads of a node are shared by
 * its packages, or one is filled first, as a static CPU manager or cpusets do, or they lie anyhow.
 */
#include "tests/bench/placement_packages.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "extender/hull.h"
#include "extender/sim_impl.h"
#include "tests/sim/cluster/cluster_sim.h"

#define PODS 20000

/** Nodes to choose from, and how far their loads lie from their mean, of their capacity. */
#define NODES 4
#define BAND  0.15

/** How a node's load lies on its packages. */
enum split { SHARED, FILLED, ANYHOW, SPLITS };

static const char *const split_names[SPLITS] = {
    [SHARED] = "packages share their load",
    [FILLED] = "one package is filled first",
    [ANYHOW] = "load lies on packages at random",
};

static double uniform(uint64_t *random)
{
    return (double)(ext_sim_next(random) >> 11) * 0x1p-53;
}

/** Load of the emptier package. */
static double emptier_mcpu(enum split split, double load_mcpu, double capacity_mcpu,
                           uint64_t *random)
{
    double half = capacity_mcpu / 2;
    double least = fmax(load_mcpu - half, 0);

    if (split == SHARED)
        return load_mcpu / 2;
    return split == FILLED ? least : least + (load_mcpu / 2 - least) * uniform(random);
}

/** One of two equal packages of a node: half of its curve, without what lies above its hull, since
 * that is what work costs there in the long run. */
static struct ext_hull package_hull(const struct kw_curve *node)
{
    struct kw_curve package = *node;
    struct ext_hull hull;

    package.capacity_mcpu /= 2;
    for (uint32_t i = 1; i + 1 < package.n; i++) {
        for (uint32_t a = 0; a < i; a++) {
            for (uint32_t b = i + 1; b < package.n; b++) {
                const struct kw_curve_knot *from = &node->knots[a], *to = &node->knots[b];
                double part = (node->knots[i].load_permille - from->load_permille) /
                              (double)(to->load_permille - from->load_permille);
                double line = from->mw + part * ((double)to->mw - from->mw);
                package.knots[i].mw = (uint32_t)fmin(package.knots[i].mw, line);
            }
        }
    }
    ext_hull_build(&package, NULL, &hull);
    for (uint32_t i = 0; i < hull.n; i++)
        hull.mw_per_mcpu[i] /= 2;
    return hull;
}

/** @return what pods add more than at best, as a part. */
static double lost(const struct ext_sim_input *fleet, enum split split)
{
    struct ext_hull *nodes = calloc(2 * fleet->n_nodes, sizeof(*nodes));
    struct ext_hull *packages = nodes == NULL ? NULL : nodes + fleet->n_nodes;
    uint64_t random = 9;
    double taken = 0, best = 0;

    if (nodes == NULL)
        abort();
    for (size_t i = 0; i < fleet->n_nodes; i++) {
        ext_hull_build(&fleet->nodes[i].curve, NULL, &nodes[i]);
        packages[i] = package_hull(&fleet->nodes[i].curve);
    }
    for (unsigned pod = 0; pod < PODS; pod++) {
        double mcpu = 1000 * pow(2, floor(4 * uniform(&random)));
        double least = (double)INFINITY, cheapest = (double)INFINITY, there = 0;
        double mean = BAND + (0.9 - 2 * BAND) * uniform(&random);
        for (unsigned k = 0; k < NODES; k++) {
            size_t i = (size_t)(uniform(&random) * (double)fleet->n_nodes);
            double capacity = (double)fleet->nodes[i].curve.capacity_mcpu;
            double load = (mean + BAND * (2 * uniform(&random) - 1)) * capacity;
            double emptier = emptier_mcpu(split, load, capacity, &random);
            double adds = ext_hull_marginal_mw(&packages[i], emptier, mcpu);
            double looks = ext_hull_marginal_mw(&nodes[i], load, mcpu);
            least = fmin(least, adds);
            there = looks < cheapest ? adds : there;
            cheapest = fmin(cheapest, looks);
        }
        taken += there;
        best += least;
    }
    free(nodes);
    return taken / best - 1;
}

void placement_packages_tell(void)
{
    for (unsigned fleet = 0; fleet < SIM_FLEET__MAX; fleet++) {
        const struct sim_setting setting = {
            .fleet = (enum sim_fleet)fleet, .load = 0.1, .scale = 1, .seed = 1};
        struct ext_sim_input input;
        if (fleet == SIM_FLEET_SLEEP || fleet == SIM_FLEET_UNLIKE)
            continue; /* machines of the fleet before */
        if (sim_cluster_make(&setting, &input) < 0)
            abort();
        for (unsigned split = 0; split < SPLITS; split++)
            printf("{\"name\": \"placement.two packages as one, %s fleet: %s\", \"value\": %.2f, "
                   "\"unit\": \"%% more than by packages\"}\n",
                   sim_fleet_names[fleet], split_names[split],
                   100 * lost(&input, (enum split)split));
        ext_sim_input_free(&input);
    }
    (void)fflush(stdout);
}
