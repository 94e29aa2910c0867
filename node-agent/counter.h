/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * Arithmetic of one energy counter, pure and the same for every meter: what a new raw reading adds
 * to the energy since the one before, and what was wrong with the window.
 */

/** State between readings. Zero-initialised: nothing read yet. */
struct agent_counter {
    bool primed;            /**< prev_* hold a reading */
    uint64_t prev_uj;       /**< raw counter of the last good reading */
    uint64_t prev_t_ns;     /**< when, CLOCK_MONOTONIC */
    uint64_t slept_ns;      /**< sleep of the machine since then, not yet judged */
    uint32_t still_windows; /**< windows in a row in which the counter did not move */
};

/** What a counter can do. */
struct agent_counter_limits {
    uint64_t modulus_uj; /**< value at which it starts again; 0: does not wrap, or unknown */
    uint64_t max_mw;     /**< more than this is not plausible; 0: unknown */
};

struct agent_counter_step {
    uint64_t delta_uj;    /**< energy of the window; 0 where it was dropped or is the baseline */
    uint64_t interval_ns; /**< since the last good reading; 0 for the baseline */
    uint32_t quality;     /**< KW_QUALITY_BITs of wrapped, reset, gap, implausible */
    bool baseline;        /**< first reading: there is no window */
};

/**
 * Takes a reading in.
 * @param slept_ns how long the machine slept since the last call (CLOCK_BOOTTIME against
 * CLOCK_MONOTONIC).
 * @param t_ns CLOCK_MONOTONIC of the reading; not after the last one: the reading is ignored (step
 * all zero).
 */
void agent_counter_take(struct agent_counter *counter, const struct agent_counter_limits *limits,
                        uint64_t counter_uj, uint64_t t_ns, uint64_t slept_ns,
                        struct agent_counter_step *ret);

/** A reading failed: the next good one covers this window too, and only the sleep is remembered. */
void agent_counter_miss(struct agent_counter *counter, uint64_t slept_ns);

/**
 * Modulus of a powercap counter: `max_energy_range_uj` plus one unit, the unit being what 32-bit
 * hardware makes of that range (61 uJ, 15 uJ, 1 J ...; at least 1 uJ). @return 0 for range 0.
 */
uint64_t agent_counter_modulus_uj(uint64_t range_uj);
