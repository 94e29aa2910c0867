/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "node-agent/topology.h"

/*
 * CPU time per leaf cgroup and package, from eBPF or, where that cannot be had, from the cgroups'
 * own files. Backends stand behind one table of functions; the choice is made once, by probing,
 * before the loop.
 *
 * A cgroup's key is the inode number of its directory (which is the kernel's cgroup id). On hosts
 * with v1 controllers a task that sits in the root of the v2 tree is keyed by its v1 cpuacct cgroup
 * instead, with AGENT_KEY_V1 set: ids of different hierarchies overlap. Root cgroups have the key
 * AGENT_KEY_SYSTEM for processes and AGENT_KEY_KERNEL for kernel threads; a kernel thread that
 * somebody put into a cgroup, as KVM does with its vhost workers, belongs to that cgroup. Idle time
 * has no key.
 *
 * A reading may hold keys that agent_cgroups_find does not know: cgroups that were made and removed
 * between two looks, and, for an agent that sees only a part of the tree (cgroup namespace),
 * everything outside. Their time is the system's. They may be forgotten like others once their time
 * is booked; if the cgroup was alive after all, its row starts again from 0.
 */
#define AGENT_KEY_SYSTEM     UINT64_C(0)
#define AGENT_KEY_OVERFLOW   UINT64_MAX /* what a full map could not keep apart */
#define AGENT_KEY_V1         (UINT64_C(1) << 63)
#define AGENT_KEY_KERNEL     (AGENT_KEY_V1 | 1) /* a v1 root's number, which has no key by it */
/** Interrupts, where their time is in no cgroup's: with AGENT_FEATURE_SOFTIRQ. */
#define AGENT_KEY_INTERRUPTS AGENT_KEY_V1 /* no cgroup has the number 0 */

/** Whether it is one of those above that are always there. */
bool agent_key_is_fixed(uint64_t key);

/** What can be counted beside time, where the machine has it; each costs nothing while off. */
enum agent_feature {
    AGENT_FEATURE_SMT,      /**< time with the SMT sibling busy */
    AGENT_FEATURE_COUNTERS, /**< cycles, instructions, misses of the last-level cache */
    AGENT_FEATURE_SOFTIRQ,  /**< time in soft interrupts is taken out of the cgroups' */
    AGENT_FEATURE__MAX
};
#define AGENT_FEATURE_BIT(feature) (1u << (feature))
/** Those that agent_usage.more is for. */
#define AGENT_FEATURES_MORE \
    (AGENT_FEATURE_BIT(AGENT_FEATURE_SMT) | AGENT_FEATURE_BIT(AGENT_FEATURE_COUNTERS))

/** "smt", "counters", "softirq". */
extern const char *const agent_feature_names[AGENT_FEATURE__MAX];

/** Whether a feature that was asked for is there. */
struct agent_feature_state {
    bool on;
    char why_not[256]; /**< "" where it is on or was not asked for */
};

/** Hardware counters, in the order of agent_more.counters. */
enum agent_counter {
    AGENT_COUNTER_CYCLES,
    AGENT_COUNTER_INSTRUCTIONS,
    AGENT_COUNTER_LLC_MISSES,
    AGENT_COUNTER__MAX
};

/** An event as perf_event_open(2) names it. */
struct agent_counter_event {
    uint32_t type;
    uint64_t config;
};

/** Of one cgroup on one package, cumulative as its CPU time. */
struct agent_more {
    uint64_t shared_ns; /**< the part of the CPU time during which the SMT sibling was busy */
    /** As counted: a PMU that is shared counts only for running_ns of enabled_ns. What it would
     * have counted follows for the difference of two readings, not for the sums. */
    uint64_t counters[AGENT_COUNTER__MAX];
    uint64_t enabled_ns, running_ns;
};

/** One reading: cumulative CPU time since the accounting was opened. Memory is kept between
 * readings. */
