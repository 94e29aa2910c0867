/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/*
 * Real cgroups with real processes for a test: directories of its own below the root of the v2 or
 * the v1 cpuacct hierarchy, named after the test's process. Failures of the rig itself fail the
 * test.
 */

struct kwt_cgroup {
    char dir[PATH_MAX];
    char path[NAME_MAX + 2]; /**< below the mount */
    bool v1;
    uint64_t key; /**< as in node-agent/accounting.h */
};

/** Whether cgroups can be made in this hierarchy (root, mounted, writable). */
bool kwt_cgroup_possible(bool v1);

/** Ends the process with 77 and a SKIP line where neither hierarchy takes new cgroups. */
void kwt_cgroup_need(void);

void kwt_cgroup_make(struct kwt_cgroup *cgroup, bool v1, const char *name);

/** The same below another one. */
void kwt_cgroup_make_below(struct kwt_cgroup *cgroup, const struct kwt_cgroup *parent,
                           const char *name);

/** The root of the hierarchy: to enter, not to remove. */
void kwt_cgroup_root(struct kwt_cgroup *cgroup, bool v1);

/** Removes the directory; waits for processes that are on their way out. */
void kwt_cgroup_remove(struct kwt_cgroup *cgroup);

/** Puts the calling process there. @return 0 or -errno. */
int kwt_cgroup_enter(const struct kwt_cgroup *cgroup);

/**
 * fork() of a process that has one thread and holds no locks, into the cgroup. The child is born
 * there where the kernel can do that (v2, Linux 5.7): it never moves, so the kernel's books have no
 * time of another cgroup's. Elsewhere it enters, and ends with 1 where it cannot.
 * @param ret_born whether it was born there; on return in the parent.
 */
pid_t kwt_cgroup_fork(const struct kwt_cgroup *cgroup, bool *ret_born);

/** Puts a process there, or fails the test. */
void kwt_cgroup_put(const struct kwt_cgroup *cgroup, pid_t pid);

/** CPU time by the cgroup's own file. */
uint64_t kwt_cgroup_usage_ns(const struct kwt_cgroup *cgroup);

/** Starts a process that enters the cgroup (NULL: stays), uses so much CPU time there and exits;
 * UINT64_MAX: until it is killed. */
pid_t kwt_spin(const struct kwt_cgroup *cgroup, uint64_t cpu_ns);

/** Waits for a child. */
void kwt_reap(pid_t pid);

/** SIGKILL, then waits. */
void kwt_kill(pid_t pid);
