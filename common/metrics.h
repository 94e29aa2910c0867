/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/buf.h"

/*
 * Prometheus exposition, text 0.0.4 or OpenMetrics 1.0. A page is written family by family from a
 * published snapshot; only histograms are objects, since they are counted from several threads.
 */

enum kw_metrics_format { KW_METRICS_TEXT, KW_METRICS_OPENMETRICS };
enum kw_metric_type { KW_METRIC_GAUGE, KW_METRIC_COUNTER, KW_METRIC_INFO, KW_METRIC__MAX };

/** Names of a label and its value; value is escaped when written. */
struct kw_label {
    const char *name;
    const char *value;
};

/** A page being written. Zero-initialise, then kw_metrics_begin. */
struct kw_metrics_page {
    struct kw_buf *out;
    enum kw_metrics_format format;
    enum kw_metric_type type;
    const char *name;
};

/** OpenMetrics when the Accept header prefers it (quality values are honoured), text otherwise.
 * NULL: text. */
enum kw_metrics_format kw_metrics_negotiate(const char *accept);

/** Static Content-Type text of a format. */
const char *kw_metrics_content_type(enum kw_metrics_format format);

/** Starts a page that is appended to `out`. */
void kw_metrics_begin(struct kw_metrics_page *page, enum kw_metrics_format format,
                      struct kw_buf *out);

/** Starts a family. @param name full sample name; a counter's ends with "_total". Static text. */
void kw_metrics_family(struct kw_metrics_page *page, const char *name, enum kw_metric_type type,
                       const char *help);

/** One sample of the family. @param labels ends with name NULL; may be NULL. */
void kw_metrics_double(struct kw_metrics_page *page, const struct kw_label *labels, double value);
void kw_metrics_u64(struct kw_metrics_page *page, const struct kw_label *labels, uint64_t value);

/** An integer count in a unit of 10^-decimals of the metric's base unit, written exactly: 1234567
 * uJ, decimals 6 -> "1.234567". */
void kw_metrics_scaled(struct kw_metrics_page *page, const struct kw_label *labels, uint64_t value,
                       unsigned decimals);

/** Ends the page ("# EOF" in OpenMetrics). @return 0, or -ENOMEM where the buffer failed. */
int kw_metrics_end(struct kw_metrics_page *page);

struct kw_histogram; /* cumulative buckets, lock-free to observe from any thread */

/** @param bounds_ns upper bounds in nanoseconds, ascending, copied; +Inf is implied. @return NULL
 * on ENOMEM. */
struct kw_histogram *kw_histogram_new(const uint64_t *bounds_ns, unsigned n);
void kw_histogram_free(struct kw_histogram **histogram);
void kw_histogram_observe_ns(struct kw_histogram *histogram, uint64_t value_ns);

/** Writes a whole family in seconds: one histogram per label set. @param labels one set (ends with
 * NULL) per histogram. */
void kw_metrics_histograms(struct kw_metrics_page *page, const char *name, const char *help,
                           const struct kw_label *const *labels,
                           struct kw_histogram *const *histograms, unsigned n);
