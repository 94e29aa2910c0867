/* SPDX-License-Identifier: Apache-2.0 */
/* From records in Redis to nodes: ages by either clock, bad values, what stays of the node before.
 */
#include <errno.h>
#include <string.h>

#include "common/buf.h"
#include "common/cleanup.h"
#include "extender/ingest.h"
#include "tests/support/cmocka.h"

#define SECOND INT64_C(1000000000)

static const char curve_text[] =
    "{\"schema\":1,\"capacity_mcpu\":8000,\"knots\":[{\"load_permille\":0,\"mw\":20000},"
    "{\"load_permille\":1000,\"mw\":100000}]}";

/** Clocks that have nothing to do with each other. */
static const struct ext_instant now = {.now_ns = 5000 * SECOND, .unix_ms = 1760000000000};

struct written {
    const char *node;
    uint64_t seq;
    int64_t t_unix_ms;
    uint64_t used_mcpu;
    int schema;
};

static void write_sample(struct kw_buf *out, struct written w)
{
    kw_buf_reset(out);
    (void)kw_buf_addf(
        out,
        "{\"schema\":%d,\"node\":\"%s\",\"epoch\":1,\"seq\":%llu,\"t_unix_ms\":%lld,"
        "\"interval_ns\":1000000000,\"packages\":[],\"watts_mw\":1,\"used_mcpu\":%llu,"
        "\"allocatable_mcpu\":8000,\"idle_mw\":1,\"meter\":\"model\"}",
        w.schema == 0 ? 1 : w.schema, w.node, (unsigned long long)w.seq, (long long)w.t_unix_ms,
        (unsigned long long)w.used_mcpu);
}

struct outcome {
    int rc;
    struct ext_node node;
    uint64_t skipped[EXT_SKIP__MAX];
};

static struct outcome ingest(const char *sample, const char *curve, const struct ext_node *before,
                             struct ext_instant at)
{
    static struct kw_sample scratch;
    struct outcome got = {0};
    const struct ext_record record = {
        .name = "a",
        .score = 7,
        .sample = sample,
        .sample_len = sample != NULL ? strlen(sample) : 0,
        .curve = curve,
        .curve_len = curve != NULL ? strlen(curve) : 0,
    };

    got.rc = ext_ingest(&record, before, &at, &scratch, got.skipped, &got.node);
    return got;
}

static uint64_t all_skipped(const struct outcome *got)
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < EXT_SKIP__MAX; i++)
        sum += got->skipped[i];
    return sum;
}

static void test_good_record(void **state)
{
    (void)state;
    struct kw_buf sample = {0};

    write_sample(&sample,
                 (struct written){
                     .node = "a", .seq = 4, .t_unix_ms = now.unix_ms - 2500, .used_mcpu = 3000});
    struct outcome got = ingest(sample.data, curve_text, NULL, now);
    assert_int_equal(got.rc, 0);
    assert_int_equal(all_skipped(&got), 0);
    assert_string_equal(got.node.name, "a");
    assert_true(got.node.score == 7 && got.node.used_mcpu == 3000);
    assert_true(got.node.has_curve && got.node.capacity_mcpu == 8000);
    assert_int_equal(got.node.hull.n, 1);
    assert_int_equal(got.node.interval_ns, SECOND);
    assert_int_equal(got.node.fresh_ns, now.now_ns - 2500 * (SECOND / 1000));
    kw_buf_free(&sample);
}

/** How long before it came a sample ended, at the node's n-th interval of 10 s. */
static int64_t late_s(struct ext_node *node, unsigned n, int64_t clock_ms, int64_t late_ms)
{
    struct kw_buf sample = {0};
    const struct ext_instant at = {now.now_ns + n * 10 * SECOND, now.unix_ms + n * 10000};

    write_sample(&sample, (struct written){
                              .node = "a", .seq = n, .t_unix_ms = at.unix_ms + clock_ms - late_ms});
    struct outcome got = ingest(sample.data, NULL, n == 0 ? NULL : node, at);
    assert_int_equal(got.rc, 0);
    *node = got.node;
    kw_buf_free(&sample);
    return (at.now_ns - got.node.covered_ns) / SECOND;
}

/** A sample that came late does not cover the time since, also where the node's clock is ahead and
 * makes it look new, behind and makes all look old, or is set. */
static void test_late_samples(void **state)
{
    (void)state;
    static const int64_t clocks_ms[] = {0, 20000, -3600000};
    struct ext_node node;
    unsigned n;

    for (size_t i = 0; i < KW_ARRAY_SIZE(clocks_ms); i++) {
        for (n = 0; n < 5; n++)
            assert_int_equal(late_s(&node, n, clocks_ms[i], 0), 0);
        assert_in_range(late_s(&node, n++, clocks_ms[i], 6000), 5, 6);
        assert_int_equal(late_s(&node, n, clocks_ms[i], 0), 0);
    }
    /* a clock that is put back looks like a way that is longer; that is forgotten, slowly */
    assert_in_range(late_s(&node, ++n, -3600000 - 8000, 0), 7, 8);
    while (n < 2000)
        (void)late_s(&node, ++n, -3600000 - 8000, 0);
    assert_int_equal(late_s(&node, ++n, -3600000 - 8000, 0), 0);
    /* samples that are always late are not taken for those of a slow clock */
    for (n = 0; n < 1000; n++)
        assert_int_equal(late_s(&node, n, 0, 60000), 60);
    /* of the first sample its own clock is believed, within reason */
    assert_int_equal(late_s(&node, 0, 0, 100000), 100);
    assert_int_equal(late_s(&node, 0, -400000, 0), 0);
}

