/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "vpa-recommender/histogram.h"

/*
 * From histograms to amounts, as the stock recommender does it (pkg/recommender/logic): percentile,
 * then margin, then confidence, then floor. target P90, lower bound P50, upper bound P95, each + 15
 * % lower x (1 + 0.001 / c)^-2, upper x (1 + 1 / c), c = confidence in days
 */

/** No amount is larger; what an infinite upper bound becomes. */
#define REC_AMOUNT_MAX UINT64_C(100000000000000)

/** What is known about the use of one container over all its instances. */
struct rec_usage {
    struct rec_histogram cpu;    /**< cores */
    struct rec_histogram memory; /**< bytes; daily peaks */
    int64_t first_ms, last_ms;   /**< unix ms of the first and last CPU sample; 0: none */
    uint64_t samples;            /**< CPU samples */
};

struct rec_amounts {
    uint64_t mcpu;
    uint64_t bytes;
};

struct rec_estimate {
    struct rec_amounts target, lower, upper;
};

/** Makes it empty. */
void rec_usage_init(struct rec_usage *usage);

/** Days of history: the smaller of last - first sample and samples / 1440, so that one sample a
 * minute over a day is 1. */
double rec_confidence_days(const struct rec_usage *usage);

/** What a container gets at least: 25 m and 250 MiB, divided by the number of containers of its
 * pod. @param containers 0 counts as 1. */
struct rec_amounts rec_floor(size_t containers);

/** Target and bounds. An empty histogram estimates the floor: the caller says nothing then. */
struct rec_estimate rec_estimate(const struct rec_usage *usage, struct rec_amounts least);

/**
 * Makes bounds that may be published: an upper bound beyond the largest machine (1000 cores, 1 TB:
 * the end of the histograms) says nothing more than that, and is cut there, but never below the
 * target.
 */
void rec_estimate_publishable(struct rec_estimate *estimate);
