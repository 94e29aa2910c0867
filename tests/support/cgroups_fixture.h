/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "node-agent/cgroups.h"
#include "tests/support/tree.h"

/* A table of cgroups over a folder that plays /sys and /proc. */

struct kwt_cgroups {
    struct kwt_tree tree;
    char sys[128], proc[128];
    struct agent_cgroups *cgroups;
};

/** /proc/self/mountinfo of a v2 host, and of one with v1 controllers beside it. */
extern const char kwt_mountinfo_v2[], kwt_mountinfo_hybrid[];

void kwt_cgroups_make(struct kwt_cgroups *fixture, const char *mountinfo);
void kwt_cgroups_open(struct kwt_cgroups *fixture, const char *cgroup_root);
void kwt_cgroups_remove(struct kwt_cgroups *fixture);

/** A directory below sys/fs/cgroup. */
void kwt_cgroups_mkdir(const struct kwt_cgroups *fixture, const char *path);
void kwt_cgroups_delete(const struct kwt_cgroups *fixture, const char *path);

/** Its inode number. */
uint64_t kwt_cgroups_key(const struct kwt_cgroups *fixture, const char *path);

/** Takes the changes in. */
void kwt_cgroups_update(const struct kwt_cgroups *fixture);

/** Entries of the table, and those of them that are there. */
size_t kwt_cgroups_count(const struct agent_cgroups *cgroups, size_t *ret_there);
