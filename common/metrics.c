/* SPDX-License-Identifier: Apache-2.0 */
#include "common/metrics.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/num.h"
#include "common/utf8.h"

/*
 * A page is text appended to a buffer; there is no registry, because every value already stands in
 * a published snapshot and a second copy could only disagree with it. The two formats differ in
 * four places, all in this file: OpenMetrics names a counter's or an info's family without the
 * suffix of its samples, escapes quotes in help texts, writes `le` as a float ("1.0"), and ends
 * with "# EOF". Text 0.0.4 knows no info type: it is a gauge there.
 *
 * Energy is counted in integers, so it is written from integers (kw_metrics_scaled): a double has
 * 53 bits, which at 1 kW holds microjoules for three months only. A label is foreign text (names of
 * pods, units, containers): bytes that are no UTF-8 become U+FFFD, since a scraper drops the whole
 * page for one of them.
 *
 * Histograms are counted lock-free: one relaxed add to a bucket and one to the sum. A reader adds
 * the buckets up once and takes their total as the count, so a page agrees with itself; the sum may
 * be ahead by the observations of that moment.
 */

/* Shortest of these precisions that reads back as the same double is written; 17 always does (IEEE
 * 754). */
#define PRECISION_MIN 15
#define PRECISION_MAX 17

/* Decimal places that still fit a u64: 10^19 < 2^64. */
#define DECIMALS_MAX 19

#define NS_DECIMALS 9

static const struct {
    const char *text;        /* type in format 0.0.4 */
    const char *openmetrics; /* type in OpenMetrics */
    const char *suffix;      /* of samples, not part of the OpenMetrics family name */
} types[] = {
    [KW_METRIC_GAUGE] = {"gauge", "gauge", ""},
    [KW_METRIC_COUNTER] = {"counter", "counter", "_total"},
    [KW_METRIC_INFO] = {"gauge", "info", "_info"},
};

_Static_assert(KW_ARRAY_SIZE(types) == KW_METRIC__MAX, "every metric type has its names");

struct kw_histogram {
    unsigned n;
    _Atomic uint64_t sum_ns;
    _Atomic uint64_t *counts; /* n + 1, the last for +Inf; behind `bounds_ns` in the same block */
    uint64_t bounds_ns[];
};

/* A byte becomes three at most: U+FFFD. */
#define ESCAPED_MAX 3

static char *put(char *at, const char *text, size_t len)
{
    memcpy(at, text, len);
    return at + len;
}

static char *puts_at(char *at, const char *text)
{
    return put(at, text, strlen(text));
}

/* Escapes help texts and label values. @param quote whether '"' needs a backslash too. @return the
 * end. */
static char *put_escaped(char *at, const char *text, bool quote)
{
    const char *end = text + strlen(text);

    while (text < end) {
        size_t width = 1;

        if (*text == '\n' || *text == '\\' || (quote && *text == '"')) {
            *at++ = '\\';
            *at++ = *text == '\n' ? 'n' : *text;
        } else if ((unsigned char)*text < 0x80) {
            *at++ = *text;
        } else {
            width = kw_utf8_next(text, (size_t)(end - text), NULL);
            at = width > 0 ? put(at, text, width) : puts_at(at, "\xEF\xBF\xBD");
            width = width > 0 ? width : 1;
        }
        text += width;
    }
    return at;
}

static void add_escaped(struct kw_buf *out, const char *text, bool quote)
{
    if (kw_buf_reserve(out, ESCAPED_MAX * strlen(text)) < 0)
        return;
    out->len = (size_t)(put_escaped(out->data + out->len, text, quote) - out->data);
    out->data[out->len] = '\0';
}

void kw_metrics_begin(struct kw_metrics_page *page, enum kw_metrics_format format,
                      struct kw_buf *out)
{
    *page = (struct kw_metrics_page){.out = out, .format = format};
}

