/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "node-agent/topology.h"

/*
 * CPU time per leaf cgroup and package, from eBPF or, where that cannot be had, from the cgroups' own files.
 * Backends stand behind one table of functions; the choice is made once, by probing, before the loop.
 *
 * A cgroup's key is the inode number of its directory (which is the kernel's cgroup id). On hosts with v1
 * controllers a task that sits in the root of the v2 tree is keyed by its v1 cpuacct cgroup
 * instead, with AGENT_KEY_V1 set: ids of different hierarchies overlap. Root cgroups and
 * kernel threads have the key AGENT_KEY_SYSTEM. Idle time has no key.
 */
#define AGENT_KEY_SYSTEM   UINT64_C(0)
#define AGENT_KEY_OVERFLOW UINT64_MAX /* what a full map could not keep apart */
#define AGENT_KEY_V1       (UINT64_C(1) << 63)

/** One reading: cumulative CPU time since the accounting was opened. Memory is kept between readings. */
struct agent_usage {
    uint64_t t_ns; /**< CLOCK_MONOTONIC at the flush */
    size_t n, cap;
    unsigned n_packages;
    uint64_t *keys;   /**< n, unique */
    uint64_t *cpu_ns; /**< n x n_packages: row i, dense package p at [i * n_packages + p] */
    bool overflowed;  /**< AGENT_KEY_OVERFLOW holds time of cgroups that did not fit */
};

void agent_usage_free(struct agent_usage *usage);

struct agent_accounting_conf {
    const struct agent_topology *topology;
    const char *sysfs_root;  /**< where fs/cgroup is looked for */
    const char *procfs_root;
    unsigned max_cgroups;    /**< size of the map; 0: from the machine */
};

struct agent_accounting_ops {
    const char *name; /**< "ebpf", "ebpf-raw", "cgroup-files": the `accounting` of a sample */
    /** @return 0; -errno with the cause in `err` (what is missing and what would bring it). */
    int (*open)(const struct agent_accounting_conf *conf, void **ret, struct kw_err *err);
    /** Closes running slices and reads everything. Allocates only to grow. @return 0 or -errno; ret keeps its last content on error. */
    int (*read)(void *self, struct agent_usage *ret);
    /** Drops entries of cgroups that are gone and whose time was booked. */
    void (*forget)(void *self, const uint64_t *keys, size_t n);
    void (*close)(void **self);
};

/** Backends in order of preference; ends with NULL. */
extern const struct agent_accounting_ops *const agent_accounting_backends[];
