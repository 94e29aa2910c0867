/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdint.h>

#include "tests/support/cmocka.h"
#include "vpa-recommender/memory_peaks.h"

/** cmocka compares floats only. */
#define assert_near(a, b, distance) assert_true(fabs((a) - (b)) <= (distance))

#define NOW  INT64_C(1795982400000)
#define HOUR INT64_C(3600000)
#define MIB  (UINT64_C(1) << 20)

static struct rec_histogram histogram;
static struct rec_memory_peaks peaks;

static int reset(void **state)
{
    (void)state;
    rec_histogram_init(&histogram, &rec_memory_scheme);
    peaks = (struct rec_memory_peaks){0};
    return 0;
}

static double peak(void)
{
    return rec_histogram_percentile(&histogram, 1.0);
}

/** Weight of one peak stamped with the window's end. */
static double weight(void)
{
    return histogram.total /
           exp2((double)(peaks.window_end_ms - histogram.reference_ms) / (double)REC_HALF_LIFE_MS);
}

static void test_one_peak_per_window(void **state)
{
    (void)state;
    for (int i = 0; i < 24; i++)
        assert_true(
            rec_memory_peaks_add(&peaks, &histogram, (100 + (uint64_t)i) * MIB, NOW + i * HOUR));
    assert_true(peaks.window_end_ms == NOW + 24 * HOUR);
    assert_int_equal(peaks.usage_bytes, 123 * MIB);
    assert_near(weight(), 1.0, 1e-9);
    /* lower values change nothing */
    assert_true(rec_memory_peaks_add(&peaks, &histogram, 5 * MIB, NOW + 23 * HOUR + 1));
    assert_int_equal(peaks.usage_bytes, 123 * MIB);
    /* the next day has a peak of its own */
    assert_true(rec_memory_peaks_add(&peaks, &histogram, 50 * MIB, NOW + 24 * HOUR));
    assert_true(peaks.window_end_ms == NOW + 48 * HOUR);
    assert_int_equal(peaks.usage_bytes, 50 * MIB);
    assert_near(weight(), 1.5, 1e-9);
    assert_true(peak() > 123.0 * (double)MIB);
}

static void test_gap_skips_windows(void **state)
{
    (void)state;
    assert_true(rec_memory_peaks_add(&peaks, &histogram, MIB, NOW));
    assert_true(rec_memory_peaks_add(&peaks, &histogram, MIB, NOW + 100 * HOUR));
    assert_true(peaks.window_end_ms == NOW + 120 * HOUR);
}

static void test_zero_is_no_measurement(void **state)
{
    (void)state;
    assert_true(rec_memory_peaks_add(&peaks, &histogram, 0, NOW));
    assert_true(rec_histogram_empty(&histogram));
    assert_true(rec_memory_peaks_add(&peaks, &histogram, 300 * MIB, NOW + 1));
    assert_true(peak() > 300.0 * (double)MIB);
}

static void test_older_is_refused(void **state)
{
    (void)state;
    assert_true(rec_memory_peaks_add(&peaks, &histogram, MIB, NOW));
    assert_false(rec_memory_peaks_add(&peaks, &histogram, 900 * MIB, NOW - 1));
    assert_int_equal(peaks.usage_bytes, MIB);
}

static void test_oom(void **state)
{
    (void)state;
    assert_true(rec_memory_peaks_add(&peaks, &histogram, 200 * MIB, NOW));
    /* + 100 MiB is more than + 20 % */
    assert_true(rec_memory_peaks_oom(&peaks, &histogram, 250 * MIB, NOW + 1));
    assert_int_equal(peaks.oom_bytes, 350 * MIB);
    assert_near(weight(), 1.0, 1e-9);
    /* kills in a row do not compound */
    assert_true(rec_memory_peaks_oom(&peaks, &histogram, 250 * MIB, NOW + 2));
    assert_int_equal(peaks.oom_bytes, 350 * MIB);
    /* + 20 % of much */
    assert_true(rec_memory_peaks_oom(&peaks, &histogram, 1000 * MIB, NOW + 3));
    assert_int_equal(peaks.oom_bytes, 1200 * MIB);
    assert_near(weight(), 1.0, 1e-9);
    /* at the edge of a window, the day before is fresh enough; two days are not */
    assert_true(rec_memory_peaks_oom(&peaks, &histogram, MIB, NOW - 23 * HOUR));
    assert_false(rec_memory_peaks_oom(&peaks, &histogram, MIB, NOW - 48 * HOUR));
}

static void test_absurd_values(void **state)
{
    (void)state;
    assert_true(rec_memory_peaks_add(&peaks, &histogram, UINT64_MAX, NOW));
    assert_true(rec_memory_peaks_oom(&peaks, &histogram, UINT64_MAX, NOW));
    assert_true(peak() <= rec_histogram_bucket_start(&rec_memory_scheme, 175));
    assert_near(weight(), 1.0, 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_one_peak_per_window, reset),
        cmocka_unit_test_setup(test_gap_skips_windows, reset),
        cmocka_unit_test_setup(test_zero_is_no_measurement, reset),
        cmocka_unit_test_setup(test_older_is_refused, reset),
        cmocka_unit_test_setup(test_oom, reset),
        cmocka_unit_test_setup(test_absurd_values, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
