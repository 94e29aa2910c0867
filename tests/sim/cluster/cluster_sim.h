/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "extender/sim.h"

/*
 * Fleets of real machines and loads for them, for tests and benchmarks of placement. Seeded: equal
 * settings, equal input.
 */

enum sim_fleet {
    SIM_FLEET_NEW, /**< one kind, whose watts rise steeply at idle and near its limit */
    SIM_FLEET_OLD, /**< one kind that draws the less by core the emptier it is: spreading is best */
    SIM_FLEET_MIXED,  /**< three kinds of today, a third each */
    SIM_FLEET_SLEEP,  /**< the same, and empty nodes may sleep */
    SIM_FLEET_AGED,   /**< kinds of 2012, 2019 and 2022 */
    SIM_FLEET_UNLIKE, /**< the same, and a core of a newer one does more work */
    SIM_FLEET__MAX
};

/** "new", "old", "mixed", "sleep", "aged", "unlike"; index is enum sim_fleet. */
extern const char *const sim_fleet_names[SIM_FLEET__MAX];

/** How pods come. */
enum sim_trace {
    SIM_TRACE_STEADY,   /**< pods at random, short and long lives, load constant */
    SIM_TRACE_DAY,      /**< the load swings by half around its mean, four times a day */
    SIM_TRACE_RECORDED, /**< requests and lives of a production cluster's pods, in their order */
    SIM_TRACE__MAX
};

/** "steady", "day", "recorded"; index is enum sim_trace. */
extern const char *const sim_trace_names[SIM_TRACE__MAX];

/** From when on figures count, and when runs end. */
#define SIM_FROM_S 3600.0
#define SIM_TO_S   14400.0

/** Jobs among services, each of an owner that makes nothing else, so that lives can be learnt. */
struct sim_jobs {
    double part;      /**< of the load that they are; 0: a trace's pods, which have no owners */
    double life_s;    /**< mean of a job */
    double service_s; /**< mean of a service */
    double swing;     /**< of the rate at which jobs come, four times in a run; 0..1 */
    double period_s;  /**< they come in bursts so far apart; 0: at any time */
};

struct sim_setting {
    enum sim_fleet fleet;
    enum sim_trace trace;
    double load;  /**< mean use of all nodes together, of what they can do, 0..1 */
    double scale; /**< size of the fleet; 1: 40 to 100 nodes */
    struct sim_jobs jobs;
    uint64_t seed;
};

/** Makes a cluster. @return 0 or -ENOMEM. */
int sim_cluster_make(const struct sim_setting *setting, struct ext_sim_input *ret);

/** Gives nodes that are there already pods of a setting's trace, load and seed; its fleet and scale
 * do not matter. @return 0; -ENOENT no recording; -ENOMEM. */
int sim_cluster_fill(const struct sim_setting *setting, struct ext_sim_input *input);

/**
 * Energy from SIM_FROM_S to SIM_TO_S below which no placement can come, by the work of all pods
 * that are there: as if it could be split at will, moved at any time and nodes slept and woke for
 * nothing.
 * @param ret in microjoules. @return 0 or -ENOMEM.
 */
int sim_cluster_least_uj(const struct ext_sim_input *input, double *ret);
