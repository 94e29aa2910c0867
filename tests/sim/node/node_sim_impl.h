/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "common/clock.h"
#include "tests/sim/node/node_sim.h"

/* Between node_sim.c and node_physics.c. */

#define STEP_NS      (10 * KW_NS_PER_MS)
#define STEP_S       0.01
#define THREADS_MAX  4 /* of one pod */
#define DRAM_IDLE_W  7.0
#define NOBODY       (-1)
#define PACKAGES_MAX 2

struct mix {
    double ipc, nj;   /* instructions per cycle; nJ of one at V0 */
    double llc, miss; /* per instruction: references and misses of the last level */
    double smt;       /* speed of a thread whose sibling is busy */
    bool wide;        /* vector code that lowers the frequency */
};

struct pod {
    uint64_t number, kin;
    struct mix mix;  /* its own: every program is a little different */
    double ipc_walk; /* logarithm */
    double swing;    /* energy of its instructions now, of the mix's */
    unsigned threads;
    double duty; /* of one thread while on */
    double on_s, off_s;
    bool on;
    double phase_left_s;
    double life_left_s;        /* of short ones; HUGE_VAL else */
    int cpu[THREADS_MAX];      /* where the thread ran last */
    bool runs[THREADS_MAX];    /* in this step */
    struct agent_features sum; /* of the window */
    struct sim_truth_share truth;
};

struct sim_node {
    struct sim_node_conf conf;
    uint64_t random;
    uint64_t now_ns;
    uint64_t next_number;
    bool phase_done;
    double churn_due, storm_due;
    struct pod *pods; /* [0] is the system */
    size_t n, cap;
    double slowed[PACKAGES_MAX]; /* part of its frequency that a package goes without */
    int *cpu_pod; /* which pod runs on a CPU in this step; siblings are 2c and 2c+1 */
    struct sim_window window;
    uint64_t *departed;
    size_t cap_departed;
};

/** Whether a core is one of those that are slower and smaller, and have one thread. */
bool sim_core_is_efficient(const struct sim_node *node, unsigned core);

/** One package for a step, with threads on its CPUs as cpu_pod says: its cores are every
 * packages-th. */
void sim_package_step(struct sim_node *node, unsigned package);
