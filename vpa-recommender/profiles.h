/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/pod_record.h"
#include "api/profile.h"
#include "vpa-recommender/ends.h"

/*
 * From the records of a workload's pods to its profile. A record's counters run since the agent
 * first saw the pod, so that one record says what a pod used on average, and nothing has to be kept
 * from one reading to the next. Pure.
 */

/** Most workloads of one collection; as many as the extender keeps. */
#define REC_PROFILES_MAX 65536

/** Most pods of one workload that are looked at; their mean is good enough by then. */
#define REC_PROFILE_PODS 4096

/** What is collected. */
struct rec_profiles;

/** @return NULL on ENOMEM. */
struct rec_profiles *rec_profiles_new(void);
void rec_profiles_free(struct rec_profiles **profiles);

/** How many workloads were collected. */
size_t rec_profiles_count(const struct rec_profiles *profiles);

/**
 * Takes one pod of a workload. One that has not lived for long enough yet, or whose times or
 * counters cannot be, is passed over.
 * @param ns, owner of the pod, as the API server says.
 * @return 1: taken; 0: passed over; -ENOSPC too many workloads; -ENOMEM.
 */
int rec_profiles_add(struct rec_profiles *profiles, const char *ns,
                     const struct kw_top_owner *owner, const struct kw_pod_record *record,
                     int64_t now_unix_ms);

/** Forgets the lives that were added. */
void rec_profiles_forget_lives(struct rec_profiles *profiles);

/** Adds the life of a pod. That of a workload that was not collected is passed over. @param key of
 * the workload. @return 0 or -ENOMEM. */
int rec_profiles_add_life(struct rec_profiles *profiles, const char *key,
                          const struct rec_life *life);

/** One workload. */
struct rec_profile_pods;

/** The workloads, in any order. @return NULL after the last, and where there is none. */
const struct rec_profile_pods *rec_profiles_first(const struct rec_profiles *profiles);
const struct rec_profile_pods *rec_profiles_next(const struct rec_profile_pods *pods);

/** Its key, as kw_key_profile. */
const char *rec_profile_key(const struct rec_profile_pods *pods);

/**
 * What is known by now: the pods collected count whole; what was known before and is not of these
 * pods counts half after each day. Of lives counts what lies between the profile as it was, or
 * since all ends are known, and now.
 * @param known the profile as it was; NULL: none.
 * @param ends_since_unix_ms from when on no end is missing among the lives; 0: nothing is known of
 * any.
 */
void rec_profile_learn(const struct rec_profile_pods *pods, const struct kw_profile *known,
                       int64_t ends_since_unix_ms, int64_t now_unix_ms, struct kw_profile *ret);

/** Whether it is worth writing: a number has moved by more than its noise, or half a day has
 * passed. @param before NULL: none. */
bool rec_profile_differs(const struct kw_profile *before, const struct kw_profile *after);