/* The two comment lines of a family. */
static void add_family(struct kw_metrics_page *page, const char *name, size_t len, const char *type,
                       const char *help)
{
    struct kw_buf *out = page->out;

    (void)kw_buf_adds(out, "# HELP ");
    (void)kw_buf_add(out, name, len);
    (void)kw_buf_adds(out, " ");
    add_escaped(out, help, page->format == KW_METRICS_OPENMETRICS);
    (void)kw_buf_adds(out, "\n# TYPE ");
    (void)kw_buf_add(out, name, len);
    (void)kw_buf_adds(out, " ");
    (void)kw_buf_adds(out, type);
    (void)kw_buf_adds(out, "\n");
}

void kw_metrics_family(struct kw_metrics_page *page, const char *name, enum kw_metric_type type,
                       const char *help)
{
    bool openmetrics = page->format == KW_METRICS_OPENMETRICS;
    size_t len = strlen(name);
    size_t suffix = strlen(types[type].suffix);

    page->name = name;
    page->type = type;
    if (openmetrics && len > suffix && strcmp(name + len - suffix, types[type].suffix) == 0)
        len -= suffix;
    add_family(page, name, len, openmetrics ? types[type].openmetrics : types[type].text, help);
}

/* Name and labels of a sample, and the blank before its value: a page has thousands. @param le
 * value of the label le, or NULL. */
static void add_series(struct kw_buf *out, const char *name, const char *suffix,
                       const struct kw_label *labels, const char *le)
{
    static const struct kw_label none = {NULL, NULL};
    size_t most =
        strlen(name) + strlen(suffix) + sizeof("{le=\"\"} ") + (le != NULL ? strlen(le) : 0);
    char separator = '{';

    labels = labels != NULL ? labels : &none;
    for (const struct kw_label *label = labels; label->name != NULL; label++)
        most += strlen(label->name) + sizeof("{=\"\"") +
                (label->value != NULL ? ESCAPED_MAX * strlen(label->value) : 0);
    if (kw_buf_reserve(out, most) < 0)
        return;
    char *at = puts_at(puts_at(out->data + out->len, name), suffix);
    for (; labels->name != NULL; labels++) {
        *at++ = separator;
        at = put(puts_at(at, labels->name), "=\"", 2);
        at = labels->value == NULL ? at : put_escaped(at, labels->value, true);
        *at++ = '"';
        separator = ',';
    }
    if (le != NULL) {
        *at++ = separator;
        at = puts_at(puts_at(puts_at(at, "le=\""), le), "\"");
        separator = ',';
    }
    at = puts_at(at, separator == '{' ? " " : "} ");
    *at = '\0';
    out->len = (size_t)(at - out->data);
}

void kw_metrics_double(struct kw_metrics_page *page, const struct kw_label *labels, double value)
{
    char text[32]; /* sign, 17 digits, point, exponent of 5: 25 bytes */

    add_series(page->out, page->name, "", labels, NULL);
    if (isnan(value)) {
        (void)kw_buf_adds(page->out, "NaN\n");
        return;
    }
    if (isinf(value)) {
        (void)kw_buf_adds(page->out, value > 0 ? "+Inf\n" : "-Inf\n");
        return;
    }
    for (int precision = PRECISION_MIN; precision <= PRECISION_MAX; precision++) {
        double back = 0;

        (void)snprintf(text, sizeof(text), "%.*g", precision, value);
        if (kw_parse_double(text, -INFINITY, INFINITY, &back) == 0 && back == value)
            break;
    }
    (void)kw_buf_adds(page->out, text);
    (void)kw_buf_adds(page->out, "\n");
}

void kw_metrics_u64(struct kw_metrics_page *page, const struct kw_label *labels, uint64_t value)
{
    kw_metrics_scaled(page, labels, value, 0);
}

/* value / 10^decimals, all places: digit by digit, since a page has thousands of numbers. @param
 * text at least 32 bytes. */
static void format_scaled(char text[32], uint64_t value, unsigned decimals)
{
    char digits[32]; /* 20 at most, a point, and the NUL */
    size_t at = sizeof(digits);

    digits[--at] = '\0';
    for (unsigned i = 0; i < decimals || value > 0 || i == decimals; i++) {
        if (i == decimals && decimals > 0)
            digits[--at] = '.';
        digits[--at] = (char)('0' + value % 10);
        value /= 10;
    }
    memcpy(text, digits + at, sizeof(digits) - at);
}

