/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "api/extender.h"
#include "extender/profiles.h"

/*
 * What a pod is expected to use, and how that is known. Pure: a request, and a pod that was seen
 * bound, get the same answer from the same profiles, on each replica.
 */

/** Where the expected CPU of a pod was taken from. */
enum ext_cpu_from {
    EXT_CPU_ANNOTATION, /**< kwatt.io/expected-cpu */
    EXT_CPU_PROFILE, /**< what its workload's pods used, and what follows by its number of pods */
    EXT_CPU_REQUEST, /**< its requests, times --request-use-percent */
    EXT_CPU_DEFAULT, /**< --default-cpu-mcpu */
    EXT_CPU_FROM__MAX
};

/** "annotation", "profile", "requests", "default"; index is enum ext_cpu_from. */
extern const char *const ext_cpu_from_names[EXT_CPU_FROM__MAX];

/** What is assumed where nothing was learnt; settings. */
struct ext_assumptions {
    uint64_t default_cpu_mcpu;    /**< > 0: of a pod without requests */
    uint64_t request_use_percent; /**< > 0: part of its requests that a pod uses */
};

struct ext_outlook {
    uint64_t mcpu; /**< > 0 */
    enum ext_cpu_from from;
    /* of EXT_CPU_PROFILE, else zero: */
    struct ext_profile profile;
    uint64_t assumed_mcpu; /**< what it would be without the profile */
    enum ext_cpu_from assumed_from;
    unsigned weight_permille; /**< of the profile; the rest is the assumption's */
};

/**
 * An annotation decides. Else n pods of its workload that were seen weigh n against the four that
 * the assumption counts for: a few short-lived pods do not outweigh what somebody wrote down, some
 * dozens do.
 * @param profiles may be NULL: nothing was learnt.
 */
void ext_outlook_find(const struct ext_assumptions *assumptions,
                      const struct ext_profiles *profiles, const struct kw_extender_pod *pod,
                      struct ext_outlook *ret);

/** Variance of the pod's use: how its workload's pods differ, where that is known, and no less than
 * what is assumed of any pod. */
double ext_outlook_variance_mcpu2(const struct ext_outlook *outlook);
