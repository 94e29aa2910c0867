/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "api/vpa.h"
#include "vpa-recommender/scope.h"

/*
 * From what is known to the status of a VPA.
 */

/** Conditions that this recommender sets; others it leaves as they stand. */
#define REC_CONDITION_PROVIDED       "RecommendationProvided"
#define REC_CONDITION_NO_PODS        "NoPodsMatched"
#define REC_CONDITION_UNSUPPORTED    "ConfigUnsupported"
#define REC_CONDITION_DEPRECATED     "ConfigDeprecated" /* removed, as the stock recommender does */
#define REC_CONDITION_LOW_CONFIDENCE "LowConfidence"

struct rec_recommend_input {
    const struct kw_vpa *vpa; /**< its status is the present one */
    struct rec_scope *scope;
    const char *unsupported; /**< why its targetRef cannot be followed; NULL where it can */
    size_t n_pods;           /**< live pods that it covers */
    size_t n_names;
    const char *const *names; /**< containers of those pods, without init containers; each once */
    int64_t now_unix_ms;
};

/**
 * Makes the whole new status.
 *  - A container gets an entry when it is not off, lives, and some use of it was seen; of a
 * resource never seen the present amount is kept, or none given.
 *  - An entry that stood there before this process saw the container is kept until an hour was
 * seen, unless more is needed: a restart must not throw a week's advice away for a minute's.
 *  - While no pods are there the present recommendation stays.
 * @param input its scope's `published` marks are brought up to date.
 * @param ret cleared by the caller.
 * @return 0 or -ENOMEM.
 */
int rec_recommend(const struct rec_recommend_input *input, struct kw_vpa_status *ret);
