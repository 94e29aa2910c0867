/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "api/extender.h"
#include "extender/profiles.h"

/*
 * What a pod is expected to use and how long to live, and how that is known. Pure: a request, and a
 * pod that was seen bound, get the same answer from the same profiles, on each replica.
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

/** Where the expected life of a pod was taken from. */
enum ext_life_from {
    EXT_LIFE_ANNOTATION, /**< kwatt.io/expected-lifetime */
    EXT_LIFE_PROFILE,    /**< how long its workload's pods were there, by how many of them ended */
    EXT_LIFE_DEFAULT,    /**< KW_LIFE_ASSUMED_S */
    EXT_LIFE_FROM__MAX
};

/** "annotation", "profile", "default"; index is enum ext_life_from. */
extern const char *const ext_life_from_names[EXT_LIFE_FROM__MAX];

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
    uint64_t life_ms;         /**< 1..KW_POD_LIFE_MS_MAX */
    enum ext_life_from life_from;
    /* of EXT_LIFE_PROFILE, else zero: */
    uint32_t ended_permille;
    uint64_t lived_ms;
};

/**
 * An annotation decides. Else n pods of its workload that were seen weigh n against the four that
 * the assumption counts for: a few short-lived pods do not outweigh what somebody wrote down, some
 * dozens do. Its life is as kw_profile_life_s says.
 * @param profiles may be NULL: nothing was learnt.
 */
void ext_outlook_find(const struct ext_assumptions *assumptions,
                      const struct ext_profiles *profiles, const struct kw_extender_pod *pod,
                      struct ext_outlook *ret);

/**
 * What the energy of waking a node for a pod is spread over, in seconds: its life where an
 * annotation says so, else no less than half an hour and no more than two of what was learnt. A
 * node that was woken stays awake for the pods that follow: where short pods wake none, they keep
 * dearer nodes awake, and where long ones wake them for next to nothing, too many are. In the
 * simulator what was learnt costs 1.2 % of energy without bounds, and nothing within them
 * (docs/placement.md).
 */
double ext_outlook_wake_s(double life_s, enum ext_life_from from);

/** Variance of the pod's use: how its workload's pods differ, where that is known, and no less than
 * what is assumed of any pod. */
double ext_outlook_variance_mcpu2(const struct ext_outlook *outlook);
