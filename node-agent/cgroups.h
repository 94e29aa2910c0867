/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "node-agent/cgroup_mounts.h"
#include "node-agent/identity.h"

/*
 * The cgroup trees of this machine as a table key -> directory, kept current by inotify (no walk
 * per sample). A directory that is gone stays until agent_cgroups_forget: its last CPU time may
 * still be on the way.
 */

struct agent_cgroups;

struct agent_cgroup {
    uint64_t key;     /**< as in node-agent/accounting.h */
    const char *path; /**< below its hierarchy's mount, "/kubepods/burstable/pod.../..."; the
                         kernel's bytes as they are */
    bool system; /**< no workload (a slice, "kubepods"): `identity` is empty, time found there is
                    the system's */
    struct agent_identity
        identity; /**< of the path below cgroup_root; workload_path is below the mount, as `path` */
    uint64_t gone_ns; /**< CLOCK_MONOTONIC when its directory was seen gone; 0: there */
};

struct agent_cgroups_conf {
    const char *sysfs_root;
    const char *procfs_root;
    const char
        *cgroup_root; /**< only below this path ("/" for all): nested nodes, as kind makes them */
};

/** Finds the hierarchies (v2, v1 cpuacct, hybrid), scans them, starts watching. @return 0; -ENOENT
 * no cgroup file system; -errno. */
int agent_cgroups_new(const struct agent_cgroups_conf *conf, struct agent_cgroups **ret,
                      struct kw_err *err);
void agent_cgroups_free(struct agent_cgroups **cgroups);

/** Descriptor that is readable when agent_cgroups_update has something to do. Where the system's
 * inotify limits are exhausted it never is: call agent_cgroups_update before each reading as well.
 */
int agent_cgroups_fd(const struct agent_cgroups *cgroups);

/**
 * Takes in what changed since the last call; never blocks. A lost event (queue overflow) makes it
 * scan again; where directories could not be watched (inotify limits), it scans at most once a
 * second.
 * @param now_ns CLOCK_MONOTONIC. @return 0 or -errno.
 */
int agent_cgroups_update(struct agent_cgroups *cgroups, uint64_t now_ns);

/** @return the cgroup of a key; NULL for AGENT_KEY_SYSTEM, AGENT_KEY_OVERFLOW and a directory never
 * seen. Valid until the next call on `cgroups`. */
const struct agent_cgroup *agent_cgroups_find(const struct agent_cgroups *cgroups, uint64_t key);

/** Drops a gone cgroup; one that is there stays. */
void agent_cgroups_forget(struct agent_cgroups *cgroups, uint64_t key);

/** Grows whenever a cgroup comes, goes or is dropped. */
uint64_t agent_cgroups_changes(const struct agent_cgroups *cgroups);

/** Calls fn for each cgroup of the table, gone ones included. fn must not change the table. */
void agent_cgroups_each(const struct agent_cgroups *cgroups,
                        void (*fn)(void *user, const struct agent_cgroup *cgroup), void *user);

/** Working set of a cgroup by its path: usage without inactive file cache, v2 memory.current or the
 * v1 memory controller of the same path. @return 0; -ENOENT where no memory controller has that
 * path. */
int agent_cgroups_memory_bytes(struct agent_cgroups *cgroups, const char *path, uint64_t *ret);

/** Where the hierarchies are. */
const struct agent_cgroup_mounts *agent_cgroups_mounts(const struct agent_cgroups *cgroups);

/** "v2", "v1" or "hybrid". */
const char *agent_cgroups_layout(const struct agent_cgroups *cgroups);

/** Whether every directory is watched; false: inotify limits are exhausted
 * (fs.inotify.max_user_watches, max_user_instances) and the tree is scanned instead. */
bool agent_cgroups_watched(const struct agent_cgroups *cgroups);
