/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/buf.h"
#include "common/err.h"
#include "node-agent/meter.h"

/*
 * The meters in use: chooses one for the CPU packages (the first that opens, or the one asked for),
 * reads it, and gives the energy of a window per package and kind; beside it, the power of the
 * whole machine from whatever shows it. Follows zones that come and go, and, where the choice is
 * free, changes to a better meter that appears and to the next one where the present one vanishes
 * or no longer counts.
 */

/** Energy slots: CPU and DRAM of each package; the number of a slot is the `domain` of an
 * attribution window. */
#define AGENT_SLOTS_MAX (2 * AGENT_PACKAGES_MAX)

/** Slot of a kind (CPU or DRAM) of a dense package. */
static inline unsigned agent_slot(unsigned package, enum agent_domain_kind kind)
{
    return 2 * package + (kind == AGENT_DOMAIN_DRAM ? 1 : 0);
}

/** Energy of one slot in one window. Several zones (dies) may feed it. */
struct agent_slot_window {
    bool metered; /**< has a counter now; what cannot be read has delta 0 */
    uint64_t delta_uj;
    uint64_t interval_ns; /**< time the delta covers; 0: none (baseline or unreadable) */
    uint32_t package_id;  /**< physical */
    const struct agent_domain *domain; /**< one that feeds it; valid until the next read */
};

struct agent_metering_window {
    struct agent_slot_window slots[AGENT_SLOTS_MAX];
    unsigned n_packages; /**< highest dense package with a slot + 1 */
    uint32_t quality;    /**< KW_QUALITY_BITs */
    bool has_platform;
    uint64_t platform_mw;
    uint64_t platform_t_ns; /**< CLOCK_MONOTONIC of the reading behind it */
    const char *platform_source;
    size_t left_out; /**< domains the machine shows and there is no room for */
    bool changed;    /**< another meter than at the last read */
};

/** Why a meter is not in use, or what a platform meter reads. */
struct agent_meter_reason {
    const char *meter;
    bool used;
    char text[320];
};

struct agent_metering;

/**
 * @param meter name of the meter to use; NULL: the best that opens.
 * @return 0; -EINVAL unknown meter; the error of the meter asked for, with cause and remedy.
 */
int agent_metering_new(const char *meter, const struct agent_meter_conf *conf,
                       struct agent_metering **ret, struct kw_err *err);
void agent_metering_free(struct agent_metering **metering);

/** The meter in use. */
const struct agent_meter_ops *agent_metering_ops(const struct agent_metering *metering);

/** All meters in order of preference, then those of the platform: in use, or why not, as of the
 * start or the last change. @return their number. */
size_t agent_metering_reasons(const struct agent_metering *metering,
                              const struct agent_meter_reason **ret);

/** The same as one line: "perf: no power PMU ... | powercap: in use, 3 domains | ...". */
void agent_metering_explain(const struct agent_metering *metering, struct kw_buf *out);

/**
 * Reads the meter. Allocates only when zones change.
 * @param load NULL at the first reading, which is the baseline.
 * @param now_ns CLOCK_MONOTONIC; @param slept_ns sleep of the machine since the last call.
 * @return 0; -errno where nothing could be read (the window then has no energy and says stale).
 */
int agent_metering_read(struct agent_metering *metering, const struct agent_meter_load *load,
                        uint64_t now_ns, uint64_t slept_ns, struct agent_metering_window *ret);
