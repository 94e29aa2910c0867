/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "tests/support/cmocka.h"
#include "vpa-recommender/histogram.h"

/** 2026-11-29T20:00:00Z */
#define NOW INT64_C(1795982400000)
#define DAY REC_HALF_LIFE_MS

static void test_buckets(void **state)
{
    (void)state;
    assert_true(rec_histogram_bucket_start(&rec_cpu_scheme, 0) == 0);
    assert_true(fabs(rec_histogram_bucket_start(&rec_cpu_scheme, 1) - 0.01) < 1e-12);
    assert_true(fabs(rec_histogram_bucket_start(&rec_cpu_scheme, 175) - 1021.1094) < 1e-3);
    assert_true(fabs(rec_histogram_bucket_start(&rec_memory_scheme, 175) - 1.0211094e12) < 1e6);
    assert_int_equal(rec_histogram_bucket(&rec_cpu_scheme, 0), 0);
    assert_int_equal(rec_histogram_bucket(&rec_cpu_scheme, -1), 0);
    assert_int_equal(rec_histogram_bucket(&rec_cpu_scheme, NAN), 0);
    assert_int_equal(rec_histogram_bucket(&rec_cpu_scheme, INFINITY), 175);
    assert_int_equal(rec_histogram_bucket(&rec_cpu_scheme, 1e9), 175);
    /* bucket() is the inverse of bucket_start(), in the middle of each */
    for (uint32_t i = 0; i + 1 < REC_HISTOGRAM_BUCKETS; i++) {
        double middle = (rec_histogram_bucket_start(&rec_cpu_scheme, i) +
                         rec_histogram_bucket_start(&rec_cpu_scheme, i + 1)) /
                        2;
        assert_int_equal(rec_histogram_bucket(&rec_cpu_scheme, middle), i);
    }
}

static void test_empty(void **state)
{
    struct rec_histogram histogram;

    (void)state;
    rec_histogram_init(&histogram, &rec_cpu_scheme);
    assert_true(rec_histogram_empty(&histogram));
    assert_true(rec_histogram_percentile(&histogram, 0.9) == 0);
    rec_histogram_add(&histogram, 1, 0, NOW);
    assert_true(rec_histogram_empty(&histogram));
}

static void test_percentile_is_end_of_bucket(void **state)
{
    struct rec_histogram histogram;

    (void)state;
    rec_histogram_init(&histogram, &rec_cpu_scheme);
    for (int i = 0; i < 90; i++)
        rec_histogram_add(&histogram, 0.001, 0.1, NOW);
    for (int i = 0; i < 10; i++)
        rec_histogram_add(&histogram, 1.0, 0.1, NOW);
    uint32_t high = rec_histogram_bucket(&rec_cpu_scheme, 1.0);
    assert_true(rec_histogram_percentile(&histogram, 0.5) ==
                rec_histogram_bucket_start(&rec_cpu_scheme, 1));
    assert_true(rec_histogram_percentile(&histogram, 0.95) ==
                rec_histogram_bucket_start(&rec_cpu_scheme, high + 1));
    /* beyond the last bucket: its start */
    rec_histogram_init(&histogram, &rec_cpu_scheme);
    rec_histogram_add(&histogram, 5000, 0.1, NOW);
    assert_true(rec_histogram_percentile(&histogram, 0.9) ==
                rec_histogram_bucket_start(&rec_cpu_scheme, 175));
}

/* What users see of the decay: a new level lifts P90 once it holds a tenth of the weight, 3.6 h
 * after it began, and P90 falls to a lower level after about 80 h. */
static void test_decay_response(void **state)
{
    struct rec_histogram histogram;
    int minutes = 0;

    (void)state;
    rec_histogram_init(&histogram, &rec_cpu_scheme);
    for (int64_t t = -30 * DAY; t < 0; t += 60000)
        rec_histogram_add(&histogram, 0.1, 0.1, NOW + t);
    while (rec_histogram_percentile(&histogram, 0.9) < 0.9)
        rec_histogram_add(&histogram, 1.0, 0.1, NOW + 60000 * (int64_t)minutes++);
    assert_in_range(minutes, 3 * 60 + 30, 3 * 60 + 45);

    rec_histogram_init(&histogram, &rec_cpu_scheme);
    for (int64_t t = -30 * DAY; t < 0; t += 60000)
        rec_histogram_add(&histogram, 1.0, 0.1, NOW + t);
    for (minutes = 0; rec_histogram_percentile(&histogram, 0.9) > 0.5; minutes++)
        rec_histogram_add(&histogram, 0.1, 0.1, NOW + 60000 * (int64_t)minutes);
    assert_in_range(minutes, 79 * 60, 81 * 60);
}

