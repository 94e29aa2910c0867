/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/sim/caps/caps_world.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/** Mean length of a phase. */
#define PHASE_S 300

double kwt_uniform(struct kwt_world *world)
{
    /* xorshift64* (Vigna 2016) */
    world->random ^= world->random >> 12;
    world->random ^= world->random << 25;
    world->random ^= world->random >> 27;
    return (double)((world->random * UINT64_C(2685821657736338717)) >> 11) / 9007199254740992.0;
}

double kwt_exponential(struct kwt_world *world, double mean)
{
    return -mean * log(1 - kwt_uniform(world));
}

double kwt_lognormal(struct kwt_world *world, double sigma)
{
    /* Box and Muller (1958) */
    double radius = sqrt(-2 * log(1 - kwt_uniform(world)));

    return exp(sigma * radius * cos(2 * M_PI * kwt_uniform(world)));
}

/** Three generations: watts idle and at thirds of the load; the last one is steep at its top. */
static const double generations[][KWT_KNOTS] = {
    {70, 160, 210, 330}, {128, 330, 450, 817}, {157, 400, 540, 800}};

void kwt_world_init(struct kwt_world *world, uint64_t seed)
{
    double full_mw[KWT_RACKS] = {0};
    double idle_mw[KWT_RACKS] = {0};

    memset(world, 0, sizeof(*world));
    world->random = seed;
    for (int i = 0; i < KWT_NODES; i++) {
        struct kwt_node *node = &world->nodes[i];
        (void)snprintf(node->name, sizeof(node->name), "node-%02d", i);
        node->rack = i % KWT_RACKS;
        node->capacity_mcpu = i % 3 == 0 ? 32000 : 96000;
        for (int k = 0; k < KWT_KNOTS; k++)
            node->knot_mw[k] = generations[i % 3][k] * 1000;
        idle_mw[node->rack] += node->knot_mw[0];
        full_mw[node->rack] += node->knot_mw[KWT_KNOTS - 1];
        if (i % 5 == 0)
            node->cap_mw =
                node->knot_mw[0] + (node->knot_mw[KWT_KNOTS - 1] - node->knot_mw[0]) * 0.6;
    }
    /* each level gives out less than the level below could draw */
    for (int i = 0; i < KWT_RACKS; i++) {
        world->rack_cap_mw[i] = idle_mw[i] + (full_mw[i] - idle_mw[i]) * 0.7;
        world->row_cap_mw[i / 2] += world->rack_cap_mw[i] * 0.92;
    }
    for (int i = 0; i < KWT_RACKS / 2; i++)
        world->cluster_cap_mw += world->row_cap_mw[i] * 0.95;
}

static double mw_of(const struct kwt_node *node, double use_mcpu)
{
    double at = use_mcpu / node->capacity_mcpu * (KWT_KNOTS - 1);
    int i = at < 0 ? 0 : at >= KWT_KNOTS - 1 ? KWT_KNOTS - 2 : (int)at;

    return node->knot_mw[i] + (at - i) * (node->knot_mw[i + 1] - node->knot_mw[i]);
}

double kwt_node_mw(const struct kwt_node *node)
{
    return mw_of(node, node->use_mcpu);
}

double kwt_node_young_mw(const struct kwt_node *node)
{
    double others = node->use_mcpu - node->young_mcpu;

    return mw_of(node, node->use_mcpu) - mw_of(node, others > 0 ? others : 0);
}

/** Part of its use that a pod has come to, and its phase. */
static double part_of(struct kwt_world *world, struct kwt_pod *pod,
                      const struct kwt_caps_options *options, int64_t now_s)
{
    double part = 1;

    if (options->ramp_s > 0 && now_s - pod->started_s < (int64_t)options->ramp_s)
        part = 0.1 + 0.9 * (double)(now_s - pod->started_s) / (double)options->ramp_s;
    if (options->phases <= 0)
        return part;
    if (now_s >= pod->turns_s) {
        pod->low = !pod->low;
        pod->turns_s = now_s + 1 + (int64_t)kwt_exponential(world, PHASE_S);
    }
    return part * (1 + (pod->low ? -0.5 : 0.5) * options->phases);
}

void kwt_world_use(struct kwt_world *world, const struct kwt_caps_options *options, int64_t now_s)
{
    double restless = options->restless;

    for (int i = 0; i < KWT_NODES; i++)
        world->nodes[i].use_mcpu = world->nodes[i].young_mcpu = 0;
    for (int i = 0; i < world->n_pods; i++) {
        struct kwt_pod *pod = &world->pods[i];
        if (pod->state != KWT_POD_RUNNING)
            continue;
        double use = pod->use_mcpu * part_of(world, pod, options, now_s);
        if (restless > 0) {
            /* it forgets a tenth a second; its deviation is the given part of what was asked for */
            pod->wander = 0.9 * pod->wander +
                          restless * 0.4359 * pod->ask_mcpu * 3.4641 * (kwt_uniform(world) - 0.5);
            use += pod->wander;
        }
        use = use > 0 ? use : 0;
        world->nodes[pod->node].use_mcpu += use;
        if (now_s - pod->let_in_s < KWT_YOUNG_S)
            world->nodes[pod->node].young_mcpu += use;
    }
    for (int i = 0; i < KWT_NODES; i++) {
        struct kwt_node *node = &world->nodes[i];
        if (node->use_mcpu > node->capacity_mcpu)
            node->use_mcpu = node->capacity_mcpu;
        node->past_mw[now_s % (KWT_LAG_MAX_S + 1)] = (float)kwt_node_mw(node);
    }
}
