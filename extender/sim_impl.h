/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "extender/ledger.h"
#include "extender/score.h"
#include "extender/sim.h"
#include "extender/sim_plugins.h"
#include "extender/snapshot.h"
#include "extender/tiers.h"
#include "extender/typical.h"

/* What the files of the simulator share. */

/** Changes of a node's load that are remembered: samples look back over them. */
#define EXT_SIM_PAST 128

/** A node's load from a moment on. */
struct ext_sim_change {
    double at_s, work_mcpu;
    double sum_mcpu_s; /**< work until then */
};

/** A node at one instant. */
struct ext_sim_machine {
    double work_mcpu; /**< of its pods */
    double requested_mcpu, requested_mib;
    uint32_t n_pods;
    bool asleep;
    uint32_t times_empty; /**< tells an old intent to sleep from the last */
    double mw;
    struct ext_sim_change past[EXT_SIM_PAST]; /**< a ring */
    uint32_t n_past; /**< ever; the last is at (n_past - 1) % EXT_SIM_PAST */
};

/** What the extender knows: its own snapshot and ledger, renewed each second. */
struct ext_sim_view {
    struct ext_node *nodes;  /**< what the next snapshot is made from */
    struct kw_curve *learnt; /**< curve of each node as the agent knows it */
    double *in_flight_mcpu;  /**< scratch */
    int64_t *sample;         /**< number of each node's last sample */
    struct ext_snapshot *snapshot;
    struct ext_ledger *ledger;
    double next_s; /**< when it is renewed */
};

/** Exponential of Peaks: watts = k0 + k1 exp(k2 x percent). */
struct ext_sim_peaks {
    double k1, k2;
};

/** Labels of the nodes. */
struct ext_sim_tiers {
    struct ext_tier_mark *marks; /**< of each node; NULL: not asked for */
    int8_t *wanted;
    struct ext_typical typical;
    bool looked;
    double looked_s; /**< when they were looked at last */
};

/** What is learnt of the lives of an owner's pods. */
struct ext_sim_life {
    double running, ended; /**< pods */
    double lived_s, at_s;  /**< time that they were there, all together, until at_s */
};

struct ext_sim {
    const struct ext_sim_input *input;
    struct ext_sim_conf conf;
    uint64_t random;
    double now_s;
    struct ext_sim_machine *machines;
    uint16_t *replicas; /**< of each workload on each node: [workload * n_nodes + node] */
    uint32_t *node_of;  /**< of each pod */
    struct ext_sim_view view;
    struct ext_sim_tiers tiers;
    struct ext_sim_life *lives;  /**< of each owner */
    struct ext_sim_peaks *peaks; /**< of each node; NULL: not asked for */
    uint32_t start;              /**< where the scheduler begins to look for nodes that fit */
    /* scratch of a choice, n_nodes each */
    uint32_t *found;
    struct ext_sim_candidate *candidates;
    const struct ext_place **places;
    struct ext_score_scratch *scores;
    double *values;
    int64_t *points;
    uint8_t *levels;
};

/** No node. */
#define EXT_SIM_NOWHERE UINT32_MAX

/** Next number of a sequence that a seed (not 0) begins. */
uint64_t ext_sim_next(uint64_t *state);

/** Of a normal distribution, from any number. */
double ext_sim_normal(uint64_t number);

/** Watts of a node by its curve at some work, in milliwatts; above its capacity as at it. */
double ext_sim_mw_at(const struct ext_sim_node *node, const struct kw_curve *curve,
                     double work_mcpu);

/** @return 0 or -ENOMEM. */
int ext_sim_view_init(struct ext_sim *sim);
void ext_sim_view_clear(struct ext_sim *sim);

/** Renews what the extender knows where a second has passed. @return 0 or -ENOMEM. */
int ext_sim_view_renew(struct ext_sim *sim);

/** A pod is bound; it runs; it is gone. @return 0 or -ENOMEM. */
int ext_sim_view_bound(struct ext_sim *sim, uint32_t pod, uint32_t node);
void ext_sim_view_runs(struct ext_sim *sim, uint32_t pod);
void ext_sim_view_gone(struct ext_sim *sim, uint32_t pod);

/** @return 0 or -ENOMEM. */
int ext_sim_lives_init(struct ext_sim *sim);

/** A pod is bound; it is gone. */
void ext_sim_lives_begin(struct ext_sim *sim, uint32_t pod);
void ext_sim_lives_end(struct ext_sim *sim, uint32_t pod);

/** What waking a node for a pod is spread over, by what is known of its life. */
double ext_sim_wake_s(struct ext_sim *sim, uint32_t pod);

/** Where the scheduler puts a pod. @param ret_node EXT_SIM_NOWHERE where none has room.
 * @return 0 or -ENOMEM. */
int ext_sim_choose(struct ext_sim *sim, uint32_t pod, uint32_t *ret_node);

/** Fits Peaks' exponential to each node's curve. @return 0 or -ENOMEM. */
int ext_sim_fit_peaks(struct ext_sim *sim);

/** @return 0 or -ENOMEM. */
int ext_sim_tiers_init(struct ext_sim *sim);
void ext_sim_tiers_clear(struct ext_sim *sim);

/** Writes the labels that are due, by what the extender knows. @return 0 or -ENOMEM. */
int ext_sim_tiers_renew(struct ext_sim *sim);

/** Adds what NodeAffinity makes of the labels to the points of the n nodes found. */
void ext_sim_tiers_score(struct ext_sim *sim, size_t n);