static void test_reference_moves_exactly(void **state)
{
    struct rec_histogram histogram;

    (void)state;
    rec_histogram_init(&histogram, &rec_cpu_scheme);
    rec_histogram_add(&histogram, 0.5, 0.1, NOW);
    /* the stock recommender's checkpoint of that evening says 2026-11-30T00:00:00Z */
    assert_true(histogram.reference_ms == INT64_C(1795996800000));
    assert_int_equal(histogram.reference_ms % DAY, 0);
    double total = histogram.total;
    rec_histogram_add(&histogram, 4.0, 0.1, NOW + 101 * DAY);
    assert_true(histogram.reference_ms % DAY == 0);
    assert_true(histogram.reference_ms > NOW + 100 * DAY);
    /* what is 101 half-lives old is noise */
    assert_true(rec_histogram_percentile(&histogram, 0.0) > 3.9);
    assert_true(histogram.total < total * 2);
    /* a clock that jumps by a thousand years leaves numbers */
    rec_histogram_add(&histogram, 4.0, 0.1, NOW + 365000 * DAY);
    assert_true(isfinite(histogram.total) && histogram.total > 0);
    rec_histogram_add(&histogram, 4.0, 0.1, 0);
    assert_true(isfinite(histogram.total) && histogram.total > 0);
}

static void test_subtract(void **state)
{
    struct rec_histogram histogram;

    (void)state;
    rec_histogram_init(&histogram, &rec_memory_scheme);
    rec_histogram_add(&histogram, 1e9, 1, NOW);
    rec_histogram_add(&histogram, 2e9, 1, NOW);
    rec_histogram_subtract(&histogram, 2e9, 1, NOW);
    assert_true(rec_histogram_percentile(&histogram, 1.0) < 1.1e9);
    rec_histogram_subtract(&histogram, 1e9, 1, NOW);
    assert_true(rec_histogram_empty(&histogram));
    assert_true(histogram.total == 0);
}

static void test_merge(void **state)
{
    struct rec_histogram a, b, both;

    (void)state;
    rec_histogram_init(&a, &rec_cpu_scheme);
    rec_histogram_init(&b, &rec_cpu_scheme);
    rec_histogram_init(&both, &rec_cpu_scheme);
    for (int i = 0; i < 50; i++) {
        double low = 0.02 * i, high = 0.05 * i;
        rec_histogram_add(&a, low, 0.1, NOW - 150 * DAY + i * 60000);
        rec_histogram_add(&b, high, 0.1, NOW - 100 * DAY + i * 60000);
        rec_histogram_add(&both, low, 0.1, NOW - 150 * DAY + i * 60000);
    }
    for (int i = 0; i < 50; i++)
        rec_histogram_add(&both, 0.05 * i, 0.1, NOW - 100 * DAY + i * 60000);
    rec_histogram_merge(&a, &b);
    for (double p = 0; p <= 1.0; p += 0.05)
        assert_true(rec_histogram_percentile(&a, p) == rec_histogram_percentile(&both, p));
}

/* Percentiles never fall with the fraction, and adding a larger value never lowers one. */
static void test_monotone(void **state)
{
    struct rec_histogram histogram;
    uint64_t random = 1;

    (void)state;
    rec_histogram_init(&histogram, &rec_cpu_scheme);
    for (int i = 0; i < 2000; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        double before = rec_histogram_percentile(&histogram, 0.9);
        double value = (double)(random >> 40) / 1000.0;
        rec_histogram_add(&histogram, value, 0.1, NOW + i * 60000);
        if (value >= before)
            assert_true(rec_histogram_percentile(&histogram, 0.9) >= before);
        assert_true(rec_histogram_percentile(&histogram, 0.5) <=
                    rec_histogram_percentile(&histogram, 0.9));
        assert_true(rec_histogram_percentile(&histogram, 0.9) <=
                    rec_histogram_percentile(&histogram, 0.95));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_buckets),
        cmocka_unit_test(test_empty),
        cmocka_unit_test(test_percentile_is_end_of_bucket),
        cmocka_unit_test(test_decay_response),
        cmocka_unit_test(test_reference_moves_exactly),
        cmocka_unit_test(test_subtract),
        cmocka_unit_test(test_merge),
        cmocka_unit_test(test_monotone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
