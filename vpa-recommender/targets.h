/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "common/err.h"
#include "common/kube.h"
#include "vpa-recommender/cluster.h"

/*
 * From a VPA's targetRef to its pods, by asking the API server: the selector of the target, whether
 * it is the topmost controller, and which controllers stand above a pod.
 */

/** Access to the API server with a budget of calls per loop, so that a burst of VPAs cannot flood
 * it. */
struct rec_api {
    struct kw_kube *kube;   /**< not owned */
    unsigned calls_left;    /**< of this loop */
    uint64_t calls, errors; /**< since start */
};

/** Whether a failed call was no answer at all: the server is away, or the program is to stop. */
bool rec_api_unanswered(int rc);

/** GET through the budget; a call without an answer spends all of it, or each of many would wait
 * for its time-out. @return as kw_kube_get; -EAGAIN where the budget is spent. */
int rec_api_get(struct rec_api *api, const char *path, struct kw_buf *ret_body, struct kw_err *err);

/**
 * Finds out where a targetRef leads and fills *target. What the API server could not answer leaves
 * *target as it was.
 * @return 0; as rec_api_get; -ENOMEM.
 */
int rec_target_resolve(struct rec_api *api, const struct kw_vpa *vpa, int64_t now_unix_ms,
                       struct rec_target *target, struct kw_err *err);

struct rec_owners;

/** Memory of who controls whom. @return NULL on ENOMEM. */
struct rec_owners *rec_owners_new(void);
void rec_owners_free(struct rec_owners **owners);

enum rec_belonging {
    REC_BELONGS,      /**< one of the controllers above it is the target; it has none; or that can
                         never be told (one is gone, unreadable, or of a kind that nobody knows):
                         then its labels, which matched, decide, as they alone do for the stock
                         recommender */
    REC_BELONGS_NOT,  /**< its controllers are others */
    REC_BELONGS_LATER /**< the API server did not answer, or was asked enough for this loop */
};

/** Whether a pod belongs to a target. */
enum rec_belonging rec_owners_belongs(struct rec_owners *owners, struct rec_api *api,
                                      const struct kw_pod *pod, const char *kind, const char *name,
                                      int64_t now_unix_ms);

/** Forgets controllers not asked for in an hour. */
void rec_owners_sweep(struct rec_owners *owners, int64_t now_unix_ms);
