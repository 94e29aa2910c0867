/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/extender.h"
#include "api/top_owner.h"

/*
 * What the pods of one workload were seen to use and to draw: written by the recommender from the
 * agents' records, read by the extender, which expects the same of the next pod.
 *
 * A core is a logical CPU's time, whatever the machine: as in the pod records, in requests, and in
 * the capacity of a curve. So a profile learnt on one machine is used on any other unscaled, and
 * what a faster core does more is not in it (docs/placement-inputs.md).
 */

/** Most pods that a profile speaks for: what was learnt of more weighs no more. */
#define KW_PROFILE_PODS_MAX UINT64_C(10000)

/** Most that one pod is taken to use: 1021 cores, as in the histograms of the recommender. */
#define KW_PROFILE_MCPU_MAX UINT64_C(1021000)

/** Most that a core is taken to draw: a kilowatt. */
#define KW_PROFILE_MW_MAX UINT64_C(1000000)

/** Most that pods are taken to have lived, all together: ten thousand pods of three years. */
#define KW_PROFILE_LIVED_MAX_MS UINT64_C(1000000000000)

/** What a pod is expected to live of whose workload nothing is known. */
#define KW_LIFE_ASSUMED_S 3600.0

/** A profile that was not written for this long is none: as long as the recommender remembers. */
#define KW_PROFILE_AGE_MAX_MS (INT64_C(8) * 24 * 3600 * 1000)

/** Bytes for the unit of requests and its NUL. */
#define KW_PROFILE_UNIT_MAX 32

struct kw_profile {
    char ns[KW_NAMESPACE_MAX];
    struct kw_top_owner owner; /**< never empty */
    int64_t t_unix_ms;         /**< when it was learnt */
    uint64_t pods_permille;    /**< pods that it rests on, in thousandths, since those that are gone
                                  count by a part; 1..KW_PROFILE_PODS_MAX x 1000 */
    uint64_t used_mcpu;        /**< mean CPU use of a pod */
    uint64_t sigma_mcpu;       /**< standard deviation of that from pod to pod; of one pod 0 */
    uint64_t core_mw;          /**< active power of a core that it uses; 0: unknown */
    uint64_t request_uj;       /**< active energy of a request that it answers; 0: unknown */
    char request_unit[KW_PROFILE_UNIT_MAX]; /**< as in the pod record; "" with request_uj 0 */
    bool estimated;                         /**< some of the energy comes from a model */
    uint64_t lived_ms; /**< how long its pods ran while they were watched, all together, those that
                          still run included; at most KW_PROFILE_LIVED_MAX_MS */
    uint64_t ended_permille; /**< how many of them ended in that time, in thousandths; what is past
                                counts half after each day in both. Both 0: unknown */
};

/** Whether every rule stated above holds. @return NULL, or a static text naming the field. */
const char *kw_profile_check(const struct kw_profile *profile);

/**
 * How long the workload's next pod is expected to live: time lived / ends, which is the
 * maximum-likelihood estimate where lives are exponential and some have not ended (Epstein and
 * Sobel, Life Testing, 1953), and the mean of any lives while as many pods come as go (Little's
 * law). Beside that an hour counts like one pod more: lives of workloads lie orders of magnitude
 * apart, so that the first pod that ended is as good a guess. Nothing known: that hour.
 * @return seconds, > 0.
 */
double kw_profile_life_s(uint64_t lived_ms, uint64_t ended_permille);

/** Encode and decode as in api/sample.h; what kw_profile_check refuses is -EINVAL, or -EBADMSG. */
int kw_profile_encode(const struct kw_profile *profile, char **ret, size_t *ret_len);
int kw_profile_decode(const char *json, size_t len, struct kw_profile *ret, const char **ret_why);
