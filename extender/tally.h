/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Pods that /filter has let in under caps and that nobody has seen on a node since. The scheduler
 * binds in the background while it asks about the next pods, so between the answer and the news of
 * the binding a pod might be on any node that was passed; without this each of a burst would be
 * given the same watts. Kept by uid, so that a retry counts once, and for a time, so that a pod
 * that went nowhere does not count for ever.
 *
 * Requests write it and never wait: where another thread is at it, or there is no place, a pod goes
 * to a sum that nothing but time clears.
 */

/** Most pods that are told apart. */
#define EXT_TALLY_MAX 4096

/** A binding is known by then: a watch that has died is noticed within a minute and a half. */
#define EXT_TALLY_NS (INT64_C(100) * 1000000000)

/** While it is known that nobody tells of bindings, so much longer: a pod that is bound then waits
 * for its start, and its samples come later still. */
#define EXT_TALLY_BLIND_NS (INT64_C(300) * 1000000000)

/** What pods are expected to use, or said to draw, and the variance of the use. */
struct ext_tally_sum {
    uint64_t mcpu, mw, variance_mcpu2;
};

struct ext_tally_entry {
    uint64_t key; /**< 0: free */
    struct ext_tally_sum sum;
    int64_t until_ns;
};

/** A sum that several threads write. */
struct ext_tally_atomic {
    _Atomic uint64_t mcpu, mw, variance_mcpu2;
};

/** Zero-initialised is empty. */
struct ext_tally {
    _Atomic bool busy;
    struct ext_tally_atomic all;   /**< of the entries */
    struct ext_tally_atomic spilt; /**< of pods without an entry */
    _Atomic int64_t spilt_until_ns;
    struct ext_tally_entry entries[EXT_TALLY_MAX];
};

/** Key of a pod. @param name used where it has no uid. @return not 0. */
uint64_t ext_tally_key(const char *uid, const char *ns, const char *name);

/** Enters a pod, or replaces it. @param ret_others what all others have. */
void ext_tally_put(struct ext_tally *tally, uint64_t key, const struct ext_tally_sum *pod,
                   int64_t now_ns, struct ext_tally_sum *ret_others);

/** Forgets a pod, from a request: it was let in nowhere. Never waits. */
void ext_tally_take_back(struct ext_tally *tally, uint64_t key);

/** Forgets a pod: it was seen. Waits for a request that is at it, some ten nanoseconds. */
void ext_tally_seen(struct ext_tally *tally, uint64_t key);

/** Forgets those whose time is over. Waits as ext_tally_seen. */
void ext_tally_sweep(struct ext_tally *tally, int64_t now_ns);

/** What all have. */
void ext_tally_sum(const struct ext_tally *tally, struct ext_tally_sum *ret);
