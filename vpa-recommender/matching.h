/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "api/pod_record.h"
#include "vpa-recommender/cluster.h"
#include "vpa-recommender/targets.h"

/*
 * Which pods the VPAs cover, and the way of a record to the containers that it speaks of.
 */

/** One pod under one VPA. Borrows from the cluster: valid until its next event. */
struct rec_cover {
    struct rec_vpa *vpa;
    const struct kw_pod *pod;
};

/** Zero-initialised is empty. */
struct rec_covers {
    size_t n, cap;
    struct rec_cover *items; /**< after rec_covers_sort by node, then uid, then VPA */
};

/** Frees; leaves *covers empty. */
void rec_covers_clear(struct rec_covers *covers);

/** Adds the pods that a VPA covers, fills its n_pods and names, and enters out-of-memory kills.
 * @return 0 or -ENOMEM. */
int rec_covers_add(struct rec_covers *covers, const struct rec_cluster *cluster,
                   struct rec_owners *owners, struct rec_api *api, struct rec_vpa *vpa,
                   int64_t now_unix_ms);

/** Sorts for the two functions below. */
void rec_covers_sort(struct rec_covers *covers);

/**
 * Feeds a record to every VPA that covers its pod.
 * @param node that the record came from: a record of a pod that runs elsewhere is refused.
 * @param tally counts of enum rec_feed_result, added to.
 * @return 0; -ENOENT no VPA covers this pod on this node; -ENOMEM.
 */
int rec_covers_feed(const struct rec_covers *covers, const char *node,
                    const struct kw_pod_record *record, uint64_t interval_ms, int64_t now_unix_ms,
                    uint64_t tally[REC_FEED__MAX]);
