/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Energy out of power readings, for meters that have no counter: trapezoids over the time that was
 * measured between two readings. Pure.
 */

/** State between readings. Zero-initialised: nothing read yet. */
struct agent_integrator {
    uint64_t counter_uj; /**< only goes up */
    uint32_t series;     /**< counts gaps that were too long to bridge */
    uint64_t rest_fj;    /**< twice what is left below 1 uJ, carried to the next window */
    uint64_t prev_uw, prev_t_ns;
    bool primed; /**< prev_* hold a reading */
};

/**
 * Longest time between two readings that is bridged. Nobody knows what was drawn in between: over a
 * longer gap nothing is counted, and the next reading starts anew.
 */
#define AGENT_INTEGRATOR_GAP_NS UINT64_C(30000000000)

/** What sensors show where they have no reading: an unknown value of 32 bits in mW (4294967295000
 * uW) and anything else from 100 kW on; 0, since what is switched on draws something. */
#define AGENT_POWER_SENTINEL_UW UINT64_C(100000000000)

/**
 * Takes a reading in.
 * @param power_uw below 2^63; a sentinel is no reading.
 * @param t_ns CLOCK_MONOTONIC; not after the last one: ignored.
 * @return 0, also where the gap before it was too long to bridge: the reading is then the start of
 * a new series; -ENODATA for a sentinel.
 */
int agent_integrator_take(struct agent_integrator *integrator, uint64_t power_uw, uint64_t t_ns);
