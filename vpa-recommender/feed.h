/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "vpa-recommender/estimator.h"
#include "vpa-recommender/memory_peaks.h"

/*
 * From cumulative counters to samples. An agent's record says how much CPU time a container has
 * used since its epoch began; two records of one epoch make one sample, their mean use in between.
 */

/** What a record says about one container instance. */
struct rec_reading {
    uint64_t epoch;        /**< of the agent; another one means other counters */
    int64_t t_unix_ms;     /**< end of the window that the numbers include */
    uint64_t cpu_ns;       /**< cumulative within the epoch */
    uint64_t memory_bytes; /**< 0: unknown */
};

/** What is kept of one container instance between readings. Zero-initialise. */
struct rec_instance {
    bool based; /**< the three below hold the reading that the next sample starts from */
    uint64_t epoch;
    uint64_t cpu_ns;
    int64_t t_unix_ms;
    struct rec_memory_peaks memory;
};

enum rec_feed_result {
    REC_FEED_SAMPLED, /**< a CPU sample was added */
    REC_FEED_BASED,   /**< first reading, or of a new epoch, or counters went back: a new start */
    REC_FEED_WAITING, /**< too soon after the last sample */
    REC_FEED_OLD,     /**< not newer than the last reading */
    REC_FEED_CLOCK,   /**< time far from ours: ignored */
    REC_FEED_IMPLAUSIBLE, /**< more CPU than any machine has: ignored, and a new start */
    REC_FEED__MAX
};

/** "sampled", "based", ... index is enum rec_feed_result. */
extern const char *const rec_feed_result_names[REC_FEED__MAX];

/**
 * Feeds one reading of an instance to the usage of its container.
 * A container's very first sample may span as little as a second, so that a first advice comes
 * soon; further ones span at least three quarters of the interval, which leaves room for jitter
 * between agent and loop.
 * @param interval_ms distance of CPU samples wished for; the stock confidence means 60 000.
 * @param now_unix_ms our clock: readings of more than 5 minutes ahead, or 8 days behind, are
 * refused.
 */
enum rec_feed_result rec_feed(struct rec_usage *usage, struct rec_instance *instance,
                              const struct rec_reading *reading, uint64_t interval_ms,
                              int64_t now_unix_ms);
