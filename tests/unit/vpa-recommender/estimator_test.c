/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/cmocka.h"
#include "vpa-recommender/estimator.h"

/** cmocka compares floats only. */
#define assert_near(a, b, distance) assert_true(fabs((a) - (b)) <= (distance))

#define NOW    INT64_C(1795982400000)
#define MINUTE INT64_C(60000)
#define DAY    INT64_C(86400000)

static const struct rec_amounts no_floor = {0, 0};

/** One sample a minute over `minutes`, as many as the stock recommender would have seen. */
static void steady(struct rec_usage *usage, double cores, double bytes, int64_t minutes)
{
    rec_usage_init(usage);
    for (int64_t i = 0; i <= minutes; i++)
        rec_histogram_add(&usage->cpu, cores, 0.1, NOW + i * MINUTE);
    rec_histogram_add(&usage->memory, bytes, 1, NOW + DAY);
    usage->first_ms = NOW;
    usage->last_ms = NOW + minutes * MINUTE;
    usage->samples = (uint64_t)minutes + 1;
}

/* Targets that users of the stock recommender published, or that its formula gives for them. */
static void test_golden_cpu(void **state)
{
    static const struct {
        double cores;
        uint64_t mcpu;
    } rows[] = {{0.001, 11}, {0.01, 23}, {0.1, 126}, {0.25, 296}, {0.5, 587},
                {1, 1168},   {2, 2406},  {4, 4742},  {16, 19265}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rec_usage usage;
        steady(&usage, rows[i].cores, 1e8, 10);
        assert_int_equal(rec_estimate(&usage, no_floor).target.mcpu, rows[i].mcpu);
    }
}

static void test_golden_memory(void **state)
{
    static const struct {
        double bytes;
        uint64_t target;
    } rows[] = {{5e6, 11500000},
                {1e8, 126805489},
                {2.5e8, 297164212},
                {5e8, 587804717},
                {1e9, 1168723596},
                {4e9, UINT64_C(4743403291)},
                {1.6e10, UINT64_C(19266383159)}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rec_usage usage;
        steady(&usage, 0.1, rows[i].bytes, 10);
        assert_true(rec_estimate(&usage, no_floor).target.bytes == rows[i].target);
    }
}

/* Targets seen in issues, each the end of a bucket plus margin. */
static void test_golden_buckets(void **state)
{
    static const struct {
        uint32_t bucket;
        uint64_t mcpu;
        uint64_t bytes;
    } rows[] = {
        {26, 627, 0},
        {7, 109, 0},
        {35, 1101, 0},
        {6, 93, 0},
        {50, 2539, 0},
        {1, 0, 23574998},
        {24, 0, 548861636},
        {44, 0, 1836551791},
        {51, 0, UINT64_C(2677845899)},
        {174, 0, UINT64_C(1174275820239)},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rec_usage usage;
        double cores = rec_histogram_bucket_start(&rec_cpu_scheme, rows[i].bucket) * 1.001;
        double bytes = rec_histogram_bucket_start(&rec_memory_scheme, rows[i].bucket) * 1.001;
        steady(&usage, cores, bytes, 10);
        struct rec_estimate estimate = rec_estimate(&usage, no_floor);
        if (rows[i].mcpu > 0)
            assert_int_equal(estimate.target.mcpu, rows[i].mcpu);
        if (rows[i].bytes > 0)
            assert_true(estimate.target.bytes == rows[i].bytes);
    }
}

static void test_confidence(void **state)
{
    static const struct {
        int64_t minutes;
        double upper, lower; /**< factors */
    } rows[] = {{5, 289, 0.6027}, {30, 49, 0.9107},  {60, 25, 0.9537},
                {720, 3, 0.9960}, {1440, 2, 0.9980}, {10080, 1.143, 0.9997}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct rec_usage usage;
        steady(&usage, 1.0, 1e9, rows[i].minutes);
        struct rec_estimate estimate = rec_estimate(&usage, no_floor);
        assert_near((double)estimate.upper.mcpu / 1168, rows[i].upper, rows[i].upper * 0.001);
        assert_near((double)estimate.lower.mcpu / 1168, rows[i].lower, 0.002);
    }
}

