/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "node-agent/cgroup_mounts.h"

/** Processes of a cgroup, for as long as they are there: a list, never a key. */
struct agent_pids {
    size_t n, cap;
    pid_t *ids;
    char *text; /**< of the file, kept between readings */
    size_t text_cap;
};

/** More than a kernel gives out by default. */
#define AGENT_PIDS_MAX 65536

/** Frees the memory, leaves it empty. */
void agent_pids_free(struct agent_pids *pids);

/**
 * Reads numbers, one a line (pure). What is no number is passed over, and so is 0: a process that
 * this one's namespace does not show.
 * @return how many were hidden that way; -ENOMEM.
 */
int agent_pids_parse(const char *text, size_t len, struct agent_pids *ret);

/** Whether a procfs is of another PID namespace than this process: the numbers that cgroups show
 * here are not those of its folders. */
bool agent_procfs_is_foreign(const char *procfs_root);

/**
 * Lists the processes right in a cgroup, children not included. Memory is kept between calls.
 * @param path below the hierarchy's mount. @param ret set to what there is.
 * @return 0; -EACCES where there are processes, but of a namespace that this one does not see;
 * -ENOENT no such cgroup; -errno.
 */
int agent_cgroup_procs_read(const struct agent_cgroup_mounts *mounts,
                            enum agent_hierarchy hierarchy, const char *path,
                            struct agent_pids *ret);
