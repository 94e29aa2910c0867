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

/* Per CPU: what runs there now and since when (CLOCK_MONOTONIC). */
struct kw_sched_slot {
    __u64 key;
    __u64 since_ns;
};

/* Per cgroup and CPU. */
struct kw_sched_value {
    __u64 on_cpu_ns;
};
