/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#pragma once

/*
 * The key of a task's cgroup, for every program that counts by cgroup: the v2 id; on a host with a
 * v1 cpuacct hierarchy, where the v2 cgroup is the root, the v1 id with KW_SCHED_KEY_V1. Roots are
 * the system, and have two keys: one for kernel threads and one for processes.
 */
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

#include "bpf/core_fixes.bpf.h"
#include "bpf/sched.h" /* first: the helpers below need its types */

/* Set before load, constant after: the verifier removes the branches that are off. */
const volatile bool v1_enabled = false;             /* a v1 cpuacct hierarchy is mounted */
const volatile __u64 v2_root_id = KW_SCHED_ROOT_ID; /* of the tree that user space sees: in a cgroup
                                                     namespace not the kernel's root */
const volatile __u64 v1_root_id = KW_SCHED_ROOT_ID;

/* One case a subsystem: after load the number is a constant, and one case is left as plain loads.
 */
#define SUBSYS_CASE(n) \
    case n: return direct ? set->subsys[n]->cgroup->kn : BPF_CORE_READ(set, subsys[n], cgroup, kn)

static __always_inline struct kernfs_node *v1_node(struct css_set *set, const bool direct)
{
    switch (bpf_core_enum_value(enum cgroup_subsys_id, cpuacct_cgrp_id)) {
        SUBSYS_CASE(0);
        SUBSYS_CASE(1);
        SUBSYS_CASE(2);
        SUBSYS_CASE(3);
        SUBSYS_CASE(4);
        SUBSYS_CASE(5);
        SUBSYS_CASE(6);
        SUBSYS_CASE(7);
        SUBSYS_CASE(8);
        SUBSYS_CASE(9);
        SUBSYS_CASE(10);
        SUBSYS_CASE(11);
        SUBSYS_CASE(12);
        SUBSYS_CASE(13);
        SUBSYS_CASE(14);
        SUBSYS_CASE(15);
    default: return NULL;
    }
}

static __always_inline bool is_kernel(struct task_struct *task, const bool direct)
{
    return ((direct ? task->flags : BPF_CORE_READ(task, flags)) & PF_KTHREAD) != 0;
}

/* @param direct the pointers are trusted by the verifier and are followed by plain loads. */
static __always_inline __u64 key_of(struct task_struct *task, const bool direct)
{
    struct css_set *set;
    struct kernfs_node *kn;
    __u64 id;

    if ((direct ? task->pid : BPF_CORE_READ(task, pid)) == 0)
        return KW_SCHED_KEY_IDLE;
    set = direct ? task->cgroups : BPF_CORE_READ(task, cgroups);
    kn = direct ? set->dfl_cgrp->kn : BPF_CORE_READ(set, dfl_cgrp, kn);
    id = kernfs_id(kn, direct);
    if (id != KW_SCHED_ROOT_ID && id != v2_root_id)
        return id;
    if (v1_enabled && bpf_core_enum_value_exists(enum cgroup_subsys_id, cpuacct_cgrp_id)) {
        kn = v1_node(set, direct);
        id = kn != NULL ? kernfs_id(kn, direct) : KW_SCHED_ROOT_ID;
        if (id != KW_SCHED_ROOT_ID && id != v1_root_id)
            return id | KW_SCHED_KEY_V1;
    }
    return is_kernel(task, direct) ? KW_SCHED_KEY_KERNEL : KW_SCHED_KEY_SYSTEM;
}
