/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "node-agent/cgroup_mounts.h"
#include "node-agent/ledger.h"

/*
 * What the machine itself knows of workloads that are no pods: names and images of containers, by
 * the files of their engines, and machines, by the command line of QEMU. Looked up by a thread of
 * its own: a slow disk never delays a sample, and what it finds comes late at worst.
 */

struct agent_lookup;

/** Texts are borrowed for the life of the lookup; the mounts are copied. */
struct agent_lookup_conf {
    const struct agent_cgroup_mounts *mounts;
    const char *procfs_root;
    const char *host_root; /**< as for agent_engine_find; "": engines' files are not read */
};

/** @return 0 or -errno with the cause. */
int agent_lookup_start(const struct agent_lookup_conf *conf, struct agent_lookup **ret,
                       struct kw_err *err);

/**
 * Gives workloads what was found since the last call, and asks for what may be known by now: of a
 * new cgroup at once, then after 1, 2, 4, ... s, and every few minutes for good, since a name may
 * change and a machine may come late. Never waits. On the sampling thread; allocates only where
 * something is asked or new.
 */
void agent_lookup_name(struct agent_lookup *lookup, struct agent_workload *const *workloads,
                       size_t n, uint64_t now_ns);

/** Ends the thread, frees. NULL-safe; nulls. */
void agent_lookup_stop(struct agent_lookup **lookup);
