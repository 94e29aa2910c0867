/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/quality.h"
#include "node-agent/metering.h"

/*
 * What the windows since the last shown sample add up to, and what was wrong in any window of the
 * epoch. Pure.
 */

/** Energy of one slot. */
struct agent_period_slot {
    uint64_t measured_uj, idle_uj;
    uint64_t interval_ns; /**< time the energy covers */
};

struct agent_period {
    uint64_t interval_ns; /**< of all windows */
    uint64_t busy_ns;     /**< CPU time in them, as far as it is known */
    uint64_t work_ns;     /**< the same as work (agent_work_ns) */
    uint64_t known_ns;    /**< length of the windows whose CPU time is known */
    uint32_t quality;     /**< KW_QUALITY_BITs of any of the windows */
    struct agent_period_slot slots[AGENT_SLOTS_MAX];
    /* since the epoch began */
    uint32_t quality_epoch;
    uint64_t quality_windows[KW_QUALITY__MAX]; /**< windows that had the flag */
};

/** One window. */
struct agent_period_window {
    uint64_t interval_ns;
    uint64_t busy_ns;
    uint64_t work_ns;
    bool usage_known;
    uint32_t quality;
};

/** Adds a window, its slots apart. */
void agent_period_add(struct agent_period *period, const struct agent_period_window *window);

/** What was wrong in the period beside its windows: counts as one of them. @param quality
 * KW_QUALITY_BITs. */
void agent_period_flag(struct agent_period *period, uint32_t quality);

/** Starts the next period; what is counted since the epoch began goes on. */
void agent_period_next(struct agent_period *period);

/** Whether the energy of a slot is of the time of the windows: to a twentieth. A meter that is
 * silent for a window tells its energy with the next. */
bool agent_period_covers(const struct agent_period *period, size_t slot);

/** CPU use of the period. @return thousandths of a CPU; `before` where no window's is known. */
uint64_t agent_period_used_mcpu(const struct agent_period *period, uint64_t before);

/** The same of its work. */
uint64_t agent_period_work_mcpu(const struct agent_period *period, uint64_t before);

/** Mean CPU use of a time, in thousandths of a CPU; 0 where the interval is. */
uint64_t agent_period_mcpu(uint64_t busy_ns, uint64_t interval_ns);

/** Mean power of an energy; 0 where there is no time. */
uint64_t agent_period_mw(uint64_t uj, uint64_t interval_ns);
