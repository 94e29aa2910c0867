/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/metrics.h"
#include "tests/support/cmocka.h"

static const struct kw_label pod[] = {{"pod", "a\"b\\c\nd"}, {"zone", "package"}, {NULL, NULL}};

static void write_page(enum kw_metrics_format format, struct kw_buf *out)
{
    struct kw_metrics_page page;

    kw_metrics_begin(&page, format, out);
    kw_metrics_family(&page, "kwatt_joules_total", KW_METRIC_COUNTER,
                      "Energy \"used\",\nall \\ zones.");
    kw_metrics_scaled(&page, pod, 1234567, 6);
    kw_metrics_family(&page, "kwatt_watts", KW_METRIC_GAUGE, "Power.");
    kw_metrics_double(&page, NULL, 0.1);
    kw_metrics_family(&page, "kwatt_build_info", KW_METRIC_INFO, "Build.");
    kw_metrics_u64(&page, NULL, 1);
    assert_int_equal(kw_metrics_end(&page), 0);
}

static void test_text_format(void **state)
{
    struct kw_buf out = {0};

    (void)state;
    write_page(KW_METRICS_TEXT, &out);
    assert_string_equal(out.data,
                        "# HELP kwatt_joules_total Energy \"used\",\\nall \\\\ zones.\n"
                        "# TYPE kwatt_joules_total counter\n"
                        "kwatt_joules_total{pod=\"a\\\"b\\\\c\\nd\",zone=\"package\"} 1.234567\n"
                        "# HELP kwatt_watts Power.\n"
                        "# TYPE kwatt_watts gauge\n"
                        "kwatt_watts 0.1\n"
                        "# HELP kwatt_build_info Build.\n"
                        "# TYPE kwatt_build_info gauge\n"
                        "kwatt_build_info 1\n");
    kw_buf_free(&out);
}

static void test_openmetrics_format(void **state)
{
    struct kw_buf out = {0};

    (void)state;
    write_page(KW_METRICS_OPENMETRICS, &out);
    assert_string_equal(out.data,
                        "# HELP kwatt_joules Energy \\\"used\\\",\\nall \\\\ zones.\n"
                        "# TYPE kwatt_joules counter\n"
                        "kwatt_joules_total{pod=\"a\\\"b\\\\c\\nd\",zone=\"package\"} 1.234567\n"
                        "# HELP kwatt_watts Power.\n"
                        "# TYPE kwatt_watts gauge\n"
                        "kwatt_watts 0.1\n"
                        "# HELP kwatt_build Build.\n"
                        "# TYPE kwatt_build info\n"
                        "kwatt_build_info 1\n"
                        "# EOF\n");
    kw_buf_free(&out);
}

static void check_double(const char *text, double value)
{
    struct kw_buf out = {0};
    struct kw_metrics_page page;
    char wanted[64];

    kw_metrics_begin(&page, KW_METRICS_TEXT, &out);
    page.name = "x";
    kw_metrics_double(&page, NULL, value);
    (void)snprintf(wanted, sizeof(wanted), "x %s\n", text);
    assert_string_equal(out.data, wanted);
    kw_buf_free(&out);
}

static void test_doubles(void **state)
{
    (void)state;
    check_double("0", 0);
    check_double("-1.5", -1.5);
    check_double("0.3", 0.3);
    check_double("0.30000000000000004", 0.1 + 0.2);
    check_double("123456789", 123456789);
    check_double("NaN", (double)NAN);
    check_double("+Inf", (double)INFINITY);
    check_double("-Inf", -(double)INFINITY);
    check_double("1.5e+300", 1.5e300);
}

static void check_scaled(const char *text, uint64_t value, unsigned decimals)
{
    struct kw_buf out = {0};
    struct kw_metrics_page page;
    char wanted[64];

    kw_metrics_begin(&page, KW_METRICS_TEXT, &out);
    page.name = "x";
    kw_metrics_scaled(&page, NULL, value, decimals);
    (void)snprintf(wanted, sizeof(wanted), "x %s\n", text);
    assert_string_equal(out.data, wanted);
    kw_buf_free(&out);
}

