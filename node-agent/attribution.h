/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/*
 * How the energy of one domain in one window is split. The interface is final: methods (CPU-time
 * ratio now; instruction ratio, counter regression and the joint Kalman filter later) stand behind
 * one table of functions and are told apart by name in every sample. Pure: no clock, no log, no
 * file.
 */

/** What one workload did on the domain's package in the window. A feature that the machine lacks is
 * 0 for all. */
struct agent_features {
    uint64_t workload;  /**< stable number of the workload within the agent's life: state is kept
                           under it */
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
    uint64_t interval_ns;
    uint64_t measured_uj;
    uint64_t idle_prior_mw; /**< class prior or configured idle power of the domain */
    size_t n;               /**< entries of `features`; [0] is always the system */
    const struct agent_features *features;
};

struct agent_split {
    uint64_t idle_uj;
    uint64_t unattributed_uj; /**< what no rule could place; 0 in a window with any CPU time */
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
    void (*close)(void **self);
};

/** Methods; ends with NULL; the first is the default. */
extern const struct agent_attribution_ops *const agent_attributions[];

/**
 * Splits `total` in proportion to `weights` by largest remainder (Hamilton): integers that add up
 * to total exactly. All weights 0: nothing is given. Products are 128 bit. @param n entries of
 * weights and ret.
 * @param scratch n entries. @return what was given: total, or 0.
 */
uint64_t agent_apportion(uint64_t total, const uint64_t *weights, size_t n, uint64_t *ret,
                         uint64_t *scratch);
