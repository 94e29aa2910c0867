/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/pod.h"

/*
 * The pods that ended last, by workload: what a profile's expected life is learnt from, together
 * with those that run. What the API server tells, and no agent.
 */

/** Most that are kept: at ten pods a second those of half an hour, and a pass over the cluster
 * takes ten minutes. */
#define REC_ENDS_MAX 16384

/** A pod's life. */
struct rec_life {
    int64_t started_unix_ms; /**< > 0 */
    int64_t ended_unix_ms;   /**< 0: it runs */
};

/** @param key of the pod's workload, as kw_key_profile. */
typedef void (*rec_life_fn)(void *user, const char *key, const struct rec_life *life);

/** Zero-initialise. */
struct rec_ends {
    int64_t since_unix_ms; /**< from when on all ends are here; 0: not told yet */
    size_t n;              /**< ever */
    size_t cap;
    struct rec_end *ring;
};

/** Frees what it holds. */
void rec_ends_clear(struct rec_ends *ends);

/** Whether a pod has run to its end, though its object may still be there. */
bool rec_ends_is_over(const struct kw_pod *pod);

/** Notes that a pod has ended. One that never started or is of no workload is passed over; where
 * there is no room or memory, the time from which all are known moves on. */
void rec_ends_note(struct rec_ends *ends, const struct kw_pod *pod, int64_t now_unix_ms);

/** Calls fn with each. */
void rec_ends_each(const struct rec_ends *ends, rec_life_fn fn, void *user);

/** Calls fn with a pod that has started, is of a workload and is not over. */
void rec_ends_running(const struct kw_pod *pod, rec_life_fn fn, void *user);
