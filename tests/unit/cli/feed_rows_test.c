/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows out of the samples that a node published, among them such as an agent would never write.
 */
#include <string.h>

#include "api/quality.h"
#include "cli/feed_rows.h"
#include "common/cleanup.h"
#include "tests/support/cmocka.h"

#define NS_PER_S UINT64_C(1000000000)

static struct cli_feed_rows rows;
static struct kw_sample sample;

static int setup(void **state)
{
    (void)state;
    sample =
        (struct kw_sample){.epoch = 7,
                           .interval_ns = 5 * NS_PER_S,
                           .totals = {.present = true, .has_dram = true, .has_counters = true}};
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    cli_feed_rows_free(&rows);
    return 0;
}

/** The next sample: two busy CPUs, 60 W and 10 W. @param quality KW_QUALITY_BITs. */
static void next(uint32_t quality)
{
    uint64_t ns = sample.interval_ns;

    sample.seq++;
    sample.quality = quality;
    sample.totals.cpu_ns += 2 * ns;
    sample.totals.cpu_uj += 60 * (ns / 1000);
    sample.totals.dram_uj += 10 * (ns / 1000);
    sample.totals.cycles += 6 * ns;
    sample.totals.instructions += 4 * ns;
    sample.totals.llc_misses += ns / 100;
    assert_int_equal(cli_feed_rows_add(&rows, &sample), 0);
}

static void test_differences(void **state)
{
    kw_cleanup(kw_buf_free) struct kw_buf csv = {0};

    (void)state;
    next(KW_QUALITY_BIT(KW_QUALITY_WRAPPED)); /* to take differences to */
    next(KW_QUALITY_BIT(KW_QUALITY_MULTIPLEXED));
    next(0);
    assert_int_equal(rows.n, 2);
    assert_int_equal(rows.n_samples, 3);
    assert_int_equal(rows.n_left_out, 0);
    assert_int_equal(cli_feed_rows_print(&rows, true, true, &csv), 0);
    assert_string_equal(csv.data, "cpu_time,cycles,instructions,cache_misses,package_w,dram_w\n"
                                  "2.000000,6000000000,4000000000,10000000,60.000000,10.000000\n"
                                  "2.000000,6000000000,4000000000,10000000,60.000000,10.000000\n");
    kw_buf_reset(&csv);
    assert_int_equal(cli_feed_rows_print(&rows, false, false, &csv), 0);
    assert_string_equal(csv.data, "cpu_time,package_w\n2.000000,60.000000\n2.000000,60.000000\n");
}

/** Intervals below a second make rows of a second. */
static void test_short_intervals(void **state)
{
    (void)state;
    sample.interval_ns = NS_PER_S / 4;
    for (unsigned i = 0; i < 13; i++)
        next(0);
    assert_int_equal(rows.n, 3);
    assert_true(rows.rows[2].package_w > 59.999 && rows.rows[2].package_w < 60.001);
}

/** No row spans what is missing or flagged, nor the sample behind that: it may bring what was
 * missed. */
static void test_holes(void **state)
{
    static const uint32_t unfit[] = {KW_QUALITY_BIT(KW_QUALITY_STALE),
                                     KW_QUALITY_BIT(KW_QUALITY_GAP),
                                     KW_QUALITY_BIT(KW_QUALITY_RESET),
                                     KW_QUALITY_BIT(KW_QUALITY_FROZEN),
                                     KW_QUALITY_BIT(KW_QUALITY_IMPLAUSIBLE) |
                                         KW_QUALITY_BIT(KW_QUALITY_WRAPPED),
                                     KW_QUALITY_BIT(KW_QUALITY_INCOMPLETE),
                                     KW_QUALITY_BIT(KW_QUALITY_DOUBTFUL)};
    size_t n = 1;

    (void)state;
    next(0);
    next(0);
    for (size_t i = 0; i < KW_ARRAY_SIZE(unfit); i++) {
        next(unfit[i]);
        next(0);
        assert_int_equal(rows.n, n);
        next(0);
        assert_int_equal(rows.n, ++n);
        assert_int_equal(rows.n_left_out, i + 1);
    }
    size_t left_out = rows.n_left_out;
    sample.seq++; /* one is missing */
    next(0);
    assert_int_equal(rows.n, n);
    assert_int_equal(rows.n_left_out, left_out + 1);
    next(0);
    assert_int_equal(rows.n, ++n);
    assert_int_equal(cli_feed_rows_add(&rows, &sample), 0); /* a repetition */
    assert_int_equal(rows.n, n);
    sample.totals.apart = true;
    next(0);
    sample.totals.apart = false;
    next(0);
    assert_int_equal(rows.n, n);
    sample.epoch++; /* an agent that starts anew */
    sample.seq = 0;
    sample.totals.cpu_uj = 0;
    next(0);
    assert_int_equal(rows.n, n);
    next(0);
    assert_int_equal(rows.n, n + 1);
}

static void test_models_and_old_agents(void **state)
{
    (void)state;
    next(KW_QUALITY_BIT(KW_QUALITY_ESTIMATED));
    next(KW_QUALITY_BIT(KW_QUALITY_ESTIMATED));
    assert_int_equal(rows.n_estimated, 2);
    sample.totals.present = false;
    next(0);
    next(0);
    assert_int_equal(rows.n_without, 2);
    assert_int_equal(rows.n, 0);
    assert_int_equal(rows.n_left_out, 0);
}

/** The first row decides on the columns. */
static void test_what_comes_and_goes(void **state)
{
    (void)state;
    next(0);
    next(0);
    sample.totals.has_counters = false;
    next(0);
    sample.totals.has_counters = true;
    sample.totals.has_dram = false;
    next(0);
    sample.totals.has_dram = true;
    next(0);
    next(0);
    assert_int_equal(rows.n, 2);
    assert_int_equal(rows.n_left_out, 3);
    assert_true(rows.has_counters && rows.has_dram);
}

/** Who forges records spoils his own rows and no others. */
static void test_forged(void **state)
{
    (void)state;
    next(0);
    sample.totals.cpu_uj = 0;
    next(0); /* falls */
    next(0);
    sample.totals.cpu_uj += UINT64_C(1) << 60;
    next(0);
    sample.totals.cycles += UINT64_C(1) << 62;
    next(0);
    sample.interval_ns = UINT64_MAX / 2;
    sample.seq++;
    assert_int_equal(cli_feed_rows_add(&rows, &sample), 0);
    sample.interval_ns = 0;
    sample.seq++;
    assert_int_equal(cli_feed_rows_add(&rows, &sample), 0);
    for (size_t i = 0; i < rows.n; i++)
        assert_true(rows.rows[i].package_w >= 0 && rows.rows[i].package_w < 61);
    assert_true(rows.n_left_out >= 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_differences, setup, teardown),
        cmocka_unit_test_setup_teardown(test_short_intervals, setup, teardown),
        cmocka_unit_test_setup_teardown(test_holes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_models_and_old_agents, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_comes_and_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(test_forged, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
