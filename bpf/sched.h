/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#pragma once

#include <linux/types.h>

/*
 * What the kernel side and the user side of the CPU-time accounting share: keys and values of the
 * maps.
 *
 * A key of `usage` is a cgroup id (64 bit; starts at 1 for the root of a hierarchy). Ids of the v1
 * hierarchy carry KW_SCHED_KEY_V1, since the ids of two hierarchies overlap.
 */
#define KW_SCHED_KEY_IDLE     0ULL /* in a slot only, never in the map; a fresh slot is zero */
#define KW_SCHED_KEY_V1       (1ULL << 63)    /* flag */
#define KW_SCHED_KEY_SYSTEM   KW_SCHED_KEY_V1 /* the flag with id 0, which no cgroup has */
#define KW_SCHED_KEY_OVERFLOW (~0ULL)         /* time of cgroups for which the map had no room */

/* Every hierarchy's root has this id: kernfs numbers a new tree from 1. */
#define KW_SCHED_ROOT_ID 1ULL

/* Kernel threads of the root. A v1 root's own key would be this, but roots go by the one above. */
#define KW_SCHED_KEY_KERNEL (KW_SCHED_KEY_V1 | KW_SCHED_ROOT_ID)

/* Counters of one CPU, in this order; they are one group of perf events, so that the first one's
 * enabled and running times are those of all. */
#define KW_SCHED_COUNTERS 3 /* cycles, instructions, misses of the last-level cache */

/* For how long a busy CPU's run-queue clock can stand still: a tick at 100 Hz, the slowest; without
 * ticks (nohz_full) the second after which another CPU brings it up to date, and some. */
#define KW_SCHED_TICK_NS_MAX     10000000LL
#define KW_SCHED_TICKLESS_NS_MAX 1100000000LL

/* In kw_sched_slot.sibling and in the place of a CPU number: none. */
#define KW_SCHED_NO_CPU (~0U)

/* Per CPU: what runs there now and since when. Written by user space once, before the programs are
 * attached (cpu, sibling), and only read by it afterwards. */
struct kw_sched_slot {
    __u64 key;
    __u64 set;        /* whose key it is: the address of the task's css_set, as a number; 0: idle */
    __u64 since_ns;   /* by the clock in use; 0: from the start, before any event */
    __u64 ahead_ns;   /* CLOCK_MONOTONIC less the run queue's clock; 0: not known yet */
    __u64 sibling_ns; /* busy time of the SMT sibling at since_ns */
    __u64 irq_ns;     /* cumulative, of this CPU */
    __u64 irq_entry_ns;
    __u64 counters[KW_SCHED_COUNTERS]; /* as of since_ns */
    __u64 enabled_ns, running_ns;
    __u32 cpu, sibling;    /* numbers; KW_SCHED_NO_CPU: runs alone on its core */
    __u32 counting_failed; /* times that this CPU's counters could not be read: user space opens
                              them anew when it grows */
    __u8 counted;          /* `counters` are valid */
    __u8 recalibrate;      /* the next switch sets ahead_ns */
    __u8 irq_kept;         /* irq_ns is the scheduler's own, and needs no tracepoints */
    __u8 kernel;           /* `set` is a kernel thread's, whose key may be another */
};

/*
 * Per CPU: how long it has been busy, in one word, so that its SMT sibling reads it whole. Idle:
 * the time. Busy: KW_SCHED_BUSY, and the time of day at which it would have begun if it had been
 * busy ever since.
 */
#define KW_SCHED_BUSY (1ULL << 63)
struct kw_sched_core {
    __u64 busy;
    __u64 padding[7]; /* a cache line each: it changes whenever its CPU goes idle */
};

/* Per cgroup and CPU. The map holds only as much of it as is counted: see the sizes. */
struct kw_sched_value {
    __u64 on_cpu_ns;
    __u64 shared_ns; /* the part of it during which the SMT sibling was busy */
    __u64 counters[KW_SCHED_COUNTERS];
    __u64 enabled_ns, running_ns; /* of the group of counters */
};
#define KW_SCHED_VALUE_TIME   (1 * sizeof(__u64))
#define KW_SCHED_VALUE_SHARED (2 * sizeof(__u64))
#define KW_SCHED_VALUE_ALL    sizeof(struct kw_sched_value)
