/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "api/curve.h"
#include "api/node_info.h"
#include "api/pod_record.h"
#include "api/sample.h"

/*
 * Everything one agent knows at one instant: what its /v1/pods answers. sample, records and
 * departed belong to the same window, so that exactly pods_uj of all domains = sum of
 * pods[].active_uj + departed_uj
 */
struct kw_node_view {
    struct kw_node_info info;
    struct kw_sample sample;
    struct kw_curve curve;
    uint64_t departed_idle_uj; /**< idle energy that they had by the sample's idle_policy */
    uint64_t departed_uj; /**< active energy of workloads that ended so long ago that they are not
                             listed */
    size_t n_pods;
    struct kw_pod_record *pods;
};

/** Frees the records; leaves *view zeroed. */
void kw_node_view_clear(struct kw_node_view *view);

/** Encode and decode as in api/sample.h; a decoded view is cleared by its caller. */
int kw_node_view_encode(const struct kw_node_view *view, char **ret, size_t *ret_len);
int kw_node_view_decode(const char *json, size_t len, struct kw_node_view *ret,
                        const char **ret_why);
