/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "node-agent/cgroup_procs.h"
#include "node-agent/qemu_args.h"

/**
 * Looks who runs in a cgroup and in those below it: a machine, where one QEMU and nothing else of a
 * user is there (kernel threads and what serves the machine from beside do not count).
 * @param path below the hierarchies' mounts. @param pids memory to be used; the caller frees it.
 * @return 1 and *ret; 0 none; -EACCES where its processes cannot be seen from here; -errno.
 */
int agent_occupant_read(const struct agent_cgroup_mounts *mounts, const char *procfs_root,
                        const char *path, struct agent_pids *pids, struct agent_qemu *ret);
