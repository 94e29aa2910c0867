/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "common/err.h"

/*
 * A node's power cap as limits of its CPU packages: the arithmetic, pure. Reading and writing them
 * is node-agent/limit_zones.h, keeping the former ones node-agent/limit_record.h.
 */

/** The long-term limit of one package's zone. */
struct agent_power_limit {
    char name[64];      /**< of its zone: "package-0", "package-1-die-0", "package-0-mmio" */
    uint64_t min_uw;    /**< 0: none is stated */
    uint64_t max_uw;    /**< 0: none is stated */
    uint64_t former_uw; /**< before any agent had a cap; 0: none */
    uint64_t wanted_uw; /**< what is to be set */
    uint64_t set_uw;    /**< what it became: the driver rounds, a firmware may clamp */
};

/**
 * Divides a cap among packages in proportion to their maxima (the former limit where no maximum is
 * stated), rounded down, so that the sum is never above the cap. A package whose former limit is
 * lower than its part keeps that: a cap never raises a limit.
 * @param limits `n` of them, n > 0, with name, min, max and former; gets wanted_uw of each, on
 *        success only.
 * @return 0; -ENODATA neither maximum nor former limit of a package is known; -ERANGE the cap is
 *         above what the packages may draw, or a part is below its package's minimum; with the
 *         figures.
 */
int agent_power_limits_divide(uint64_t cap_uw, struct agent_power_limit *limits, size_t n,
                              struct kw_err *err);

/** What became of a limit that was written. */
enum agent_limit_outcome {
    AGENT_LIMIT_SET,     /**< as wanted, or below (rounded, or clamped to less) */
    AGENT_LIMIT_HIGHER,  /**< something made it more than was asked for */
    AGENT_LIMIT_IGNORED, /**< it is what it was before: locked */
};

/**
 * Judges by what is read back. A difference up to the coarsest unit of RAPL's power registers, a
 * watt, is rounding.
 * @param before_uw read before the limit was written.
 */
enum agent_limit_outcome agent_power_limit_judge(uint64_t before_uw, uint64_t wanted_uw,
                                                 uint64_t after_uw);
