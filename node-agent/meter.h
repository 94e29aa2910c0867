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
    AGENT_DOMAIN_CPU,      /**< one package, or a part of it that adds up */
    AGENT_DOMAIN_DRAM,     /**< memory of one package */
    AGENT_DOMAIN_PLATFORM, /**< whole machine; published beside, never added */
    AGENT_DOMAIN_GPU,      /**< one accelerator; beside the packages, in no slot of theirs */
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
    bool integrated;     /**< the counter is a sum over power readings */
};

/** One raw reading of a domain. */
struct agent_reading {
    int error; /**< 0; -errno: this domain could not be read this time */
    uint64_t counter_uj;
    uint64_t t_ns;   /**< CLOCK_MONOTONIC of the reading */
    uint32_t series; /**< another number than before: the counter does not go on from where it was,
                        and nothing is known of the time between */
};

struct kw_power_model;
struct agent_counts;
struct agent_perf_port;
struct agent_msr_port;
struct agent_meter_ops;

struct agent_meter_conf {
    const struct agent_topology *topology;
    const char *sysfs_root;
    const char *dev_root;               /**< NULL: "/dev" */
    uint64_t idle_mw, full_mw;          /**< for the model; 0: class prior of this CPU */
    const struct kw_power_model *model; /**< from a file, for the model; NULL: none; outlives it */
    const struct agent_perf_port *perf; /**< hardware that is reached by system calls; NULL: this */
    const struct agent_msr_port *msr;   /**< machine's */
    const struct agent_meter_ops *const *meters;    /**< NULL: agent_meters */
    const struct agent_meter_ops *const *platforms; /**< NULL: agent_platform_meters */
};

/** What a model needs to estimate; a real meter ignores it. */
struct agent_meter_load {
    uint64_t interval_ns;
    const uint64_t *busy_ns; /**< per dense package, CPU time of the window, all of the node */
    const struct agent_counts *counts; /**< the same for what else is counted; NULL: nothing is */
};

struct agent_meter_ops {
    const char *name; /**< "powercap", "model": the `meter` of a sample; a platform meter's is the
                         `source` of platform power */
    bool estimated;
    bool on_request;    /**< used only where it is asked for by name */
    uint64_t period_ns; /**< 0: read with every sample. Else a reading may take long: read so often,
                           in a thread of its own, never while a sample waits; `open` must not read
                           what may block */
    /** @return 0; -ENODEV, -EACCES ... with the cause and the remedy in `err`. */
    int (*open)(const struct agent_meter_conf *conf, void **ret, struct kw_err *err);
    /** Domains in a fixed order until the next call of `rescan`. @return their number. */
    size_t (*domains)(const void *self, const struct agent_domain **ret);
    /** Reads all domains. @param load NULL at the first reading, and always where period_ns > 0.
     * @param ret as many as domains(). @return 0; -errno where nothing could be read. */
    int (*read)(void *self, const struct agent_meter_load *load, struct agent_reading *ret);
    /** Looks for zones that came or went. @return true where domains() changed. NULL: nothing can
     * change. */
    bool (*rescan)(void *self);
    /** Domains that the machine shows and there was no room for. NULL: none. */
    size_t (*left_out)(const void *self);
    void (*close)(void **self);
};

extern const struct agent_meter_ops agent_meter_perf;
extern const struct agent_meter_ops agent_meter_powercap;
extern const struct agent_meter_ops agent_meter_msr;
extern const struct agent_meter_ops agent_meter_hwmon;
extern const struct agent_meter_ops agent_meter_hwmon_power;
extern const struct agent_meter_ops agent_meter_model;
extern const struct agent_meter_ops agent_platform_acpi;

/** Meters of CPU packages in order of preference; ends with NULL. The last one always opens. */
extern const struct agent_meter_ops *const agent_meters[];

/** Meters of the whole machine in order of preference, read beside; ends with NULL. */
extern const struct agent_meter_ops *const agent_platform_meters[];
