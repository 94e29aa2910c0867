/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: the stock recommender's numbers are the baseline that every user knows. A histogram that
 * is only nearly the same would drift from it by a bucket (5 %) here and there, and nobody could
 * tell a better policy from a rounding difference.
 *
 * Approach: the same arithmetic in the same order, in doubles. Weights are not decayed one by one:
 * a new sample is made heavier instead, by 2^((t - reference) / half-life). When that exponent
 * passes 100 the reference moves to the sample's time, rounded to whole half-lives, and all weights
 * are scaled by the power of two in between, which is exact.
 *
 * Invariants: min and max enclose every bucket whose weight is at least EPSILON; weights below it
 * are rests of subtraction or of decay and count as nothing. A reference is a multiple of the
 * half-life since the epoch; Go rounds from the year 1, which is a whole number of days earlier, so
 * both agree.
 *
 * Cost: adding is one logarithm and one power; a percentile walks from min to max. 1.4 kB each.
 */
#include "vpa-recommender/histogram.h"

#include <math.h>
#include <string.h>

/** Growth of the bucket widths: 5 % is the resolution of all advice. */
#define RATIO 1.05

/** 0.001 of the smallest sample weight (0.1): what the stock recommender takes for empty. */
#define EPSILON 1e-4

/** Powers of two up to 2^100 are far from the ends of a double. */
#define MAX_DECAY_EXPONENT 100

const struct rec_histogram_scheme rec_cpu_scheme = {.first = 0.01};
const struct rec_histogram_scheme rec_memory_scheme = {.first = 1e7};

void rec_histogram_init(struct rec_histogram *histogram, const struct rec_histogram_scheme *scheme)
{
    memset(histogram, 0, sizeof(*histogram));
    histogram->scheme = scheme;
    histogram->min = REC_HISTOGRAM_BUCKETS - 1;
}

double rec_histogram_bucket_start(const struct rec_histogram_scheme *scheme, uint32_t bucket)
{
    if (bucket == 0)
        return 0;
    return scheme->first * (pow(RATIO, (double)bucket) - 1) / (RATIO - 1);
}

uint32_t rec_histogram_bucket(const struct rec_histogram_scheme *scheme, double value)
{
    if (!(value >= scheme->first))
        return 0;
    double bucket = log(value * (RATIO - 1) / scheme->first + 1) / log(RATIO);
    if (!(bucket < REC_HISTOGRAM_BUCKETS - 1))
        return REC_HISTOGRAM_BUCKETS - 1;
    return (uint32_t)bucket;
}

static void update_ends(struct rec_histogram *histogram)
{
    while (histogram->weights[histogram->min] < EPSILON &&
           histogram->min < REC_HISTOGRAM_BUCKETS - 1)
        histogram->min++;
    while (histogram->weights[histogram->max] < EPSILON && histogram->max > 0)
        histogram->max--;
}

static void shift_reference(struct rec_histogram *histogram, int64_t t_ms)
{
    int64_t reference =
        (int64_t)floor((double)t_ms / (double)REC_HALF_LIFE_MS + 0.5) * REC_HALF_LIFE_MS;
    int64_t halves = (histogram->reference_ms - reference) / REC_HALF_LIFE_MS;
    /* beyond +-2000 a double is 0 or infinite anyway; the clamp keeps the cast defined */
    int exponent = halves < -2000 ? -2000 : halves > 2000 ? 2000 : (int)halves;
    double factor = ldexp(1.0, exponent);

    for (uint32_t i = histogram->min; i <= histogram->max; i++)
        histogram->weights[i] *= factor;
    histogram->total *= factor;
    histogram->reference_ms = reference;
    update_ends(histogram);
}

static double decay_factor(struct rec_histogram *histogram, int64_t t_ms)
{
    if (t_ms > histogram->reference_ms + MAX_DECAY_EXPONENT * REC_HALF_LIFE_MS)
        shift_reference(histogram, t_ms);
    return exp2((double)(t_ms - histogram->reference_ms) / (double)REC_HALF_LIFE_MS);
}

void rec_histogram_add(struct rec_histogram *histogram, double value, double weight, int64_t t_ms)
{
    double scaled = weight * decay_factor(histogram, t_ms);
    uint32_t bucket = rec_histogram_bucket(histogram->scheme, value);

    histogram->weights[bucket] += scaled;
    histogram->total += scaled;
    if (histogram->weights[bucket] < EPSILON)
        return;
    if (bucket < histogram->min)
        histogram->min = bucket;
    if (bucket > histogram->max)
        histogram->max = bucket;
}

static double subtract_to_zero(double value, double less)
{
    value -= less;
    return value < EPSILON ? 0 : value;
}

void rec_histogram_subtract(struct rec_histogram *histogram, double value, double weight,
                            int64_t t_ms)
{
    double scaled = weight * decay_factor(histogram, t_ms);
    uint32_t bucket = rec_histogram_bucket(histogram->scheme, value);

    histogram->total = subtract_to_zero(histogram->total, scaled);
    histogram->weights[bucket] = subtract_to_zero(histogram->weights[bucket], scaled);
    update_ends(histogram);
}

void rec_histogram_merge(struct rec_histogram *histogram, struct rec_histogram *other)
{
    if (histogram->reference_ms < other->reference_ms)
        shift_reference(histogram, other->reference_ms);
    else if (other->reference_ms < histogram->reference_ms)
        shift_reference(other, histogram->reference_ms);
    for (uint32_t i = other->min; i <= other->max; i++)
        histogram->weights[i] += other->weights[i];
    histogram->total += other->total;
    if (other->min < histogram->min)
        histogram->min = other->min;
    if (other->max > histogram->max)
        histogram->max = other->max;
}

bool rec_histogram_empty(const struct rec_histogram *histogram)
{
    return histogram->weights[histogram->min] < EPSILON;
}

double rec_histogram_percentile(const struct rec_histogram *histogram, double fraction)
{
    if (rec_histogram_empty(histogram))
        return 0;
    double threshold = fraction * histogram->total, sum = 0;
    uint32_t bucket = histogram->min;

    for (; bucket < histogram->max; bucket++) {
        sum += histogram->weights[bucket];
        if (sum >= threshold)
            break;
    }
    if (bucket < REC_HISTOGRAM_BUCKETS - 1)
        bucket++;
    return rec_histogram_bucket_start(histogram->scheme, bucket);
}
