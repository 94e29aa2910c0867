/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/cluster/shaped_fleet.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "extender/sim_impl.h"
#include "tests/sim/cluster/cluster_sim.h"

#define KINDS_MAX 4
#define NODES_MAX 300
#define PODS_MAX  6000
#define GROWN_MAX 3000 /* there at the start */

static double uniform(uint64_t *random)
{
    return (double)(ext_sim_next(random) >> 11) * 0x1p-53;
}

static double between(uint64_t *random, double from, double to)
{
    return from + (to - from) * uniform(random);
}

static unsigned draw(uint64_t *random, unsigned n)
{
    return (unsigned)(ext_sim_next(random) % n);
}

static uint64_t sequence(uint64_t seed)
{
    uint64_t random = (seed + 1) * UINT64_C(0x9e3779b97f4a7c15) | 1;

    for (int i = 0; i < 8; i++) /* near seeds begin alike */
        (void)ext_sim_next(&random);
    return random;
}

/* ---- machines ---- */

enum shape { LINE, FALLING, RISING, S, STEPS, TWO_POINTS, NO_IDLE, ALL_IDLE, SHAPES__MAX };

/** A kind of machine under way. */
struct kind {
    enum shape shape;
    double idle, bend; /* part of the peak; exponent */
    double steps[3];   /* where it goes up */
};

/** Part of the way from idle to peak at a load from 0 to 1. */
static double climb(const struct kind *kind, double load)
{
    switch (kind->shape) {
    case S: return 0.3 * fmin(load / 0.1, 1) + 0.3 * load + 0.4 * pow(load, 3 * kind->bend);
    case STEPS:
        return ((load > kind->steps[0]) + (load > kind->steps[1]) + (load > kind->steps[2]) +
                load) /
               4;
    case TWO_POINTS: return load;
    default: return pow(load, kind->bend);
    }
}

static struct kind draw_kind(uint64_t *random)
{
    struct kind kind = {.shape = (enum shape)draw(random, SHAPES__MAX),
                        .idle = between(random, 0.15, 0.6),
                        .bend = 1};

    if (kind.shape == FALLING)
        kind.bend = between(random, 0.4, 0.9);
    else if (kind.shape == RISING || kind.shape == S)
        kind.bend = between(random, 1.2, 3);
    else if (kind.shape == NO_IDLE)
        kind.bend = between(random, 0.7, 1.5);
    for (int i = 0; i < 3; i++)
        kind.steps[i] = between(random, 0, 1);
    if (kind.shape == NO_IDLE)
        kind.idle = 0;
    else if (kind.shape == ALL_IDLE)
        kind.idle = 0.9;
    return kind;
}

/** What all machines of a fleet have in common. */
struct fleet {
    bool sleepable, priced, unlike, small_memory;
    double wake_s; /* of peak power */
};

static struct fleet draw_fleet(uint64_t *random)
{
    static const double wakes_s[] = {0, 60, 120, 3600, 36000};

    return (struct fleet){.sleepable = draw(random, 3) == 0,
                          .priced = draw(random, 5) == 0,
                          .unlike = draw(random, 3) == 0,
                          .small_memory = draw(random, 4) == 0,
                          .wake_s = wakes_s[draw(random, 5)]};
}

static void add_nodes(struct ext_sim_input *input, const struct fleet *fleet, unsigned cores,
                      size_t count, uint64_t *random)
{
    struct kind kind = draw_kind(random);
    uint32_t knots = kind.shape == TWO_POINTS ? 2 : KW_CURVE_KNOTS;
    double peak_mw = cores * between(random, 2, 15) * 1000;
    double work = fleet->unlike ? between(random, 0.5, 2) : 1;
    double zones[2] = {1, 1};

    if (fleet->priced) {
        zones[0] = between(random, 0.3, 3);
        zones[1] = between(random, 0.3, 3);
    }
    for (size_t i = 0; i < count; i++) {
        struct ext_sim_node *node = &input->nodes[input->n_nodes];
        *node = (struct ext_sim_node){
            .curve = {.capacity_mcpu = UINT64_C(1000) * cores, .n = knots},
            .work_per_mcpu = work,
            .memory_mib = (fleet->small_memory ? 2048.0 : 8192.0) * cores,
            .pods_max = 500,
            .sleepable = fleet->sleepable,
            .sleep_mw = (uint32_t)fmin(8000, kind.idle * peak_mw / 2),
            .wake_uj = fleet->wake_s * peak_mw * 1000,
            .energy_price = zones[i % 2],
        };
        (void)snprintf(node->name, sizeof(node->name), "shaped-%zu", input->n_nodes++);
        for (uint32_t k = 0; k < knots; k++) {
            double load = (double)k / (knots - 1);
            node->curve.knots[k] = (struct kw_curve_knot){
                .load_permille = (uint32_t)(1000 * load),
                .mw = (uint32_t)(peak_mw * (kind.idle + (1 - kind.idle) * climb(&kind, load)))};
        }
    }
}

static void draw_nodes(struct ext_sim_input *input, uint64_t *random)
{
    static const unsigned sizes[] = {4, 8, 16, 32, 64, 128, 256};
    struct fleet fleet = draw_fleet(random);
    unsigned kinds = draw(random, 5) < 2 ? 1 : 2 + draw(random, KINDS_MAX - 1);
    unsigned form = draw(random, 4); /* very few; some twice; very many, small */
    unsigned like = draw(random, 7);

    for (unsigned i = 0; i < kinds; i++) {
        unsigned cores = draw(random, 2) == 0 ? sizes[like] : sizes[draw(random, 7)];
        size_t count = 1 + draw(random, 40 / kinds);
        if (form == 0) {
            count = kinds == 1 ? 2 + draw(random, 4) : 1 + draw(random, 2);
        } else if (form == 3) {
            cores = 4u << draw(random, 2);
            count = (100 + draw(random, NODES_MAX - 100)) / kinds;
        }
        add_nodes(input, &fleet, cores, count, random);
    }
}

