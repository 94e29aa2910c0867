/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/clock.h"
#include "node-agent/attribution.h"
#include "tests/sim/node/node_sim.h"

/*
 * Runs a method over a simulated node and compares what it says with the truth.
 */

#define SEEDS     3
#define RUN_S     150
#define WARM_UP_S 30
#define WORKLOADS 4096 /* most in a second, storms included */
#define NUMBERS   65536

/** What the agent has without counters: it knows no frequency then. */
#define TIME     AGENT_HAS_SMT
#define COUNTERS (TIME | AGENT_HAS_COUNTERS)

/** A feature that says what another workload did. */
enum wrong { RIGHT, WRONG_INSTRUCTIONS, WRONG_MISSES };

struct scenario {
    const char *name;
    struct sim_node_conf conf;
    double idle_factor; /* prior of idle power, of the truth */
    bool outlier;       /* not in the median: reported alone */
    enum wrong wrong;   /* feature that is another workload's, and in which part of the windows */
    double wrong_part;
};

struct method {
    const char *name;
    const struct agent_attribution_ops *ops;
    unsigned has;
    bool no_idle; /* told that idle power is 0 */
};

/** Sigmas at which calibration is shown. */
#define WITHINS 6
extern const double run_sigmas[WITHINS];

struct result {
    double misattributed; /* part of the active energy */
    double squares;       /* mean square error of a workload's watts */
    double inside;        /* part of the workload-seconds whose truth is within 2 sigma */
    double idle_error;    /* part of idle power, at the end */
    double spread;        /* root of the mean square error, of the root mean square sigma */
    uint64_t unbalanced_uj;
    double first_s_below;   /* after a phase change: seconds until the error is below a tenth */
    double within[WITHINS]; /* part of the workload-seconds whose truth is within so many sigmas */
    double errors[RUN_S];   /* of each second */
};

/** Index of run_methods. */
enum {
    TOTAL,
    KEPLER,
    RATIO,
    INSTRUCTIONS,
    REGRESSION,
    REGRESSION_RAW,
    POLYNOMIAL,
    KWATT,
    KWATT_TIME,
    KWATT_ALONE,
    METHODS
};

extern const struct method run_methods[METHODS];

/** Medians of a scenario's runs with all seeds; `within` and `errors` are means. */
struct result run_seeds(const struct scenario *scenario, const struct method *method,
                        uint64_t window_ns);

/** The same with seeds that nothing was tuned on. */
struct result run_held_out(const struct scenario *scenario, const struct method *method,
                           uint64_t window_ns);

/** Median; sorts the values. */
double run_median(double *values, size_t n);