static void test_scaled_integers_are_exact(void **state)
{
    (void)state;
    check_scaled("0", 0, 0);
    check_scaled("0.000000", 0, 6);
    check_scaled("0.000001", 1, 6);
    check_scaled("1.000000", 1000000, 6);
    check_scaled("18446744073709.551615", UINT64_MAX, 6); /* a double holds 16 of these digits */
    check_scaled("18446744073709551615", UINT64_MAX, 0);
    check_scaled("1.8446744073709551615", UINT64_MAX, 19);
}

static void test_bad_utf8_is_replaced(void **state)
{
    const struct kw_label labels[] = {{"unit", "a\xff\xc3z\xc3\xa4"}, {"none", NULL}, {NULL, NULL}};
    struct kw_buf out = {0};
    struct kw_metrics_page page;

    (void)state;
    kw_metrics_begin(&page, KW_METRICS_TEXT, &out);
    page.name = "x";
    kw_metrics_u64(&page, labels, 1);
    assert_string_equal(out.data, "x{unit=\"a\xEF\xBF\xBD\xEF\xBF\xBDz\xc3\xa4\",none=\"\"} 1\n");
    kw_buf_free(&out);
}

static void write_histogram(enum kw_metrics_format format, struct kw_buf *out)
{
    static const uint64_t bounds_ns[] = {100, 250000, 1000000000, 10500000000};
    static const struct kw_label verb[] = {{"verb", "filter"}, {NULL, NULL}};
    static const struct kw_label *const labels[] = {verb};
    struct kw_histogram *histogram = kw_histogram_new(bounds_ns, KW_ARRAY_SIZE(bounds_ns));
    struct kw_metrics_page page;

    assert_non_null(histogram);
    kw_histogram_observe_ns(histogram, 100); /* a bound is part of its bucket */
    kw_histogram_observe_ns(histogram, 101);
    kw_histogram_observe_ns(histogram, 20000000000);
    kw_metrics_begin(&page, format, out);
    kw_metrics_histograms(&page, "t_seconds", "Time.", labels, &histogram, 1);
    assert_int_equal(kw_metrics_end(&page), 0);
    kw_histogram_free(&histogram);
    assert_null(histogram);
    kw_histogram_free(&histogram);
}

static void test_histograms(void **state)
{
    struct kw_buf out = {0};

    (void)state;
    write_histogram(KW_METRICS_TEXT, &out);
    assert_string_equal(out.data, "# HELP t_seconds Time.\n"
                                  "# TYPE t_seconds histogram\n"
                                  "t_seconds_bucket{verb=\"filter\",le=\"0.0000001\"} 1\n"
                                  "t_seconds_bucket{verb=\"filter\",le=\"0.00025\"} 2\n"
                                  "t_seconds_bucket{verb=\"filter\",le=\"1\"} 2\n"
                                  "t_seconds_bucket{verb=\"filter\",le=\"10.5\"} 2\n"
                                  "t_seconds_bucket{verb=\"filter\",le=\"+Inf\"} 3\n"
                                  "t_seconds_sum{verb=\"filter\"} 20.000000201\n"
                                  "t_seconds_count{verb=\"filter\"} 3\n");
    kw_buf_reset(&out);
    write_histogram(KW_METRICS_OPENMETRICS, &out);
    assert_non_null(strstr(out.data, "le=\"1.0\"} 2\n"));
    assert_non_null(strstr(out.data, "\n# EOF\n"));
    kw_buf_free(&out);
}

static void *observe_many(void *arg)
{
    for (unsigned i = 0; i < 20000; i++)
        kw_histogram_observe_ns(arg, i);
    return NULL;
}