struct agent_usage {
    uint64_t t_ns; /**< CLOCK_MONOTONIC at the flush */
    size_t n, cap;
    unsigned n_packages;
    uint64_t *keys;          /**< n, unique */
    uint64_t *cpu_ns;        /**< n x n_packages: row i, dense package p at [i * n_packages + p] */
    bool overflowed;         /**< AGENT_KEY_OVERFLOW holds time of cgroups that did not fit */
    bool crowded;            /**< more than half of the room for cgroups is taken */
    unsigned features;       /**< AGENT_FEATURE_BIT of what was counted */
    struct agent_more *more; /**< n x n_packages as cpu_ns; NULL: time only */
    size_t cap_more;
};

/** Frees the rows, not the struct; leaves it empty. NULL-safe. */
void agent_usage_free(struct agent_usage *usage);

/** Empties a reading for `n_packages` and makes room for `n` rows; memory is kept.
 * @param features that are counted. @return 0 or -ENOMEM (content kept). */
int agent_usage_reset(struct agent_usage *usage, size_t n, unsigned n_packages, unsigned features);

/** Appends a row of zeros. @param key not in the reading yet. @return its n_packages cells, valid
 * until the next call; NULL: no memory. */
uint64_t *agent_usage_add(struct agent_usage *usage, uint64_t key);

/** Takes out a row; the last one takes its place. */
void agent_usage_drop(struct agent_usage *usage, size_t row);

struct agent_accounting_conf {
    const struct agent_topology *topology;
    const char *sysfs_root; /**< where fs/cgroup is looked for */
    const char *procfs_root;
    unsigned max_cgroups;   /**< that are kept apart; 0: from the machine */
    unsigned first_cgroups; /**< of them, those in the map that every reading walks; 0: the same */
    unsigned features;      /**< AGENT_FEATURE_BIT of what is wanted where it can be had */
    const struct agent_counter_event
        *events; /**< AGENT_COUNTER__MAX of them; NULL: the PMU's own */
};

struct agent_accounting_ops {
    const char *name;   /**< "ebpf", "ebpf-raw", "cgroup-files": the `accounting` of a sample */
    bool without_bpf;   /**< runs no BPF program */
    bool merges_kernel; /**< kernel threads are in AGENT_KEY_SYSTEM with the root's processes */
    /** @param conf needed during the call only. @return 0; -errno with the cause in `err` (what is
     * missing and what would bring it). */
    int (*open)(const struct agent_accounting_conf *conf, void **ret, struct kw_err *err);
    /** Closes running slices and reads everything. Allocates only to grow. @return 0 or -errno; ret
     * keeps its last content on error. */
    int (*read)(void *self, struct agent_usage *ret);
    /** What came of the features that were asked for: AGENT_FEATURE__MAX states that live as long
     * as the accounting. NULL: this backend counts time alone. */
    const struct agent_feature_state *(*features)(void *self);
    /** Drops entries of cgroups that are gone and whose time was booked. */
    void (*forget)(void *self, const uint64_t *keys, size_t n);
    /** NULL-safe, nulls. */
    void (*close)(void **self);
};

/** Whether a feature is counted. */
bool agent_accounting_counts(const struct agent_accounting_ops *ops, void *self,
                             enum agent_feature feature);

/** Time on CPU from the scheduler's switch event, program type with trusted pointers (Linux 5.5+).
 */
extern const struct agent_accounting_ops agent_accounting_ebpf;
/** The same program at the raw tracepoint, for kernels with BTF but without the former. */
extern const struct agent_accounting_ops agent_accounting_ebpf_raw;
/**
 * cpu.stat (v2) or cpuacct.usage (v1) of one hierarchy. These files know no packages: with more
 * than one, time is split in proportion to how busy the packages were in the interval.
 */
extern const struct agent_accounting_ops agent_accounting_cgroup_files;

/** Backends in order of preference; ends with NULL. */
extern const struct agent_accounting_ops *const agent_accounting_backends[];
