/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/advice.h"
#include "api/pod_record.h"
#include "vpa-recommender/feed.h"

/*
 * The workloads of machines without an API server: each one that runs gets advice by itself, from
 * its own records alone.
 */

struct rec_workloads;

/** @return NULL on ENOMEM. */
struct rec_workloads *rec_workloads_new(void);
void rec_workloads_free(struct rec_workloads **workloads);

/**
 * Feeds one record. @param interval_ms, now_unix_ms as rec_feed.
 * @param tally counts of enum rec_feed_result, added to: one for each container.
 * @return 0; -ENOMEM; -ENOSPC where more than 100 000 workloads are known: the record is passed
 * over.
 */
int rec_workloads_feed(struct rec_workloads *workloads, const char *node,
                       const struct kw_pod_record *record, uint64_t interval_ms,
                       int64_t now_unix_ms, uint64_t tally[REC_FEED__MAX]);

/** Whether a workload of this id was fed with this very `now`, running. */
bool rec_workloads_running(const struct rec_workloads *workloads, const char *node, const char *id,
                           int64_t now_unix_ms);

/** Takes one advice. @return 0 to go on, or what rec_workloads_advise shall return. */
typedef int (*rec_advice_fn)(void *user, const char *node, const struct kw_advice *advice);

/** Makes the advice for every workload that was fed with this very `now`, running, and of which
 * there is a sample. @return 0; -ENOMEM; as fn. */
int rec_workloads_advise(const struct rec_workloads *workloads, int64_t now_unix_ms,
                         rec_advice_fn fn, void *user);

/** Forgets workloads that were not seen for a day: they may come back under the same id until then.
 */
void rec_workloads_sweep(struct rec_workloads *workloads, int64_t now_unix_ms);

/** For metrics. */
size_t rec_workloads_count(const struct rec_workloads *workloads);