static void test_no_history(void **state)
{
    struct rec_usage usage;

    (void)state;
    steady(&usage, 0.5, 1e9, 0);
    struct rec_estimate estimate = rec_estimate(&usage, rec_floor(1));
    assert_int_equal(estimate.target.mcpu, 587);
    assert_true(estimate.upper.mcpu == REC_AMOUNT_MAX && estimate.upper.bytes == REC_AMOUNT_MAX);
    assert_int_equal(estimate.lower.mcpu, 25);
    /* nothing times infinity: the floor, not garbage */
    rec_usage_init(&usage);
    estimate = rec_estimate(&usage, rec_floor(1));
    assert_int_equal(estimate.upper.mcpu, 25);
    assert_int_equal(estimate.upper.bytes, 262144000);
}

/* What the stock recommender 1.7.1 wrote in the recording of 2026-11-29: 8 samples within 45 s. */
static void test_recorded_checkpoint(void **state)
{
    struct rec_usage usage;

    (void)state;
    rec_usage_init(&usage);
    static const struct {
        uint32_t bucket;
        double weight;
    } weights[] = {{8, 6668}, {9, 10000}, {11, 6666}, {14, 3333}};
    for (size_t i = 0; i < 4; i++) {
        double cores = rec_histogram_bucket_start(&rec_cpu_scheme, weights[i].bucket) * 1.001;
        rec_histogram_add(&usage.cpu, cores, weights[i].weight * 0.7119217920412257 / 26667,
                          INT64_C(1795996800000));
    }
    rec_histogram_add(&usage.memory, 1e6, 1, NOW);
    usage.samples = 8;
    usage.first_ms = 0;
    usage.last_ms = 45000;
    struct rec_estimate estimate = rec_estimate(&usage, rec_floor(1));
    assert_int_equal(estimate.target.mcpu, 247);
    assert_int_equal(estimate.lower.mcpu, 25);
    assert_int_equal(estimate.target.bytes, 262144000);
    /* its upper bounds were of a moment earlier: 474487m and 22091500000 stand for c = 1/1920 days,
     * or 45 s */
    assert_true(estimate.upper.mcpu == 474487);
    assert_true(estimate.upper.bytes == UINT64_C(22091500000));
}

static void test_floor(void **state)
{
    (void)state;
    assert_int_equal(rec_floor(1).mcpu, 25);
    assert_int_equal(rec_floor(1).bytes, 262144000);
    assert_int_equal(rec_floor(2).mcpu, 12);
    assert_int_equal(rec_floor(2).bytes, 131072000);
    assert_int_equal(rec_floor(0).mcpu, 25);
    assert_int_equal(rec_floor(3).bytes, 87381333);
}

/* lower <= target <= upper for any history. */
static void test_bounds_enclose_target(void **state)
{
    uint64_t random = 7;

    (void)state;
    for (int round = 0; round < 200; round++) {
        struct rec_usage usage;
        rec_usage_init(&usage);
        int n = 1 + round;
        for (int i = 0; i < n; i++) {
            random = random * UINT64_C(6364136223846793005) + 1;
            rec_histogram_add(&usage.cpu, (double)(random >> 48) / 1000.0, 0.1, NOW + i * MINUTE);
            rec_histogram_add(&usage.memory, (double)(random >> 24), 1, NOW + i * MINUTE);
        }
        usage.samples = (uint64_t)n;
        usage.first_ms = NOW;
        usage.last_ms = NOW + (n - 1) * MINUTE;
        struct rec_estimate estimate = rec_estimate(&usage, rec_floor(1 + (size_t)round % 4));
        assert_true(estimate.lower.mcpu <= estimate.target.mcpu);
        assert_true(estimate.target.mcpu <= estimate.upper.mcpu);
        assert_true(estimate.lower.bytes <= estimate.target.bytes);
        assert_true(estimate.target.bytes <= estimate.upper.bytes);
        assert_true(estimate.upper.bytes <= REC_AMOUNT_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden_cpu),     cmocka_unit_test(test_golden_memory),
        cmocka_unit_test(test_golden_buckets), cmocka_unit_test(test_confidence),
        cmocka_unit_test(test_no_history),     cmocka_unit_test(test_recorded_checkpoint),
        cmocka_unit_test(test_floor),          cmocka_unit_test(test_bounds_enclose_target),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