/* A first sample is as old as it says; one that advanced is new; one that stands still ages on; one
 * that went back says its age itself. */
static void test_ages(void **state)
{
    (void)state;
    struct kw_buf sample = {0};
    struct ext_instant later = {now.now_ns + 10 * SECOND, now.unix_ms + 10000};
    int64_t behind = now.unix_ms - 3600000; /* the agent's clock is an hour slow */

    write_sample(&sample, (struct written){.node = "a", .seq = 1, .t_unix_ms = behind});
    struct outcome first = ingest(sample.data, curve_text, NULL, now);
    assert_int_equal(first.node.fresh_ns, now.now_ns - 3600 * SECOND);
    struct outcome still = ingest(sample.data, curve_text, &first.node, later);
    assert_int_equal(still.node.fresh_ns, first.node.fresh_ns);
    write_sample(&sample, (struct written){.node = "a", .seq = 2, .t_unix_ms = behind + 10000});
    struct outcome next = ingest(sample.data, curve_text, &first.node, later);
    assert_int_equal(next.node.fresh_ns, later.now_ns);
    write_sample(&sample, (struct written){.node = "a", .seq = 3, .t_unix_ms = behind - 60000});
    struct outcome back = ingest(sample.data, curve_text, &next.node, later);
    assert_int_equal(back.node.fresh_ns, later.now_ns - 3670 * SECOND);
    /* a clock that is ahead, or absurd, makes no negative age and no overflow */
    write_sample(&sample, (struct written){.node = "a", .seq = 1, .t_unix_ms = INT64_MAX});
    struct outcome ahead = ingest(sample.data, curve_text, NULL, now);
    assert_int_equal(ahead.node.fresh_ns, now.now_ns);
    write_sample(&sample, (struct written){.node = "a", .seq = 1, .t_unix_ms = 0});
    struct outcome ancient = ingest(sample.data, curve_text, NULL, now);
    assert_true(ancient.node.fresh_ns < 0);
    kw_buf_free(&sample);
}

static void test_bad_samples(void **state)
{
    (void)state;
    struct kw_buf sample = {0};

    struct outcome missing = ingest(NULL, curve_text, NULL, now);
    assert_int_equal(missing.rc, -ENOENT);
    assert_int_equal(missing.skipped[EXT_SKIP_MISSING], 1);
    struct outcome bad = ingest("{\"schema\":1}", curve_text, NULL, now);
    assert_int_equal(bad.rc, -ENOENT);
    assert_int_equal(bad.skipped[EXT_SKIP_SAMPLE], 1);
    write_sample(&sample, (struct written){.node = "b", .seq = 1, .t_unix_ms = now.unix_ms});
    struct outcome other = ingest(sample.data, curve_text, NULL, now);
    assert_int_equal(other.rc, -ENOENT);
    assert_int_equal(other.skipped[EXT_SKIP_SAMPLE], 1);
    write_sample(&sample,
                 (struct written){.node = "a", .seq = 1, .t_unix_ms = now.unix_ms, .schema = 9});
    struct outcome future = ingest(sample.data, curve_text, NULL, now);
    assert_int_equal(future.rc, -ENOENT);
    assert_int_equal(future.skipped[EXT_SKIP_SCHEMA], 1);

    /* what was known before stays, and ages */
    write_sample(&sample,
                 (struct written){.node = "a", .seq = 1, .t_unix_ms = now.unix_ms, .used_mcpu = 5});
    struct outcome good = ingest(sample.data, curve_text, NULL, now);
    struct ext_instant later = {now.now_ns + SECOND, now.unix_ms + 1000};
    struct outcome kept = ingest("[]", curve_text, &good.node, later);
    assert_int_equal(kept.rc, 0);
    assert_int_equal(kept.skipped[EXT_SKIP_SAMPLE], 1);
    assert_true(kept.node.used_mcpu == 5 && kept.node.has_curve);
    assert_int_equal(kept.node.fresh_ns, now.now_ns);
    kw_buf_free(&sample);
}

static void test_curves(void **state)
{
    (void)state;
    struct kw_buf sample = {0};

    write_sample(&sample, (struct written){.node = "a", .seq = 1, .t_unix_ms = now.unix_ms});
    struct outcome none = ingest(sample.data, NULL, NULL, now);
    assert_int_equal(none.rc, 0);
    assert_false(none.node.has_curve);
    assert_int_equal(all_skipped(&none), 0);
    struct outcome bad = ingest(sample.data, "{\"schema\":1,\"capacity_mcpu\":0}", NULL, now);
    assert_int_equal(bad.rc, 0);
    assert_false(bad.node.has_curve);
    assert_int_equal(bad.skipped[EXT_SKIP_CURVE], 1);
    /* counted once, not at each sample */
    struct outcome again =
        ingest(sample.data, "{\"schema\":1,\"capacity_mcpu\":0}", &bad.node, now);
    assert_int_equal(all_skipped(&again), 0);
    assert_false(again.node.has_curve);
    /* and a good one makes it whole */
    struct outcome good = ingest(sample.data, curve_text, &again.node, now);
    assert_true(good.node.has_curve);
    struct outcome gone = ingest(sample.data, NULL, &good.node, now);
    assert_false(gone.node.has_curve);
    kw_buf_free(&sample);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_record), cmocka_unit_test(test_late_samples),
        cmocka_unit_test(test_ages),        cmocka_unit_test(test_bad_samples),
        cmocka_unit_test(test_curves),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
