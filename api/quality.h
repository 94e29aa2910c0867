/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/*
 * What was wrong, or less than measured, in the window behind a sample. Bits travel as an array of
 * names, so that a reader of another version keeps what it knows.
 */
enum kw_quality {
    KW_QUALITY_WRAPPED, /**< a counter wrapped and was carried on: no energy lost */
    KW_QUALITY_RESET, /**< a counter went back without a plausible wrap: its window has no energy */
    KW_QUALITY_GAP,   /**< the window was much too long (a second wrap cannot be excluded, the agent
                         was stopped), or the machine slept */
    KW_QUALITY_MULTIPLEXED, /**< hardware counters shared a PMU and were scaled */
    KW_QUALITY_ESTIMATED,   /**< energy comes from a model, no meter */
    KW_QUALITY_STALE,       /**< a value older than its window was used */
    KW_QUALITY_FROZEN,      /**< a counter stood still beside a moving one, or a package for 10 s */
    KW_QUALITY_IMPLAUSIBLE, /**< a delta above what the machine can draw was dropped */
    KW_QUALITY_NO_COUNTERS, /**< no hardware counters: time features only */
    KW_QUALITY_OVERFLOW,   /**< a BPF map was full: some workloads share one overflow entry, or some
                              of their requests are nobody's */
    KW_QUALITY_INTEGRATED, /**< energy was summed up from power readings: there is no counter */
    KW_QUALITY_INCOMPLETE, /**< there are more domains than can be held: some are not counted */
    KW_QUALITY_DOUBTFUL,   /**< meters contradict each other: one of them is wrong */
    KW_QUALITY__MAX
};

/** "wrapped", "reset", ... index is enum kw_quality. */
extern const char *const kw_quality_names[KW_QUALITY__MAX];

#define KW_QUALITY_BIT(q) (UINT32_C(1) << (q))
