/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "common/err.h"
#include "node-agent/meter.h"

/*
 * What the kernel says of its `power` PMU below /sys/bus/event_source/devices, and the system calls
 * that read it.
 */

/** An event and what one count of it is: num/den microjoules, exactly. */
struct agent_perf_event {
    enum agent_domain_kind kind;
    const char *name; /**< "energy-pkg" */
    uint64_t config;
    uint64_t num, den;
};

#define AGENT_PERF_EVENTS 3

struct agent_perf_pmu {
    uint32_t type;
    size_t n_events; /**< packages first */
    struct agent_perf_event events[AGENT_PERF_EVENTS];
};

/** System calls; a test has its own. */
struct agent_perf_port {
    void *user;
    /** Counts an event on one CPU, everything that runs there. @return descriptor or -errno. */
    int (*open)(void *user, uint32_t type, uint64_t config, unsigned cpu);
    /** Reads three numbers: count, time enabled and time running in ns. @return bytes or -errno; 0
     * where the event is dead. */
    ssize_t (*read)(void *user, int fd, uint64_t ret[3]);
};

extern const struct agent_perf_port agent_perf_kernel;

/**
 * Reads a decimal number times a unit of one joule ("2.3283064365386962890625e-10") as a fraction
 * of microjoules in lowest terms. Pure, exact.
 * @return 0; -EBADMSG no such number; -ERANGE zero, or a fraction that does not fit (num below
 * 2^63, den at most 2^64-1); untouched then.
 */
int agent_perf_scale_parse(const char *text, size_t len, uint64_t *ret_num, uint64_t *ret_den);

/** Reads "event=0x02". Pure. @return 0; -EBADMSG any other term. */
int agent_perf_config_parse(const char *text, size_t len, uint64_t *ret);

/**
 * @return 0; -ENOENT no such PMU; -ENODATA none of its events is known; -EBADMSG, -ERANGE with the
 * file in `err`.
 */
int agent_perf_pmu_read(const char *sysfs_root, struct agent_perf_pmu *ret, struct kw_err *err);
