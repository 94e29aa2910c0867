/* SPDX-License-Identifier: Apache-2.0 */
#include <stdint.h>

#include "tests/support/cmocka.h"
#include "vpa-recommender/feed.h"

#define NOW INT64_C(1795982400000)
#define S   INT64_C(1000)

static struct rec_usage usage;
static struct rec_instance instance;

static int reset(void **state)
{
    (void)state;
    rec_usage_init(&usage);
    instance = (struct rec_instance){0};
    return 0;
}

static enum rec_feed_result feed(uint64_t epoch, int64_t t_ms, uint64_t cpu_ms)
{
    struct rec_reading reading = {.epoch = epoch,
                                  .t_unix_ms = NOW + t_ms,
                                  .cpu_ns = cpu_ms * 1000000,
                                  .memory_bytes = 1000000};
    return rec_feed(&usage, &instance, &reading, 60000, NOW + t_ms);
}

static void test_samples(void **state)
{
    (void)state;
    assert_int_equal(feed(1, 0, 5000), REC_FEED_BASED);
    assert_int_equal(feed(1, 500, 5250), REC_FEED_WAITING);   /* below a second */
    assert_int_equal(feed(1, 5 * S, 7500), REC_FEED_SAMPLED); /* the first may be short */
    assert_int_equal(usage.samples, 1);
    assert_int_equal(feed(1, 10 * S, 10000), REC_FEED_WAITING); /* further ones may not */
    assert_int_equal(feed(1, 49 * S, 29500), REC_FEED_WAITING);
    assert_int_equal(feed(1, 50 * S, 30000), REC_FEED_SAMPLED); /* 45 s after the last */
    assert_int_equal(feed(1, 110 * S, 60000), REC_FEED_SAMPLED);
    assert_int_equal(usage.samples, 3);
    assert_true(usage.first_ms == NOW + 5 * S && usage.last_ms == NOW + 110 * S);
    /* always half a core */
    assert_int_equal(rec_estimate(&usage, (struct rec_amounts){0}).target.mcpu, 587);
}

static void test_rounds_up(void **state)
{
    (void)state;
    struct rec_reading reading = {.epoch = 1, .t_unix_ms = NOW, .cpu_ns = 0};
    (void)rec_feed(&usage, &instance, &reading, 60000, NOW);
    reading.t_unix_ms += 60 * S;
    reading.cpu_ns = 600000001; /* just above 10 m */
    assert_int_equal(rec_feed(&usage, &instance, &reading, 60000, NOW), REC_FEED_SAMPLED);
    assert_true(usage.cpu.weights[1] > 0);
}

static void test_new_epoch_does_not_jump(void **state)
{
    (void)state;
    assert_int_equal(feed(1, 0, 1000000), REC_FEED_BASED);
    assert_int_equal(feed(2, 60 * S, 900000000), REC_FEED_BASED);
    assert_int_equal(feed(2, 120 * S, 900000000 + 6000), REC_FEED_SAMPLED);
    assert_int_equal(feed(3, 180 * S, 10), REC_FEED_BASED);
    assert_int_equal(usage.samples, 1);
    assert_int_equal(rec_estimate(&usage, (struct rec_amounts){0}).target.mcpu, 126);
}

static void test_counter_going_back(void **state)
{
    (void)state;
    assert_int_equal(feed(1, 0, 1000000), REC_FEED_BASED);
    assert_int_equal(feed(1, 60 * S, 999999), REC_FEED_BASED);
    assert_int_equal(usage.samples, 0);
}

static void test_same_or_older_record(void **state)
{
    (void)state;
    assert_int_equal(feed(1, 60 * S, 1000), REC_FEED_BASED);
    assert_int_equal(feed(1, 60 * S, 1000), REC_FEED_OLD);
    assert_int_equal(feed(1, 0, 0), REC_FEED_OLD);
    assert_int_equal(usage.samples, 0);
}

static void test_silence_ends_in_its_mean(void **state)
{
    (void)state;
    assert_int_equal(feed(1, 0, 0), REC_FEED_BASED);
    assert_int_equal(feed(1, 3600 * S, 1800 * 1000), REC_FEED_SAMPLED);
    assert_int_equal(usage.samples, 1);
    assert_int_equal(rec_estimate(&usage, (struct rec_amounts){0}).target.mcpu, 587);
}

/* Our own clock jumps back, by hours and by years: samples go on, and tell the truth. */
static void test_our_clock_is_set_back(void **state)
{
    const int64_t hour = 3600 * S;

    (void)state;
    assert_int_equal(feed(1, 0, 0), REC_FEED_BASED);
    assert_int_equal(feed(1, 60 * S, 60000), REC_FEED_SAMPLED);
    assert_int_equal(feed(1, -2 * hour, 120000), REC_FEED_BASED);
    assert_int_equal(feed(1, -2 * hour + 60 * S, 180000), REC_FEED_SAMPLED);
    assert_int_equal(usage.samples, 2);
    /* ten years: a tenth of a core is all that is true now */
    assert_int_equal(feed(1, -87600 * hour, 180000), REC_FEED_BASED);
    assert_int_equal(feed(1, -87600 * hour + 60 * S, 186000), REC_FEED_SAMPLED);
    assert_int_equal(usage.samples, 1);
    assert_in_range(rec_estimate(&usage, (struct rec_amounts){0}).target.mcpu, 100, 130);
}

static void test_clock_and_implausible(void **state)
{
    (void)state;
    struct rec_reading reading = {.epoch = 1, .t_unix_ms = INT64_MAX, .cpu_ns = 1};
    assert_int_equal(rec_feed(&usage, &instance, &reading, 60000, NOW), REC_FEED_CLOCK);
    reading.t_unix_ms = 0;
    assert_int_equal(rec_feed(&usage, &instance, &reading, 60000, NOW), REC_FEED_CLOCK);
    reading.t_unix_ms = INT64_MIN;
    assert_int_equal(rec_feed(&usage, &instance, &reading, 60000, NOW), REC_FEED_CLOCK);
    assert_false(instance.based);
    assert_int_equal(feed(1, 0, 0), REC_FEED_BASED);
    /* 2000 cores */
    assert_int_equal(feed(1, 60 * S, 2000 * 60 * 1000), REC_FEED_IMPLAUSIBLE);
    assert_int_equal(usage.samples, 0);
    reading = (struct rec_reading){.epoch = 1, .t_unix_ms = NOW + 120 * S, .cpu_ns = UINT64_MAX};
    assert_int_equal(rec_feed(&usage, &instance, &reading, 60000, NOW + 120 * S),
                     REC_FEED_IMPLAUSIBLE);
    assert_true(rec_histogram_empty(&usage.cpu));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(test_samples, reset),
        cmocka_unit_test_setup(test_rounds_up, reset),
        cmocka_unit_test_setup(test_new_epoch_does_not_jump, reset),
        cmocka_unit_test_setup(test_counter_going_back, reset),
        cmocka_unit_test_setup(test_same_or_older_record, reset),
        cmocka_unit_test_setup(test_silence_ends_in_its_mean, reset),
        cmocka_unit_test_setup(test_our_clock_is_set_back, reset),
        cmocka_unit_test_setup(test_clock_and_implausible, reset),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