static void test_histogram_loses_nothing_between_threads(void **state)
{
    static const uint64_t bounds_ns[] = {9999};
    struct kw_histogram *histogram = kw_histogram_new(bounds_ns, 1);
    struct kw_buf out = {0};
    struct kw_metrics_page page;
    pthread_t threads[4];

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, observe_many, histogram), 0);
    for (size_t i = 0; i < KW_ARRAY_SIZE(threads); i++)
        (void)pthread_join(threads[i], NULL);
    kw_metrics_begin(&page, KW_METRICS_TEXT, &out);
    kw_metrics_histograms(&page, "t", "T.", NULL, &histogram, 1);
    assert_non_null(strstr(out.data, "t_bucket{le=\"0.000009999\"} 40000\n"));
    assert_non_null(strstr(out.data, "t_count 80000\n"));
    assert_non_null(strstr(out.data, "t_sum 0.799960000\n"));
    kw_histogram_free(&histogram);
    kw_buf_free(&out);
}

static void test_negotiation(void **state)
{
    static const struct {
        const char *accept;
        enum kw_metrics_format format;
    } rows[] = {
        {NULL, KW_METRICS_TEXT},
        {"", KW_METRICS_TEXT},
        {"*/*", KW_METRICS_TEXT},
        {"text/html,application/xhtml+xml,*/*;q=0.8", KW_METRICS_TEXT},
        {"application/openmetrics-text", KW_METRICS_OPENMETRICS},
        {"APPLICATION/OpenMetrics-Text ; Version=1.0.0 ; Q=0.5", KW_METRICS_OPENMETRICS},
        {"application/openmetrics-text;version=\"1.0.0\"", KW_METRICS_OPENMETRICS},
        {"application/openmetrics-text;version=0.0.1", KW_METRICS_TEXT},
        {"application/openmetrics-text;q=0", KW_METRICS_TEXT},
        {"application/openmetrics-text;q=0.0,*/*;q=0", KW_METRICS_TEXT},
        {"application/openmetrics-text;q=bad", KW_METRICS_TEXT},
        {"application/openmetrics-text;q=2", KW_METRICS_TEXT},
        {"application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;"
         "version=0.0.1;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
         KW_METRICS_OPENMETRICS},
        {"text/plain;q=0.9,application/openmetrics-text;q=0.8", KW_METRICS_TEXT},
        {"text/plain;q=0.799,application/openmetrics-text;q=0.8", KW_METRICS_OPENMETRICS},
        {"text/plain,application/openmetrics-text", KW_METRICS_TEXT},
        {"application/openmetrics-text,text/plain", KW_METRICS_OPENMETRICS},
        {"*/*,text/plain;q=0.1,application/openmetrics-text;q=0.5", KW_METRICS_OPENMETRICS},
        {"x;a=\"application/openmetrics-text,\",;,,=;q=,\"", KW_METRICS_TEXT},
        {"application/openmetrics-text;x=\"", KW_METRICS_OPENMETRICS},
    };

    (void)state;
    for (size_t i = 0; i < KW_ARRAY_SIZE(rows); i++) {
        if (kw_metrics_negotiate(rows[i].accept) != rows[i].format)
            fail_msg("wrong format for: %s", rows[i].accept);
    }
    assert_string_equal(kw_metrics_content_type(KW_METRICS_TEXT),
                        "text/plain; version=0.0.4; charset=utf-8");
    assert_string_equal(kw_metrics_content_type(KW_METRICS_OPENMETRICS),
                        "application/openmetrics-text; version=1.0.0; charset=utf-8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text_format),
        cmocka_unit_test(test_openmetrics_format),
        cmocka_unit_test(test_doubles),
        cmocka_unit_test(test_scaled_integers_are_exact),
        cmocka_unit_test(test_bad_utf8_is_replaced),
        cmocka_unit_test(test_histograms),
        cmocka_unit_test(test_histogram_loses_nothing_between_threads),
        cmocka_unit_test(test_negotiation),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
