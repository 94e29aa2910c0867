/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vpa-recommender/histogram.h"

/*
 * Memory is sized by peaks: of each container instance the largest use within a day enters the
 * histogram as one sample, stamped with the end of that day's window (VPA
 * pkg/recommender/model/container.go).
 */

/** One peak per instance and window. */
#define REC_MEMORY_WINDOW_MS INT64_C(86400000)

/** State of one container instance. Zero-initialise. */
struct rec_memory_peaks {
    bool started;
    int64_t window_end_ms; /**< unix ms, not inclusive */
    int64_t last_ms;       /**< time of the newest sample */
    uint64_t usage_bytes;  /**< largest use in the window; 0: none yet */
    uint64_t
        oom_bytes; /**< largest need guessed from an out-of-memory kill in the window; 0: none */
};

/**
 * Enters a use into its window; a larger one takes the place of the window's former peak.
 * @param histogram of the container's aggregate. @param bytes 0 is no measurement and ignored.
 * @return false where the sample is older than the newest one, and ignored.
 */
bool rec_memory_peaks_add(struct rec_memory_peaks *peaks, struct rec_histogram *histogram,
                          uint64_t bytes, int64_t t_ms);

/**
 * Enters an out-of-memory kill: the need is taken as the larger of 100 MiB more and 20 % more than
 * the larger of the request and the window's peak use. A need guessed from an earlier kill is left
 * out, so that kills in a row do not compound.
 * @param request_bytes memory request of the killed instance; 0: none.
 * @return false where the kill is older than the newest sample by more than a window, and ignored.
 */
bool rec_memory_peaks_oom(struct rec_memory_peaks *peaks, struct rec_histogram *histogram,
                          uint64_t request_bytes, int64_t t_ms);
