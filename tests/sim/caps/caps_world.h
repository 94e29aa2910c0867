/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/sim/caps/caps_sim.h"

/* The truth of the simulated cluster: nodes, what runs on them, and what that draws. */

#define KWT_NODES    24
#define KWT_RACKS    4
#define KWT_PODS_MAX 4096
/** Idle, and at the end of each third of the load. */
#define KWT_KNOTS    4

enum kwt_pod_state {
    KWT_POD_FREE,
    KWT_POD_PENDING,
    KWT_POD_BINDING,
    KWT_POD_BOUND,
    KWT_POD_RUNNING
};

struct kwt_pod {
    enum kwt_pod_state state;
    uint64_t number;
    int node;
    double ask_mcpu, use_mcpu, wander; /**< ask_mcpu 0: it does not ask */
    double said_mw;
    double life_s;                        /**< 0: to be drawn */
    int64_t due_s;                        /**< when it is tried, is bound, starts, ends */
    int64_t let_in_s, started_s, turns_s; /**< its phase ends then */
    bool low;                             /**< in its low phase */
    int64_t gives_up_s;
};

struct kwt_node {
    char name[32];
    int rack;
    double capacity_mcpu;
    double knot_mw[KWT_KNOTS];        /**< what it draws, whatever its curve says */
    float past_mw[KWT_LAG_MAX_S + 1]; /**< of the seconds before, by second */
    double cap_mw;                    /**< 0: none */
    double asked_mcpu, use_mcpu;      /**< of the pods that are bound; that run */
    double young_mcpu;  /**< used, of those that were let in less than KWT_YOUNG_S ago */
    double window_mcpu; /**< used, summed up since its last sample */
    int64_t window_s;   /**< how long that is */
    int64_t silent_until_s;
    uint64_t epoch, seq;
    int64_t clock_ms; /**< its clock is ahead by that */
};

struct kwt_world {
    uint64_t random;
    struct kwt_node nodes[KWT_NODES];
    struct kwt_pod pods[KWT_PODS_MAX];
    int n_pods; /**< places that were ever used */
    double rack_cap_mw[KWT_RACKS], row_cap_mw[KWT_RACKS / 2], cluster_cap_mw;
};

void kwt_world_init(struct kwt_world *world, uint64_t seed);
/** 0..1. */
double kwt_uniform(struct kwt_world *world);
double kwt_exponential(struct kwt_world *world, double mean);
/** What a node draws by what runs on it. */
double kwt_node_mw(const struct kwt_node *node);
/** Of that, what it would not without those that were let in lately. */
double kwt_node_young_mw(const struct kwt_node *node);
/** What runs on each node by now. */
void kwt_world_use(struct kwt_world *world, const struct kwt_caps_options *options, int64_t now_s);
/** 1 on the median, by a lognormal distribution. */
double kwt_lognormal(struct kwt_world *world, double sigma);
