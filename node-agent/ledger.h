/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/sample.h"
#include "node-agent/attribution.h"
#include "node-agent/counts.h"
#include "node-agent/identity.h"
#include "node-agent/label.h"
#include "node-agent/metering.h"
#include "node-agent/names.h"
#include "node-agent/requests.h"
#include "node-agent/system_parts.h"

/*
 * Who used what since the epoch began: workloads with cumulative energies, and totals per package
 * and domain that add up exactly. Pure: no clock, file or log. A window is begin, use ..., split
 * (once per slot), end
 */

/** Workloads kept at the same time, ended ones included; the attribution's state is made for so
 * many. */
#define AGENT_WORKLOADS_MAX 16384

/** An ended workload stays listed for so long, then its energy moves into `departed_uj`; shorter
 * where so many end that there would soon be no room for new ones. */
#define AGENT_DEPART_NS (15 * 60 * UINT64_C(1000000000))

struct agent_container {
    struct agent_label *label;
    struct agent_names *names; /**< NULL: unknown */
    unsigned cgroups;          /**< that exist; 0: ended */
    uint64_t ended_ns;         /**< CLOCK_MONOTONIC */
    uint64_t cpu_ns;
    uint64_t active_uj;     /**< of all domains */
    uint64_t dram_uj;       /**< the part of it of DRAM domains */
    double cpu_mw, dram_mw; /**< EWMA of active power, as the workload's */
    uint64_t memory_bytes;
    uint64_t requests;  /**< answered since the epoch began, in AGENT_REQUESTS_UNIT */
    uint64_t window_ns; /**< CPU time in the present window */
};

/** How far the search for a workload's names has come (node-agent/naming.c). */
struct agent_naming_state {
    uint64_t version;  /**< of the source when it was last looked at */
    uint64_t attached; /**< cgroups then */
    uint64_t detached;
    uint64_t rounds;  /**< of the source when it was asked */
    uint64_t next_ns; /**< not to be asked before */
    unsigned asks;    /**< in vain */
    bool asked, lacks;
};

/** Sums of a workload when its processes were looked at last (node-agent/process_watch.c). */
struct agent_looked {
    uint64_t cpu_ns, cpu_uj, dram_uj;
};

struct agent_workload {
    uint64_t kin;    /**< agent_kin_of() its label and names */
    uint64_t number; /**< agent_number_of() its label; attribution state is kept under it */
    struct agent_label *label;
    struct agent_names *names; /**< NULL: unknown */
    struct agent_naming_state naming;
    struct agent_looked looked;
    uint64_t attached;     /**< cgroups that it ever had */
    uint64_t detached;     /**< of them, those that are gone */
    unsigned cgroups;      /**< that exist; 0: ended */
    int64_t ended_unix_ms; /**< 0: running */
    uint64_t ended_ns;
    uint64_t cpu_ns;
    uint64_t cpu_uj;        /**< active energy of CPU domains */
    uint64_t dram_uj;       /**< active energy of DRAM domains */
    uint64_t idle_uj;       /**< by the policy (node-agent/idle_policy.h); not part of the above */
    uint64_t sigma_uj;      /**< sum of the windows' sigmas: what a method errs by lasts */
    double cpu_mw, dram_mw; /**< EWMA of active power */
    double sigma_mw;        /**< the same of the windows' sigmas */
    struct agent_counts counts; /**< beside CPU time, since the epoch began */
    uint64_t watched_ns;        /**< how long they have been averaged */
    uint64_t memory_bytes;
    uint64_t memory_t_ns;   /**< when memory was last read; 0: never */
    uint64_t memory_cpu_ns; /**< cpu_ns then */
    size_t n_containers;
    struct agent_container *containers; /**< sorted by id */
    uint64_t *window_ns;    /**< per accounting package, CPU time in the present window */
    uint64_t window_all_ns; /**< their sum */
    uint64_t window_own_ns; /**< the part outside containers */
    uint64_t window_cpu_uj, window_dram_uj, window_sigma_uj;
    uint64_t requests; /**< answered since the epoch began, in AGENT_REQUESTS_UNIT */
    uint64_t responses[AGENT_REQUESTS_CLASSES]; /**< of them, by HTTP status class */
    struct agent_counts *window_counts; /**< per accounting package, in the present window */
};

struct agent_ledger;

