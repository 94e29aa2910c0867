/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/curve.h"
#include "api/names.h"

/*
 * A simulated cluster: pods come and go, a scheduler with kube-scheduler's own plugins places them,
 * and what the nodes draw is added up. kwatt's opinion comes from the code that answers requests
 * (extender/score.h, hull.h, snapshot.h, ledger.h), fed with samples as agents would publish them.
 * Seeded: equal input, equal figures. docs/placement.md says what it assumes.
 */

/** A machine. Memory is in MiB, and 0 where it is not to matter. */
struct ext_sim_node {
    char name[KW_NODE_NAME_MAX + 1];
    struct kw_curve curve; /**< truth; capacity_mcpu is what pods may request */
    double work_per_mcpu;  /**< work of a milli-core, 1 on the reference machine; > 0 */
    double memory_mib;     /**< 0: never short */
    uint32_t pods_max;     /**< how many its kubelet takes */
    bool sleepable;        /**< it sleeps when it has been empty for EXT_SIM_TAIL_S */
    uint32_t sleep_mw;     /**< what it draws then */
    double wake_uj;        /**< energy of waking it, beyond what its load draws */
    double energy_price;   /**< of its zone, relative to the others; 0: 1 */
};

/** A pod. */
struct ext_sim_pod {
    double arrival_s, end_s; /**< of the run; 0 <= arrival_s < end_s */
    double request_mcpu;     /**< >= 0 */
    double work_mcpu;        /**< what it uses on a machine of work_per_mcpu 1 */
    double request_mib;
    uint32_t workload; /**< its ReplicaSet, whose pods are spread; 0: none */
    uint32_t owner;    /**< who made it, of whose pods lives are learnt; 0: nobody */
};

/** Machines and pods; pods by time of arrival. Zeros: none. */
struct ext_sim_input {
    size_t n_nodes;
    struct ext_sim_node *nodes;
    size_t n_pods;
    struct ext_sim_pod *pods;
    uint32_t n_workloads; /**< pods[].workload is at most that */
    uint32_t n_owners;    /**< the same of pods[].owner */
};

/** Frees both lists and leaves none. */
void ext_sim_input_free(struct ext_sim_input *input);

/** An empty node of a fleet that may sleep does so after this. */
#define EXT_SIM_TAIL_S 300.0

/** Who places. */
enum ext_sim_policy {
    EXT_SIM_SPREAD,   /**< the default plugins */
    EXT_SIM_PACK,     /**< the same with NodeResourcesFit's MostAllocated */
    EXT_SIM_MARGINAL, /**< the watts that the pod adds now, by the node's curve itself */
    EXT_SIM_PEAKS,    /**< the same by Peaks' exponential, from measured use alone */
    EXT_SIM_KWATT,
    EXT_SIM_TIERS, /**< NodeAffinity by the tiers that kwatt labels nodes with, in the profile that
                        `kwatt scheduler-config --tiers` prints */
    EXT_SIM_POLICY__MAX
};

/** "spread", "pack", "marginal", "peaks", "kwatt", "tiers"; index is enum ext_sim_policy. */
extern const char *const ext_sim_policy_names[EXT_SIM_POLICY__MAX];

/** What the scheduler's own resource plugins say beside kwatt, marginal and Peaks. */
enum ext_sim_profile {
    EXT_SIM_PROFILE_DEFAULT, /**< LeastAllocated and BalancedAllocation, as without a configuration
                              */
    EXT_SIM_PROFILE_QUIET,   /**< nothing: both are disabled */
    EXT_SIM_PROFILE__MAX
};

/** What kwatt knows of how long a pod will live. */
enum ext_sim_lives {
    EXT_SIM_LIVES_LEARNT,  /**< what was learnt of its owner's pods, within bounds */
    EXT_SIM_LIVES_PLAIN,   /**< the same without bounds */
    EXT_SIM_LIVES_TOLD,    /**< all: it says so itself */
    EXT_SIM_LIVES_ASSUMED, /**< nothing: an hour is assumed. The last */
};

/** A run. */
struct ext_sim_conf {
    enum ext_sim_policy policy;
    enum ext_sim_profile profile;
    unsigned weight; /**< of the extender: its 0..10 count weight x 10; of NodeAffinity's 0..100
                        with EXT_SIM_TIERS */
    enum ext_sim_lives lives;
    double interval_s;   /**< how often each node publishes the mean of that time */
    double late_s;       /**< how late that comes, unnoticed */
    double noise;        /**< standard deviation of samples and of the learnt curve, relative */
    double tier_age_s;   /**< least time between two changes of a node's tier; 0: they are always
                            as a request would be answered */
    double from_s, to_s; /**< what is counted */
    uint64_t seed;
};

/** What a run came to. Energy is of all nodes from from_s to to_s. */
struct ext_sim_result {
    double energy_uj;
    double priced_uj; /**< the same, each node's by its energy_price */
    double mean_mw, peak_mw;
    double over_permille; /**< of the nodes' time, above 85 % of what they can do */
    double work_mcpu_s;   /**< what pods did, in work; what is asked of a node beyond its capacity
                             is not done */
    size_t unplaced;      /**< pods that ended before there was room */
    size_t waited;        /**< pods that had to wait for room */
    size_t wakes;
};

/**
 * Runs a policy.
 * @param ret_nodes node of each pod, UINT32_MAX where it got none; n_pods elements, or NULL.
 * @return 0; -EINVAL settings or input out of range; -ENOMEM.
 */
int ext_sim_run(const struct ext_sim_input *input, const struct ext_sim_conf *conf,
                struct ext_sim_result *ret, uint32_t *ret_nodes);

/** Settings of an ordinary cluster: samples each 5 s, weight 3, no noise, tiers that
 * stay for a minute. @param to_s end. */
struct ext_sim_conf ext_sim_defaults(enum ext_sim_policy policy, double to_s);