void kw_metrics_scaled(struct kw_metrics_page *page, const struct kw_label *labels, uint64_t value,
                       unsigned decimals)
{
    char text[32];

    format_scaled(text, value, decimals < DECIMALS_MAX ? decimals : DECIMALS_MAX);
    add_series(page->out, page->name, "", labels, NULL);
    (void)kw_buf_adds(page->out, text);
    (void)kw_buf_add(page->out, "\n", 1);
}

int kw_metrics_end(struct kw_metrics_page *page)
{
    if (page->format == KW_METRICS_OPENMETRICS)
        (void)kw_buf_adds(page->out, "# EOF\n");
    return page->out->failed ? -ENOMEM : 0;
}

struct kw_histogram *kw_histogram_new(const uint64_t *bounds_ns, unsigned n)
{
    size_t bounds_bytes = n * sizeof(uint64_t);
    struct kw_histogram *histogram =
        calloc(1, sizeof(*histogram) + bounds_bytes + (n + (size_t)1) * sizeof(_Atomic uint64_t));

    if (histogram == NULL)
        return NULL;
    histogram->n = n;
    histogram->counts = (_Atomic uint64_t *)(void *)(histogram->bounds_ns + n);
    if (n > 0)
        memcpy(histogram->bounds_ns, bounds_ns, bounds_bytes);
    return histogram;
}

void kw_histogram_free(struct kw_histogram **histogram)
{
    free(*histogram);
    *histogram = NULL;
}

void kw_histogram_observe_ns(struct kw_histogram *histogram, uint64_t value_ns)
{
    unsigned i = 0;

    while (i < histogram->n && value_ns > histogram->bounds_ns[i])
        i++;
    atomic_fetch_add_explicit(&histogram->counts[i], 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&histogram->sum_ns, value_ns, memory_order_relaxed);
}

/* A bucket bound in seconds, without trailing zeros; OpenMetrics keeps one place ("1.0"). */
static void format_bound(char text[32], uint64_t bound_ns, enum kw_metrics_format format)
{
    size_t len;

    format_scaled(text, bound_ns, NS_DECIMALS);
    len = strlen(text);
    while (text[len - 1] == '0' && text[len - 2] != '.')
        len--;
    if (format == KW_METRICS_TEXT && text[len - 1] == '0')
        len -= 2; /* "1.0" -> "1" */
    text[len] = '\0';
}

static void add_histogram(struct kw_metrics_page *page, const char *name,
                          const struct kw_label *labels, const struct kw_histogram *histogram)
{
    struct kw_buf *out = page->out;
    uint64_t count = 0;
    char text[32];

    for (unsigned i = 0; i <= histogram->n; i++) {
        count += atomic_load_explicit(&histogram->counts[i], memory_order_relaxed);
        if (i < histogram->n)
            format_bound(text, histogram->bounds_ns[i], page->format);
        add_series(out, name, "_bucket", labels, i < histogram->n ? text : "+Inf");
        (void)kw_buf_addf(out, "%" PRIu64 "\n", count);
    }
    format_scaled(text, atomic_load_explicit(&histogram->sum_ns, memory_order_relaxed),
                  NS_DECIMALS);
    add_series(out, name, "_sum", labels, NULL);
    (void)kw_buf_addf(out, "%s\n", text);
    add_series(out, name, "_count", labels, NULL);
    (void)kw_buf_addf(out, "%" PRIu64 "\n", count);
}

void kw_metrics_histograms(struct kw_metrics_page *page, const char *name, const char *help,
                           const struct kw_label *const *labels,
                           struct kw_histogram *const *histograms, unsigned n)
{
    page->name = name;
    add_family(page, name, strlen(name), "histogram", help);
    for (unsigned i = 0; i < n; i++)
        add_histogram(page, name, labels == NULL ? NULL : labels[i], histograms[i]);
}
