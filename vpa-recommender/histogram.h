/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The decaying exponential histogram of the stock VPA recommender (kubernetes/autoscaler
 * pkg/recommender/util), reproduced exactly: same buckets, same decay, same percentiles, so that
 * advice and checkpoints are interchangeable with it.
 */

/** Both schemes below need as many: the last bucket starts at 1021 cores, or 1.021e12 bytes. */
#define REC_HISTOGRAM_BUCKETS 176

/** Half-life of a sample's weight. */
#define REC_HALF_LIFE_MS INT64_C(86400000)

/** Bucket n is [first (1.05^n - 1) / 0.05, the same for n + 1). */
struct rec_histogram_scheme {
    double first; /**< width of bucket 0, in the unit of the values */
};

extern const struct rec_histogram_scheme rec_cpu_scheme;    /**< cores; first bucket 0.01 */
extern const struct rec_histogram_scheme rec_memory_scheme; /**< bytes; first bucket 1e7 */

/** Weights are relative to reference_ms: a sample of time t weighs w 2^((t - reference) /
 * half-life). */
struct rec_histogram {
    const struct rec_histogram_scheme *scheme;
    int64_t reference_ms; /**< unix ms, a whole multiple of the half-life */
    double total;         /**< sum of all weights */
    uint32_t min, max;    /**< first and last bucket that is not empty; 175 and 0 if all are */
    double weights[REC_HISTOGRAM_BUCKETS];
};

/** Makes an empty histogram. @param scheme static. */
void rec_histogram_init(struct rec_histogram *histogram, const struct rec_histogram_scheme *scheme);

/** Adds a sample. @param value in the scheme's unit; below 0 or not a number counts as 0. @param
 * weight >= 0. @param t_ms unix ms. */
void rec_histogram_add(struct rec_histogram *histogram, double value, double weight, int64_t t_ms);

/** Takes back a sample that was added with the same value, weight and time. */
void rec_histogram_subtract(struct rec_histogram *histogram, double value, double weight,
                            int64_t t_ms);

/** Adds all samples of another histogram of the same scheme; `other` is re-aligned at most. */
void rec_histogram_merge(struct rec_histogram *histogram, struct rec_histogram *other);

/** Whether no bucket holds more than the noise of decayed samples. */
bool rec_histogram_empty(const struct rec_histogram *histogram);

/**
 * The end of the first bucket at which at least `fraction` of the weight is reached (the last
 * bucket: its start). No interpolation. @param fraction 0..1. @return 0 for an empty histogram.
 */
double rec_histogram_percentile(const struct rec_histogram *histogram, double fraction);

/** Start of a bucket. @param bucket < REC_HISTOGRAM_BUCKETS. */
double rec_histogram_bucket_start(const struct rec_histogram_scheme *scheme, uint32_t bucket);

/** Bucket of a value; the last one for all that is beyond. */
uint32_t rec_histogram_bucket(const struct rec_histogram_scheme *scheme, double value);
