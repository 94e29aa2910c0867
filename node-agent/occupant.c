/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A process is looked at by its number while it is in the cgroup, and the number means nothing
 * afterwards: what was read of one counts only if the cgroup still holds that number, since it may
 * have been another's by then.
 *
 * Most cgroups hold something else, and the first process that is no QEMU ends the look.
 */
#include "node-agent/occupant.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/file.h"

/* libvirt's command lines have some 10 KiB. */
#define CMDLINE_MAX 65536

/* A machine's cgroup has a handful of others below it, as libvirt's vcpu0, vcpu1, ... */
#define FOLDERS_MAX 1024
#define DEPTH_MAX   8
/* Helpers and kernel threads are few. */
#define LOOKS_MAX   256

struct look {
    const struct agent_cgroup_mounts *mounts;
    const char *procfs_root;
    enum agent_hierarchy hierarchy;
    struct agent_pids *pids;
    struct agent_qemu *qemu;
    pid_t pid; /* of the machine; 0: none yet */
    unsigned folders, looks;
    bool any; /* process of a user */
    char cmdline[CMDLINE_MAX];
};

static bool holds(struct look *look, const char *path, pid_t pid)
{
    if (agent_cgroup_procs_read(look->mounts, look->hierarchy, path, look->pids) < 0)
        return false;
    for (size_t i = 0; i < look->pids->n; i++) {
        if (look->pids->ids[i] == pid)
            return true;
    }
    return false;
}

/** @return 1 it is QEMU; 0 it counts for nothing; -EEXIST something else runs here. */
static int look_at(struct look *look, pid_t pid)
{
    char path[4096];

    if (look->looks++ >= LOOKS_MAX || snprintf(path, sizeof(path), "%s/%d/cmdline",
                                               look->procfs_root, (int)pid) >= (int)sizeof(path))
        return -EEXIST;
    ssize_t n = kw_file_read_at(AT_FDCWD, path, look->cmdline, sizeof(look->cmdline));
    if (n == -EFBIG)
        n = sizeof(look->cmdline) - 1;
    if (n <= 0) /* it ended, or it is the kernel's */
        return 0;
    look->any = true;
    if (agent_qemu_helper(look->cmdline, (size_t)n))
        return 0;
    if (agent_qemu_from_cmdline(look->cmdline, (size_t)n, look->qemu))
        return look->pid == 0 || look->pid == pid ? 1 : -EEXIST;
    return -EEXIST;
}

static int look_into(struct look *look, const char *path)
{
    pid_t found = 0;
    int rc = agent_cgroup_procs_read(look->mounts, look->hierarchy, path, look->pids);

    if (rc == -EOPNOTSUPP) /* a threaded cgroup: its processes are in the one above */
        return 0;
    for (size_t i = 0; rc >= 0 && i < look->pids->n; i++) {
        rc = look_at(look, look->pids->ids[i]);
        if (rc == 1)
            found = look->pid = look->pids->ids[i];
    }
    if (rc < 0)
        return rc;
    if (found != 0 && !holds(look, path, found))
        return -EEXIST;
    return 0;
}

/** The cgroup and what is below it. @return 0; -EEXIST; -errno. */
// NOLINTNEXTLINE(misc-no-recursion): as deep as DEPTH_MAX
static int walk(struct look *look, const char *path, unsigned depth)
{
    char folder[PATH_MAX];
    int rc = look_into(look, path);

    if (rc < 0 || depth >= DEPTH_MAX)
        return rc;
    if (snprintf(folder, sizeof(folder), "%s%s", look->mounts->paths[look->hierarchy], path) >=
        (int)sizeof(folder))
        return -ENAMETOOLONG;
    DIR *dir = opendir(folder);
    if (dir == NULL)
        return -errno;
    for (struct dirent *entry; rc >= 0 && (entry = readdir(dir)) != NULL;) {
        if ((entry->d_type != DT_DIR && entry->d_type != DT_UNKNOWN) || entry->d_name[0] == '.')
            continue;
        char below[PATH_MAX];
        if (look->folders++ >= FOLDERS_MAX ||
            snprintf(below, sizeof(below), "%s/%s", path, entry->d_name) >= (int)sizeof(below))
            rc = -EEXIST;
        else
            rc = walk(look, below, depth + 1);
        if (rc == -ENOENT || rc == -ENOTDIR) /* gone meanwhile */
            rc = 0;
    }
    (void)closedir(dir);
    return rc;
}

int agent_occupant_read(const struct agent_cgroup_mounts *mounts, const char *procfs_root,
                        const char *path, struct agent_pids *pids, struct agent_qemu *ret)
{
    struct agent_qemu qemu = {0};

    for (int h = AGENT_HIERARCHY_V2; h <= AGENT_HIERARCHY_CPUACCT; h++) {
        struct look look = {.mounts = mounts,
                            .procfs_root = procfs_root,
                            .hierarchy = (enum agent_hierarchy)h,
                            .pids = pids,
                            .qemu = &qemu};
        if (mounts->paths[h][0] == '\0')
            continue;
        int rc = walk(&look, path, 0);
        if (rc == -EEXIST)
            return 0;
        if (rc < 0 && rc != -ENOENT)
            return rc;
        if (look.pid != 0) {
            *ret = qemu;
            return 1;
        }
        if (look.any)
            return 0;
    }
    return 0;
}
