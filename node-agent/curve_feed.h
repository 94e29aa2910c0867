/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "node-agent/curve.h"
#include "node-agent/topology.h"

/*
 * What the node's curve learns from. Windows are gathered to a second or more, those that say
 * nothing reliable are left out, and what was measured in another way (another meter, other
 * domains, other units of work) is not mixed in. Pure.
 */

/** How the windows of a curve were measured. Windows of another basis make another curve. */
struct agent_curve_basis {
    uint64_t domains;       /**< agent_curve_domain of all that counted; 0: none */
    uint64_t capacity_mcpu; /**< work that the node can do */
    bool by_core;           /**< work counts SMT siblings as one core; else time on threads */
    bool estimated;         /**< by a model */
};

struct agent_curve_window {
    struct agent_curve_basis basis;
    bool fit; /**< its energy and its work are known, and cover the same time */
    uint64_t measured_uj, work_ns;
    uint64_t interval_ns;
    uint64_t slept_ns;                   /**< beside it */
    uint64_t platform_mw, platform_t_ns; /**< latest of the machine's own meter and when; 0: none */
};

struct agent_curve_feed {
    struct agent_curve curve;
    struct agent_curve excess; /**< what the machine draws beyond the curve */
    bool has_excess;
    uint64_t platform_t_ns;   /**< of the reading used last */
    unsigned before_permille; /**< load of the point before */
    struct agent_curve_basis basis;
    uint64_t other_ns; /**< for how long another basis has been there */
    uint64_t gathered_uj, gathered_work_ns, gathered_ns; /**< towards the next point */
};

/** Starts with nothing but the class prior. */
void agent_curve_feed_init(struct agent_curve_feed *feed, uint64_t prior_idle_mw,
                           uint64_t prior_full_mw);

/** Takes a window in, or leaves it out; what was known ages by it either way. */
void agent_curve_feed_take(struct agent_curve_feed *feed, const struct agent_curve_window *window);

/** Time passed of which nothing can be learnt. */
void agent_curve_feed_age(struct agent_curve_feed *feed, uint64_t passed_ns);

/** Saves or loads the curve and its basis. */
void agent_curve_feed_archive(struct agent_curve_feed *feed, struct agent_archive *archive);

/** The curve as it stands. @param now basis of the present windows: the curve's while it has none.
 */
void agent_curve_feed_get(const struct agent_curve_feed *feed, const struct agent_curve_basis *now,
                          struct kw_curve *ret);

/** Adds a domain to `domains`: the sum tells sets of domains apart. @param slot any number. */
uint64_t agent_curve_domain(uint64_t domains, unsigned slot);

/**
 * Work of CPU time in ns of a core: a thread that has its core for itself does one, of two that
 * share a core each does AGENT_WORK_SHARED_PERMILLE.
 * @param shared_ns the part of cpu_ns with the SMT sibling busy; 0 where that is not known.
 */
uint64_t agent_work_ns(uint64_t cpu_ns, uint64_t shared_ns);

/** The same of all CPUs online at once, in thousandths of a core. @param by_core false: threads. */
uint64_t agent_work_capacity_mcpu(const struct agent_topology *topology, bool by_core);

/** Two threads of a core do about 1.3 times what one does alone: most server workloads gain 20 to
 * 35 percent from SMT. The same on all machines, so that a core is a core. */
#define AGENT_WORK_SHARED_PERMILLE 650
