/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
#pragma once

#include <linux/types.h>

/* What the kernel side and the user side of the request counting share. */

/* HTTP status classes 1xx..5xx. */
#define KW_REQUESTS_CLASSES 5

/* Per cgroup (keys as in bpf/sched.h) and CPU. */
struct kw_requests_value {
    __u64 turns;
    __u64 classes[KW_REQUESTS_CLASSES]; /* with statuses on */
};

/*
 * A connection opened by a process of the node's own network into another one, as kubelet's probes
 * are, is only counted from the turn after these on, then with all its turns.
 */
#define KW_REQUESTS_PROBE_TURNS 3