/** @param n_packages packages that CPU time is told apart by. @return 0 or -ENOMEM. */
int agent_ledger_new(unsigned n_packages, struct agent_ledger **ret);
void agent_ledger_free(struct agent_ledger **ledger);

/**
 * A cgroup of a workload appeared: finds the workload by kind and id, or makes it.
 * @param path of the cgroup: the container's, where the identity names one.
 * @param ret_container a reference that names the container in the calls below; NULL outside listed
 *        containers. The caller drops it.
 * @return 0; -ENOSPC too many workloads; -ENOMEM.
 */
int agent_ledger_attach(struct agent_ledger *ledger, const struct agent_identity *identity,
                        const char *path, int64_t now_unix_ms, struct agent_workload **ret,
                        struct agent_label **ret_container);

/** The cgroup is gone: with its last one a workload ends. @param label of the container; NULL
 * outside containers. */
void agent_ledger_detach(struct agent_workload *workload, const struct agent_label *label,
                         uint64_t now_ns, int64_t now_unix_ms);

/** Starts a window. */
void agent_ledger_begin(struct agent_ledger *ledger);

/**
 * CPU time of one cgroup in the window.
 * @param workload NULL: the system. @param label of the container; NULL outside containers.
 * @param cpu_ns one entry per package. @param counts the same; NULL: nothing but time is counted.
 */
void agent_ledger_use(struct agent_ledger *ledger, struct agent_workload *workload,
                      const struct agent_label *label, const uint64_t *cpu_ns,
                      const struct agent_counts *counts);

/** What all of the node did since the epoch began. */
struct agent_ledger_work {
    uint64_t cpu_ns;
    struct agent_counts counts;
};

/** Of the ledger, which owns it. */
const struct agent_ledger_work *agent_ledger_work(const struct agent_ledger *ledger);

/** Says which part of the system CPU time is of that agent_ledger_use was told to be the system's.
 * What it is not told of is AGENT_SYSTEM_OTHER. */
void agent_ledger_use_system(struct agent_ledger *ledger, enum agent_system_part part,
                             const uint64_t *cpu_ns);

/** The system's energy by part: adds up to system_uj of all slots. */
const struct agent_system_parts *agent_ledger_system(const struct agent_ledger *ledger);

/** One slot's energy in the window. */
struct agent_ledger_energy {
    unsigned slot; /**< agent_slot() */
    bool dram;
    unsigned package; /**< dense; one that CPU time is not told apart by is split by all CPU time */
    uint64_t measured_uj;
    uint64_t interval_ns;
    uint64_t idle_prior_mw;
    bool usage_known; /**< false: the accounting failed in this window */
    unsigned n_cpus;  /**< logical CPUs of the package; 0: unknown */
    unsigned has;     /**< enum agent_has: what the accounting counted beside time */
};

/** Splits and books one slot's energy; exact whatever the method answers. @return the method's idle
 * power in mW, its sigma in *ret_sigma_mw. */
uint64_t agent_ledger_split(struct agent_ledger *ledger, const struct agent_attribution_ops *method,
                            void *state, const struct agent_ledger_energy *energy,
                            uint64_t *ret_sigma_mw);

/**
 * Ends the window: containers get their part, powers are smoothed, what ended long ago departs.
 * @param interval_ns length of the window. @param departed called for each workload that leaves;
 * may be NULL.
 */
void agent_ledger_end(struct agent_ledger *ledger, uint64_t now_ns, uint64_t interval_ns,
                      void (*departed)(void *user, uint64_t number), void *user);

/** Totals of a slot since the epoch began. */
const struct kw_energy *agent_ledger_total(const struct agent_ledger *ledger, unsigned slot);

/** Energy above idle of all slots, of workloads and the system, since the epoch began. */
uint64_t agent_ledger_active_uj(const struct agent_ledger *ledger);

/** Active energy of workloads that left. */
uint64_t agent_ledger_departed_uj(const struct agent_ledger *ledger);

/** Idle energy of the same workloads, by the policy. */
uint64_t agent_ledger_departed_idle_uj(const struct agent_ledger *ledger);

/** All workloads, running and ended, in no order; valid until the next attach or end. @return their
 * number. */
size_t agent_ledger_workloads(const struct agent_ledger *ledger,
                              struct agent_workload *const **ret);
