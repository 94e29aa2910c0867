/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/metrics.h"
#include "vpa-recommender/stats.h"

/*
 * What the HTTP port shows, written from published statistics.
 */

/** The page of /metrics. @return 0 or -ENOMEM. */
int rec_pages_metrics(const struct rec_stats *stats, enum kw_metrics_format format,
                      struct kw_buf *out);

/**
 * Whether the loop lives: it has ended within the last five intervals (never less than a minute,
 * which is longer than one time-out of the API server). @param started_ns CLOCK_MONOTONIC of the
 * start. @param stats NULL before the first loop.
 * @param ret_why static text.
 */
bool rec_pages_healthy(const struct rec_stats *stats, uint64_t interval_ns, uint64_t started_ns,
                       uint64_t now_ns, const char **ret_why);

/** Whether the last loop had all it needs. @param stats may be NULL. @param ret_why static text. */
bool rec_pages_ready(const struct rec_stats *stats, const char **ret_why);
