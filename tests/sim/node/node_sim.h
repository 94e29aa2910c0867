/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "node-agent/attribution.h"

/*
 * A simulated node whose energy is known to the last workload: cores with SMT siblings, frequency
 * and voltage that fall with the number of active cores, ten instruction mixes, energy of cache and
 * memory, a package that wakes. Its windows are what the agent's sampler hands to a method, so the
 * real attribution code runs on them; the truth stands beside. Seeded: equal settings, equal bytes.
 *
 * The figures are of the order of magnitude of a server package, not of any one product
 * (docs/accuracy.md says what this proves and what not).
 */

/** Who is charged for what threads share. */
enum sim_truth {
    SIM_TRUTH_THREADS, /**< core base by threads on the core, package wake by running threads */
    SIM_TRUTH_WORK,    /**< core base by instructions, package wake by cores, then by threads */
};

/** How workloads come by their activity. */
enum sim_load {
    SIM_LOAD_BURSTS, /**< on and off for seconds, and finer within */
    SIM_LOAD_STEADY, /**< each at a constant level: nothing tells them apart */
};

/** Physics of a machine; node_sim.c says what each figure means in a step. */
struct sim_machine {
    double idle_w;        /**< of a package */
    double wake_w;        /**< more while any of its cores is awake */
    double awake_w;       /**< of a core that is awake */
    double base_w, own_w; /**< at 3 GHz: of a running core, shared by its threads; of a thread */
    double max_ghz, min_ghz;
    double ghz_of_core;   /**< less with each core of the package awake beyond the second */
    double wide_ghz;      /**< less on a core that runs wide vector code */
    double low_v, high_v; /**< at 1.2 and at 3.6 GHz */
    double work;          /**< energy of all instructions, of the usual */
    double cap_w;         /**< power of a package at which it throttles; 0: never */
    unsigned packages;    /**< behind one meter, cores dealt out evenly; 1 or 2 */
    unsigned efficient;   /**< the last cores: one thread, slower and smaller */
    bool single;          /**< cores have one thread */
};

/** A server package of 28 W idle, as most scenarios have it. */
extern const struct sim_machine sim_server;

struct sim_node_conf {
    uint64_t seed;
    struct sim_machine machine;
    unsigned cores; /**< physical, each with two threads; 1..128 */
    size_t pods;    /**< at the same time; 1..1200 */
    double threads; /**< mean number of busy threads of all pods together */
    enum sim_load load;
    enum sim_truth truth;
    size_t owners; /**< that the pods are replicas of, in turn; 0: each is its own program */
    double unlike; /**< standard deviation of what replicas differ by, of speed and of energy */
    double churn_per_s;   /**< pods replaced by new ones each second */
    unsigned storm;       /**< further pods that live for 50 to 300 ms, born each second */
    bool quiet_start;     /**< the first 5 s pass without any load */
    double meter_noise;   /**< standard deviation of a window's energy, of the energy */
    double counter_noise; /**< the same of every counter */
    double swing_s;       /**< mean time in which a pod's instructions cost the same; 0: always */
    double phase_s;       /**< all pods change to another instruction mix then; 0: never */
};

/** Settings of most scenarios: 16 cores, bursts, 1 % noise. */
struct sim_node_conf sim_node_defaults(uint64_t seed, size_t pods, double threads);

/** What happened to one workload in a window, in truth. Order of the features. */
struct sim_truth_share {
    double cpu_uj;  /**< active energy of the package that it caused */
    double dram_uj; /**< active energy of memory */
};

struct sim_window {
    uint64_t interval_ns;
    uint64_t cpu_uj, dram_uj; /**< measured: with noise */
    unsigned mhz;             /**< mean of busy CPUs, with noise of a counter; 0: none was busy */
    double idle_cpu_uj, idle_dram_uj;
    double active_cpu_uj, active_dram_uj; /**< truth, all workloads */
    size_t n; /**< [0] is the system; workloads that had no time are left out */
    struct agent_features *features;
    struct sim_truth_share *truth;
    size_t n_departed;
    const uint64_t *departed; /**< numbers of workloads that ended in this window */
};

struct sim_node;

/** @return NULL: out of memory or settings out of range. */
struct sim_node *sim_node_new(const struct sim_node_conf *conf);
void sim_node_free(struct sim_node **node);

/** Lets time pass. @param interval_ns a multiple of 10 ms. The window lives until the next call. */
const struct sim_window *sim_node_run(struct sim_node *node, uint64_t interval_ns);

/** Idle power of the package and of its memory, in truth. */
uint64_t sim_node_idle_mw(const struct sim_node *node, bool dram);

/** Logical CPUs. */
unsigned sim_node_cpus(const struct sim_node *node);
