/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct agent_archive;

/*
 * How the energy of one domain in one window is split. Methods stand behind one table of functions
 * and are told apart by name in every sample. Pure: no clock, no log, no file.
 */

/** Features that a machine has, in `has` of a window. On-CPU time is always there. */
enum agent_has {
    AGENT_HAS_SMT = 1 << 0,       /**< shared_ns */
    AGENT_HAS_FREQUENCY = 1 << 1, /**< mhz of the window */
    AGENT_HAS_COUNTERS = 1 << 2,  /**< cycles, instructions, llc_misses */
};

/** What one workload did on the domain's package in the window. A feature that the machine lacks is
 * 0 for all. */
struct agent_features {
    uint64_t workload;  /**< number of the workload, the same in every life of the agent; 0: the
                           system. State is kept under it */
    uint64_t kin;       /**< the same for workloads of one owner or image, whose new ones start from
                           what the last one drew; 0: none */
    uint64_t cpu_ns;    /**< on-CPU time */
    uint64_t shared_ns; /**< part of cpu_ns with the SMT sibling busy */
    uint64_t cycles;
    uint64_t instructions;
    uint64_t llc_misses;
};

/** What one workload gets. */
struct agent_share {
    uint64_t active_uj;
    uint64_t sigma_uj; /**< standard deviation; 0: the method states none */
};

struct agent_window {
    unsigned domain; /**< number of the domain within the agent's life: state is kept under it */
    bool dram;       /**< memory; else the CPU package */
    unsigned has;    /**< enum agent_has */
    unsigned n_cpus; /**< logical CPUs of the package; 0: unknown */
    unsigned mhz;    /**< mean frequency of its busy CPUs; 0: unknown */
    uint64_t interval_ns;
    uint64_t measured_uj;
    uint64_t idle_prior_mw; /**< class prior or configured idle power of the domain; 0: unknown */
    size_t n;               /**< entries of `features`; [0] is always the system */
    const struct agent_features *features;
};

struct agent_split {
    uint64_t idle_uj;
    uint64_t unattributed_uj; /**< what no rule could place; 0 in a window with any CPU time, but
                                 for "regression-raw" */
    uint64_t idle_mw, idle_sigma_mw; /**< the method's present idea of idle power */
    struct agent_share *shares;      /**< n, the caller's */
};

struct agent_attribution_ops {
    const char *name; /**< the `method` of a sample: "ratio-cpu" */
    /** @param max_workloads bound of the state. @return 0 or -ENOMEM. */
    int (*open)(size_t max_workloads, void **ret);
    /** Splits so that exactly measured = idle + sum(shares) + unattributed. Allocates nothing. */
    void (*split)(void *self, const struct agent_window *window, struct agent_split *ret);
    /** A workload ended. */
    void (*forget)(void *self, uint64_t workload);
    /** Saves all that was learnt, or loads it into a state just opened (node-agent/archive.h).
     * NULL: nothing is learnt that would last. */
    void (*archive)(void *self, struct agent_archive *archive);
    /** What is believed of a workload on a domain: energy per unit of work, of what is expected of
     * it from its features, and its standard deviation. @return false: nothing. NULL: never
     * anything. */
    bool (*tell)(void *self, unsigned domain, uint64_t workload, double *ret, double *ret_sigma);
    void (*close)(void **self);
};

extern const struct agent_attribution_ops agent_attribution_kalman;
extern const struct agent_attribution_ops agent_attribution_ratio_cpu;
extern const struct agent_attribution_ops agent_attribution_ratio_instructions;
extern const struct agent_attribution_ops agent_attribution_kepler;
extern const struct agent_attribution_ops agent_attribution_regression;
extern const struct agent_attribution_ops agent_attribution_regression_raw;
extern const struct agent_attribution_ops agent_attribution_polynomial;

/** Methods; ends with NULL. */
extern const struct agent_attribution_ops *const agent_attributions[];

/**
 * The method of a choice: the filter, where energy is measured; else by CPU time, since from what a
 * model makes out of CPU time nothing more can be learnt.
 * @param choice 0: as said; else index + 1 of agent_attributions. @param measured there is a meter.
 */
const struct agent_attribution_ops *agent_attribution_choose(unsigned choice, bool measured);

/** Idle energy that passed and was not measured yet: a domain's. Starts as zeros. */
struct agent_owed {
    uint64_t pj;
};

/**
 * Pays idle energy out of what a window measured. A counter may move in steps (1 J on some
 * machines) or a reading may fall between two updates: a window then shows less than idle, and the
 * next one more. What stays owed is carried over, but not further than two seconds of idle power:
 * where the idle power is taken higher than what the machine really draws, the debt must not eat
 * the first load that comes.
 * @return idle energy of the window in uJ, at most what was measured.
 */
uint64_t agent_pay_idle(struct agent_owed *owed, uint64_t idle_mw,
                        const struct agent_window *window);

/**
 * Hands out the energy above idle by weight and completes the split: where no weight is above 0 it
 * is idle's, or nobody's where the features are unknown (window->n == 0).
 * @param weights,given,scratch of n entries, n <= window->n; further workloads get nothing.
 */
void agent_split_active(const struct agent_window *window, uint64_t idle_uj, size_t n,
                        const uint64_t *weights, uint64_t *given, uint64_t *scratch,
                        struct agent_split *ret);

/**
 * Splits `total` in proportion to `weights` by largest remainder (Hamilton): integers that add up
 * to total exactly. All weights 0: nothing is given. Products are 128 bit. @param n entries of
 * weights and ret.
 * @param scratch n entries. @return what was given: total, or 0.
 */
uint64_t agent_apportion(uint64_t total, const uint64_t *weights, size_t n, uint64_t *ret,
                         uint64_t *scratch);
