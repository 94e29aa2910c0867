/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every step truncates to whole millicores and bytes, as the stock recommender does, so that the
 * figures users know (587m for half a core) come out to the last digit. The margin is integer
 * arithmetic; only the percentile and the confidence factor are doubles. With no history the factor
 * of the upper bound is infinite: the amount saturates at REC_AMOUNT_MAX, and nothing times
 * infinity is nothing.
 */
#include "vpa-recommender/estimator.h"

#include <math.h>
#include <string.h>

#define TARGET_PERCENTILE 0.9  /* stock default */
#define LOWER_PERCENTILE  0.5  /* stock default */
#define UPPER_PERCENTILE  0.95 /* stock default */

#define MARGIN_PERCENT 15 /* stock recommendation-margin-fraction */

#define FLOOR_MCPU  25                    /* stock pod-recommendation-min-cpu-millicores */
#define FLOOR_BYTES (UINT64_C(250) << 20) /* stock pod-recommendation-min-memory-mb */

/** What the histograms were made for. Without this, a first advice reads "100T cores"
 * (kubernetes/autoscaler 5569). */
#define PLAUSIBLE_MCPU  UINT64_C(1000000)
#define PLAUSIBLE_BYTES UINT64_C(1000000000000)

#define MS_PER_DAY      86400000.0
#define SAMPLES_PER_DAY 1440.0

/** Confidence factor (1 + multiplier / c)^exponent. */
struct factor {
    double multiplier, exponent;
};

static const struct factor no_factor = {.multiplier = 0, .exponent = 0};
static const struct factor lower_factor = {.multiplier = 0.001, .exponent = -2};
static const struct factor upper_factor = {.multiplier = 1, .exponent = 1};

void rec_usage_init(struct rec_usage *usage)
{
    memset(usage, 0, sizeof(*usage));
    rec_histogram_init(&usage->cpu, &rec_cpu_scheme);
    rec_histogram_init(&usage->memory, &rec_memory_scheme);
}

double rec_confidence_days(const struct rec_usage *usage)
{
    double life = (double)(usage->last_ms - usage->first_ms) / MS_PER_DAY;
    double amount = (double)usage->samples / SAMPLES_PER_DAY;

    return life < amount ? life : amount;
}

/** Truncates a double to an amount. */
static uint64_t amount_of(double value)
{
    if (!(value > 0)) /* also not-a-number: 0 x infinity */
        return 0;
    return value > (double)REC_AMOUNT_MAX ? REC_AMOUNT_MAX : (uint64_t)value;
}

static uint64_t scaled(double percentile, double confidence, const struct factor *factor)
{
    uint64_t base = amount_of(percentile);

    base += base * MARGIN_PERCENT / 100; /* base <= 1e14: no overflow */
    if (factor->exponent == 0)
        return base < REC_AMOUNT_MAX ? base : REC_AMOUNT_MAX;
    return amount_of((double)base * pow(1 + factor->multiplier / confidence, factor->exponent));
}

static struct rec_amounts amounts_at(const struct rec_usage *usage, double percentile,
                                     const struct factor *factor, struct rec_amounts least)
{
    double confidence = rec_confidence_days(usage);
    struct rec_amounts amounts = {
        .mcpu =
            scaled(rec_histogram_percentile(&usage->cpu, percentile) * 1000.0, confidence, factor),
        .bytes = scaled(rec_histogram_percentile(&usage->memory, percentile), confidence, factor),
    };

    if (amounts.mcpu < least.mcpu)
        amounts.mcpu = least.mcpu;
    if (amounts.bytes < least.bytes)
        amounts.bytes = least.bytes;
    return amounts;
}

struct rec_amounts rec_floor(size_t containers)
{
    double fraction = 1.0 / (double)(containers > 0 ? containers : 1);

    return (struct rec_amounts){
        .mcpu = amount_of(FLOOR_MCPU * fraction),
        .bytes = amount_of((double)FLOOR_BYTES * fraction),
    };
}

struct rec_estimate rec_estimate(const struct rec_usage *usage, struct rec_amounts least)
{
    return (struct rec_estimate){
        .target = amounts_at(usage, TARGET_PERCENTILE, &no_factor, least),
        .lower = amounts_at(usage, LOWER_PERCENTILE, &lower_factor, least),
        .upper = amounts_at(usage, UPPER_PERCENTILE, &upper_factor, least),
    };
}

static uint64_t cut(uint64_t value, uint64_t most, uint64_t least)
{
    if (value > most)
        value = most;
    return value > least ? value : least;
}

void rec_estimate_publishable(struct rec_estimate *estimate)
{
    estimate->upper.mcpu = cut(estimate->upper.mcpu, PLAUSIBLE_MCPU, estimate->target.mcpu);
    estimate->upper.bytes = cut(estimate->upper.bytes, PLAUSIBLE_BYTES, estimate->target.bytes);
}
