/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/err.h"
#include "node-agent/topology.h"

/*
 * Power meters behind one table of functions. A meter lists energy domains and reads raw counters;
 * the arithmetic (wrap, reset, gap, plausibility) is node-agent/counter.h, pure and the same for
 * all.
 */

enum agent_domain_kind {
    AGENT_DOMAIN_CPU,      /**< one package */
    AGENT_DOMAIN_DRAM,     /**< memory of one package */
    AGENT_DOMAIN_PLATFORM, /**< whole machine; published beside, never added */
    AGENT_DOMAIN__MAX
};

struct agent_domain {
    enum agent_domain_kind kind;
    unsigned package;    /**< dense package number; topology's where it knows the package, else from
                            n_packages on */
    uint32_t package_id; /**< physical package id, as the source states it */
    char name[64];       /**< as the source calls it: "package-0", "dram" */
    char path[256];      /**< where it is read, for Kepler's `path` label; its end where too long */
    uint64_t range_uj;   /**< counter modulus; 0: does not wrap */
    uint64_t max_mw;     /**< ceiling for plausibility; 0: unknown */
};

/** One raw reading of a domain. */
struct agent_reading {
    int error; /**< 0; -errno: this domain could not be read this time */
    uint64_t counter_uj;
    uint64_t t_ns; /**< CLOCK_MONOTONIC of the reading */
};

struct agent_meter_conf {
    const struct agent_topology *topology;
    const char *sysfs_root;
    uint64_t idle_mw, full_mw; /**< for the model; 0: class prior of this CPU */
};

/** What a model needs to estimate; a real meter ignores it. */
struct agent_meter_load {
    uint64_t interval_ns;
    const uint64_t *busy_ns; /**< per dense package, CPU time of the window, all of the node */
};

struct agent_meter_ops {
    const char *name; /**< "powercap", "model": the `meter` of a sample */
    bool estimated;
    /** @return 0; -ENODEV, -EACCES ... with the cause and the remedy in `err`. */
    int (*open)(const struct agent_meter_conf *conf, void **ret, struct kw_err *err);
    /** Domains in a fixed order until the next call of `rescan`. @return their number. */
    size_t (*domains)(const void *self, const struct agent_domain **ret);
    /** Reads all domains. @param load NULL at the first reading. @param ret as many as domains().
     * @return 0; -errno where nothing could be read. */
    int (*read)(void *self, const struct agent_meter_load *load, struct agent_reading *ret);
    /** Looks for zones that came or went. @return true where domains() changed. NULL: nothing can
     * change. */
    bool (*rescan)(void *self);
    void (*close)(void **self);
};

extern const struct agent_meter_ops agent_meter_powercap;
extern const struct agent_meter_ops agent_meter_model;

/** Meters in order of preference; ends with NULL. The last one always opens. */
extern const struct agent_meter_ops *const agent_meters[];
