/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * CPU time per leaf cgroup and CPU.
 *
 * Problem: energy is shared out by who ran, so every on-CPU nanosecond must be counted, also those
 * of processes that live a millisecond, at a cost that nobody notices on a machine with 20 000
 * context switches a second and CPU.
 *
 * Approach: the scheduler's own switch event. Each CPU has a slot {key, since}; the switch computes
 * the key of the task that comes in, and only where it differs from the slot's is the slice closed:
 * one clock read, one hash look-up, one addition. Threads of one container that follow each other
 * cost four loads. Idle has a key of its own that is never in the map.
 *
 * Invariants: at any moment on-CPU time since attach = map + open slices; `flush`, which user space
 * runs on each busy CPU before it reads, closes the open ones. A slot is touched only by its own
 * CPU with preemption off (sched_switch runs under the run queue lock, flush in an IPI or with
 * preemption off), so no atomics are needed. A cgroup for which the map has no room counts into a
 * key that is there from the start: nothing is lost. A CPU that goes offline leaves in its idle
 * task, so that its offline time is idle time.
 *
 * Key: the v2 cgroup id. On a host with a v1 cpuacct hierarchy, where the v2 cgroup is the
 * root, the v1 id with KW_SCHED_KEY_V1. Roots are the system; kernel threads are found there
 * unless somebody put them into a cgroup, as KVM does with its vhost workers: these belong to the
 * machine they work for. A task that moves itself to another cgroup (a shell that writes its pid, a
 * runtime's init) is charged there at once; one that is moved while it runs on another CPU, from
 * the next flush, or switch to another cgroup, on.
 *
 * Time is bpf_ktime_get_ns (CLOCK_MONOTONIC): it stands still while the machine sleeps.
 */
#include "bpf/sched.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <linux/bpf.h>
#include <linux/types.h>
#include <stdbool.h>

#include "bpf/core_fixes.bpf.h"

/* Set before load, constant after: the verifier removes the branches that are off. */
const volatile bool v1_enabled = false;             /* a v1 cpuacct hierarchy is mounted */
const volatile __u64 v2_root_id = KW_SCHED_ROOT_ID; /* of the tree that user space sees: in a cgroup
                                                     namespace not the kernel's root */
const volatile __u64 v1_root_id = KW_SCHED_ROOT_ID;

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct kw_sched_slot);
} slots SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_HASH);
    __uint(max_entries, 4096); /* set from the machine before load */
    __type(key, __u64);
    __type(value, struct kw_sched_value);
} usage SEC(".maps");

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
        if (kn == NULL)
            return KW_SCHED_KEY_SYSTEM;
        id = kernfs_id(kn, direct);
        if (id != KW_SCHED_ROOT_ID && id != v1_root_id)
            return id | KW_SCHED_KEY_V1;
    }
    return KW_SCHED_KEY_SYSTEM;
}

static __always_inline void charge(__u64 key, __u64 ns)
{
    struct kw_sched_value *value = bpf_map_lookup_elem(&usage, &key);

    if (value == NULL) {
        struct kw_sched_value fresh = {};
        __u64 overflow = KW_SCHED_KEY_OVERFLOW;
        /* another CPU may have been first, or the map is full: the second look-up tells */
        (void)bpf_map_update_elem(&usage, &key, &fresh, BPF_NOEXIST);
        value = bpf_map_lookup_elem(&usage, &key);
        if (value == NULL)
            value = bpf_map_lookup_elem(&usage, &overflow);
        if (value == NULL)
            return; /* not reached: user space puts the overflow key in before it attaches */
    }
    value->on_cpu_ns += ns;
}

static __always_inline void enter(__u64 key, const bool always)
{
    __u32 zero = 0;
    struct kw_sched_slot *slot = bpf_map_lookup_elem(&slots, &zero);
    __u64 now, last, since;

    if (slot == NULL || (!always && slot->key == key))
        return;
    now = bpf_ktime_get_ns();
    last = slot->key;
    since = slot->since_ns;
    /* first the new slice, then the old one's time: `moved` runs with interrupts on, and a flush
     * that comes in between must not find the old slice open and charge it again */
    slot->key = key;
    slot->since_ns = now;
    if (last != KW_SCHED_KEY_IDLE && now > since)
        charge(last, now - since);
}

/* Arguments of sched_switch: preempt, prev, next; later kernels append to them. */
#define PREV_TASK 1
#define NEXT_TASK 2

SEC("tp_btf/sched_switch")
int switch_btf(__u64 *ctx)
{
    struct task_struct *prev = (void *)ctx[PREV_TASK];
    struct task_struct *next = (void *)ctx[NEXT_TASK];

    /* Threads of one container that follow each other: nothing to do, and nothing else to look at.
     * Idle tasks share the set of the root, but are not the system. */
    if (prev->cgroups == next->cgroups && prev->pid != 0 && next->pid != 0)
        return 0;
    enter(key_of(next, true), false);
    return 0;
}

/* For kernels that have BTF but no trusted pointers at tracepoints. */
SEC("raw_tp/sched_switch")
int switch_raw(__u64 *ctx)
{
    struct task_struct *next = (void *)ctx[NEXT_TASK];

    enter(key_of(next, false), false);
    return 0;
}

/* A task that joins a cgroup and goes on running may not be switched for seconds. Runs after the
 * move, in the task that asked for it; attached where the kernel has the tracepoint. */
SEC("raw_tp/cgroup_attach_task")
int moved(void *ctx __attribute__((unused)))
{
    struct task_struct *current = (void *)bpf_get_current_task();

    enter(key_of(current, false), false);
    return 0;
}

/* Closes the slice that runs on this CPU; also takes note of a task that was there before we were.
 */
SEC("raw_tp")
int flush(void *ctx __attribute__((unused)))
{
    struct task_struct *current = (void *)bpf_get_current_task();

    enter(key_of(current, false), true);
    return 0;
}

char LICENSE[] SEC("license") = "Dual BSD/GPL";
