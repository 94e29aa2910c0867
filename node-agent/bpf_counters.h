/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "node-agent/accounting.h"

/*
 * Counters of one CPU for the BPF side: a group of perf events that count all that runs there. The
 * events live in the map; no file stays open.
 */

/** The PMU's cycles, instructions and misses of the last-level cache. */
extern const struct agent_counter_event agent_counter_events[AGENT_COUNTER__MAX];

/**
 * Opens the counters of a CPU and puts them into the map, in the place of what was there.
 * @param map_fd PERF_EVENT_ARRAY with KW_SCHED_COUNTERS entries a CPU number.
 * @return how many of `events`, from the first on, the machine has; -ENODEV (the CPU is offline);
 * -ENOENT (no such PMU); -EACCES; another -errno.
 */
int agent_bpf_counters_open(int map_fd, unsigned cpu, const struct agent_counter_event *events);

/** Whether some CPU of `cpus` has these counters. @param why the reason against, for an operator.
 * @return 0 or -errno. */
int agent_bpf_counters_try(const uint16_t *cpus, unsigned n,
                           const struct agent_counter_event *events, char *why, size_t why_bytes);
