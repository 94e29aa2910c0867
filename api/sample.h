/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/quality.h"

/*
 * Node sample: what a node drew since its agent's epoch began. Energies are cumulative integers in
 * microjoules and never fall within an epoch; a consumer differences two samples of one epoch, and
 * counts the whole value of a first sample of a new one. For each package and domain, exactly:
 *     measured = idle + pods + system + unattributed
 */

#define KW_PACKAGES_MAX 64

/** Energy of one domain (CPU or DRAM) of one package, and where it went. */
struct kw_energy {
    uint64_t measured_uj;
    uint64_t idle_uj;   /**< what the domain draws with nothing to do */
    uint64_t pods_uj;   /**< workloads with an identity of their own: pods, containers, units, VMs,
                           cgroups */
    uint64_t system_uj; /**< kernel threads and what lives in the root cgroup */
    uint64_t unattributed_uj; /**< 0 unless something was dropped */
};

struct kw_package_sample {
    uint32_t package; /**< physical package id */
    struct kw_energy cpu;
    bool has_dram; /**< false: unknown, not zero */
    struct kw_energy dram;
};

/** Whole-machine power beside the CPU domains (psys, ACPI, BMC); never added to them. */
struct kw_platform_sample {
    bool present;
    uint64_t mw;
    uint64_t age_ms;
    char source[32];
};

/** What the system's energy and CPU time are made of, all domains together: the energies add up to
 * the sum of system_uj. */
struct kw_system_sample {
    bool present;
    bool has_kernel; /**< kernel threads are told apart; false: they are in the root's figures */
    uint64_t kernel_uj, kernel_cpu_ns; /**< kernel threads */
    bool has_interrupts; /**< interrupts are told apart; false: they are in whatever they came into
                          */
    uint64_t interrupts_uj, interrupts_cpu_ns;
    uint64_t root_uj, root_cpu_ns;     /**< processes in the root cgroup, put nowhere else */
    uint64_t slices_uj, slices_cpu_ns; /**< processes right in a cgroup that only groups others */
    uint64_t other_uj, other_cpu_ns; /**< what lived too shortly to be named, or is out of sight */
};

/** What the node did and what its meter measured since the epoch began: what power models are
 * learnt from. Only where there is a meter. */
struct kw_totals_sample {
    bool present;
    bool apart; /**< in this sample the energies cover another time than the work: a meter that was
                   silent, or came back */
    bool has_dram;            /**< false: not metered of all packages */
    bool has_counters;        /**< false: cycles, instructions and cache misses are not counted */
    uint64_t cpu_uj, dram_uj; /**< of all packages */
    uint64_t cpu_ns, cycles, instructions, llc_misses;
};

struct kw_sample {
    char node[254];
    char boot_id[40];
    uint64_t epoch; /**< unix ms of the agent's start; another value is another epoch */
    uint64_t seq;   /**< counts samples within the epoch, from 1 */
    int64_t t_unix_ms;
    uint64_t interval_ns; /**< measured length of the last window */
    uint32_t n_packages;
    struct kw_package_sample packages[KW_PACKAGES_MAX];
    struct kw_platform_sample platform;
    struct kw_system_sample system;
    struct kw_totals_sample totals;
    uint64_t watts_mw;         /**< EWMA of the CPU and DRAM domains */
    uint64_t used_mcpu;        /**< CPU use of the last window, all of the node */
    bool has_work;             /**< the node's curve goes by work_mcpu; else by used_mcpu */
    uint64_t work_mcpu;        /**< the same as work: siblings of a core count less */
    uint64_t allocatable_mcpu; /**< logical CPUs online x 1000, until the kubelet says otherwise */
    uint64_t idle_mw;
    uint64_t idle_sigma_mw;    /**< standard deviation of idle_mw; 0: not estimated */
    uint32_t quality;          /**< KW_QUALITY_BITs of the windows behind it */
    uint32_t quality_epoch;    /**< the same of all windows since the epoch began */
    char meter[32];            /**< "powercap", "model", ... */
    char method[32];           /**< attribution: "ratio-cpu", ... */
    char idle_policy[16];      /**< "none", "equal", "requests" */
    uint64_t idle_unshared_uj; /**< idle energy that no workload got by the policy */
    char accounting[32];       /**< "ebpf", "ebpf-raw", "cgroup-files" */
    uint64_t self_cpu_ns;      /**< what the agent itself used since the epoch began */
    uint64_t self_rss_bytes;
    uint64_t self_uj; /**< energy above idle by its part of the node's CPU time in each window; it
                         is part of what its own workload is said to draw */
};

/** All domains of all packages added up. Sums that would not fit saturate. */
struct kw_energy kw_sample_total(const struct kw_sample *sample);

/** Where the sample stands on the node's curve, in its units. */
uint64_t kw_sample_load_mcpu(const struct kw_sample *sample);

/** measured - (idle + pods + system + unattributed); 0 in every sample kwatt writes. */
int64_t kw_energy_error_uj(const struct kw_energy *energy);

/** @param ret JSON text, caller frees. @return 0 or -ENOMEM; -EINVAL where a text is no UTF-8 or a
 * number exceeds 2^63-1. */
int kw_sample_encode(const struct kw_sample *sample, char **ret, size_t *ret_len);

/** The same without what is about packages, the system and the agent itself: a valid sample of no
 * packages, a third of the size, for feeds. */
int kw_sample_encode_digest(const struct kw_sample *sample, char **ret, size_t *ret_len);

/**
 * Total: any bytes give a value or a named error.
 * @param ret untouched on error.
 * @param ret_why static text naming the field, set on -EBADMSG; may be NULL.
 * @return 0; -EBADMSG malformed or a field of the wrong type or range; -EPROTONOSUPPORT another
 * schema; -ENOMEM.
 */
int kw_sample_decode(const char *json, size_t len, struct kw_sample *ret, const char **ret_why);
