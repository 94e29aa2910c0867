/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>

/*
 * Where this machine's cgroup hierarchies are mounted: the v2 tree, and of the v1 controllers the
 * two that are read here.
 */

enum agent_hierarchy {
    AGENT_HIERARCHY_V2,
    AGENT_HIERARCHY_CPUACCT, /**< v1, alone or together with cpu */
    AGENT_HIERARCHY_MEMORY,  /**< v1 */
    AGENT_HIERARCHY__MAX
};

struct agent_cgroup_mounts {
    char paths[AGENT_HIERARCHY__MAX][PATH_MAX]; /**< "" where there is none */
};

/**
 * Finds the mounts in the text of /proc/self/mountinfo (pure).
 * @param text `len` bytes that need no terminator.
 * @param sysfs_root mount points below "/sys" are looked for below this path instead; where a mount
 * point already begins with it (a pod that has the host's /sys at /host/sys), that one is
 * preferred.
 * @param ret paths that were not found are "".
 */
void agent_cgroup_mounts_parse(const char *text, size_t len, const char *sysfs_root,
                               struct agent_cgroup_mounts *ret);

/**
 * Finds the mounts of this process; where mountinfo names none, the usual folders below
 * sysfs_root/fs/cgroup. Paths that are no readable directory are left out.
 * @return 0; -ENOENT where there is neither a v2 nor a v1 cpuacct tree; -ENOMEM.
 */
int agent_cgroup_mounts_read(const char *sysfs_root, const char *procfs_root,
                             struct agent_cgroup_mounts *ret);

/** Number of cgroups of a tree, its root included; 0 where it cannot be read, at most `limit`. */
size_t agent_cgroup_mounts_count(const char *path, size_t limit);

/** Number of cgroups below the root of a tree that hold processes. */
size_t agent_cgroup_mounts_populated(const char *path);

/** "v2", "v1" or "hybrid". */
const char *agent_cgroup_mounts_layout(const struct agent_cgroup_mounts *mounts);