/* ---- pods ---- */

/** What pods of a cluster have in common. */
struct pods {
    double load;                  /* requests, of all cores */
    double least_mcpu, most_mcpu; /* requests */
    double least_use, most_use;   /* of requests */
    double least_gib, most_gib;   /* a core's memory */
    double life_s;                /* mean of services */
    double jobs, replicas;        /* parts */
    double wave;                  /* how far the load swings */
    unsigned workloads, burst;    /* pods that come at once */
};

static struct pods draw_pods(const struct ext_sim_input *input, uint64_t *random)
{
    static const double uses[][2] = {{0.1, 0.3}, {0.8, 1.1}, {0.9, 1.1}, {1.2, 2.5}, {0.1, 2}};
    static const double sizes[][2] = {
        {1.0 / 64, 1.0 / 16}, {1.0 / 16, 1.0 / 4}, {1.0 / 64, 0.34}, {0.2, 0.34}};
    const double *use = uses[draw(random, 5)], *size = sizes[draw(random, 4)];
    double node_mcpu =
        (double)input->nodes[draw(random, (unsigned)input->n_nodes)].curve.capacity_mcpu;
    struct pods pods = {
        .load = between(random, 0.05, draw(random, 4) == 0 ? 1.1 : 0.8),
        .least_mcpu = size[0] * node_mcpu,
        .most_mcpu = size[1] * node_mcpu,
        .least_use = use[0],
        .most_use = use[1],
        .least_gib = 0.5,
        .most_gib = draw(random, 3) == 0 ? 8 : 2,
        .life_s = draw(random, 2) == 0 ? 1200 : 7200,
        .jobs = between(random, 0, 0.8),
        .replicas = draw(random, 3) == 0 ? 0 : 0.8,
        .wave = draw(random, 3) == 0 ? 0.8 : 0,
        .workloads = 1 + draw(random, 30),
        .burst = draw(random, 4) == 0 ? 1 + draw(random, 60) : 1,
    };

    return pods;
}

#define JOB_LIFE_S 200

static struct ext_sim_pod make_pod(const struct pods *pods, double at_s, bool grown,
                                   uint64_t *random)
{
    double mcpu = between(random, pods->least_mcpu, pods->most_mcpu);
    double jobs = grown ? pods->jobs * JOB_LIFE_S /
                              (pods->jobs * JOB_LIFE_S + (1 - pods->jobs) * pods->life_s)
                        : pods->jobs;
    double life_s =
        -log(1 - uniform(random)) * (uniform(random) < jobs ? JOB_LIFE_S : pods->life_s);
    struct ext_sim_pod pod = {
        .arrival_s = at_s,
        .end_s = at_s + fmax(life_s, 1),
        .request_mcpu = mcpu,
        .work_mcpu = mcpu * between(random, pods->least_use, pods->most_use),
        .request_mib = mcpu * 1.024 * between(random, pods->least_gib, pods->most_gib),
    };

    if (uniform(random) < pods->replicas)
        pod.workload = 1 + draw(random, pods->workloads);
    return pod;
}

static int compare(const void *a, const void *b)
{
    double x = ((const struct ext_sim_pod *)a)->arrival_s;
    double y = ((const struct ext_sim_pod *)b)->arrival_s;

    return (x > y) - (x < y);
}

static int fill(struct ext_sim_input *input, const struct pods *pods, uint64_t *random)
{
    double cores_mcpu = 0, at_s = 0;

    for (size_t i = 0; i < input->n_nodes; i++)
        cores_mcpu += (double)input->nodes[i].curve.capacity_mcpu;
    double there = pods->load * cores_mcpu / ((pods->least_mcpu + pods->most_mcpu) / 2);
    double mean_life_s = pods->jobs * JOB_LIFE_S + (1 - pods->jobs) * pods->life_s;
    double per_s = there / mean_life_s / pods->burst;
    input->pods = calloc(PODS_MAX, sizeof(*input->pods));
    if (input->pods == NULL)
        return -ENOMEM;
    input->n_workloads = pods->workloads;
    while (input->n_pods < fmin(there, GROWN_MAX))
        input->pods[input->n_pods++] = make_pod(pods, 600 * uniform(random), true, random);
    while (input->n_pods + pods->burst <= PODS_MAX) {
        double swing = 1 + pods->wave * sin(8 * 3.14159265358979 * at_s / SIM_TO_S);
        at_s -= log(1 - uniform(random)) / (per_s * swing);
        if (at_s >= SIM_TO_S)
            break;
        for (unsigned i = 0; i < pods->burst; i++)
            input->pods[input->n_pods++] = make_pod(pods, at_s, false, random);
    }
    if (input->n_pods == 0)
        input->pods[input->n_pods++] = make_pod(pods, 0, true, random);
    qsort(input->pods, input->n_pods, sizeof(*input->pods), compare);
    return 0;
}

int sim_shaped_make(uint64_t seed, uint64_t pods, struct ext_sim_input *ret)
{
    uint64_t random = sequence(seed), pods_random = sequence(pods);
    struct ext_sim_input input = {.nodes = calloc(NODES_MAX + 1, sizeof(*input.nodes))};

    if (input.nodes == NULL)
        return -ENOMEM;
    draw_nodes(&input, &random);
    const struct pods kind = draw_pods(&input, &random);
    int rc = fill(&input, &kind, &pods_random);
    if (rc < 0)
        ext_sim_input_free(&input);
    else
        *ret = input;
    return rc;
}
