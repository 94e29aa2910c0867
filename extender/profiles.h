/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/profile.h"

/*
 * What was learnt of workloads, found by name in constant time and without allocating. Built by
 * extender/learnt.h, published whole, and not changed after that.
 */

/** Most workloads of which something is kept: several times those of the largest cluster that
 * Kubernetes supports. Eight megabytes. */
#define EXT_PROFILES_MAX 65536

/** What is kept of one workload. */
struct ext_profile {
    double score; /**< in the index when it was read: the same again is not read again */
    int64_t t_unix_ms;
    uint32_t pods_permille; /**< pods that it rests on, in thousandths; 0: nothing usable is known,
                               and it is not found */
    uint32_t used_mcpu;
    uint32_t sigma_mcpu;
    uint32_t core_mw; /**< 0: unknown */
    bool estimated;
    uint32_t ended_permille; /**< ends of its pods, in thousandths */
    uint64_t lived_ms;       /**< how long they were there meanwhile */
};

struct ext_profiles;

/** Empty. @param seed random, so that names cannot be chosen to collide. @return NULL on ENOMEM. */
struct ext_profiles *ext_profiles_new(uint64_t seed);
struct ext_profiles *ext_profiles_copy(const struct ext_profiles *profiles);
void ext_profiles_free(struct ext_profiles **profiles);

/** How many workloads can be found. @param profiles may be NULL. */
size_t ext_profiles_count(const struct ext_profiles *profiles);

/** Sets what is known of a workload. @param member "NS/KIND/NAME". @return 0; -ENOSPC; -ENOMEM. */
int ext_profiles_put(struct ext_profiles *profiles, const char *member, size_t len,
                     const struct ext_profile *profile);

/** What was put for a member, unusable or not. @param profiles may be NULL. @return NULL: nothing.
 */
const struct ext_profile *ext_profiles_at(const struct ext_profiles *profiles, const char *member,
                                          size_t len);

/** What is known of the workload of a pod. @param profiles may be NULL. @return NULL: nothing
 * usable. */
const struct ext_profile *ext_profiles_find(const struct ext_profiles *profiles, const char *ns,
                                            const struct kw_top_owner *owner);
