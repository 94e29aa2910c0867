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

struct ext_tally_entry {
    uint64_t key; /**< 0: free */
    uint64_t mcpu, mw;
    int64_t until_ns;
};

/** Zero-initialised is empty. */
struct ext_tally {
    _Atomic bool busy;
    _Atomic uint64_t mcpu, mw;             /**< sums of the entries */
    _Atomic uint64_t spilt_mcpu, spilt_mw; /**< of pods without an entry */
    _Atomic int64_t spilt_until_ns;
    struct ext_tally_entry entries[EXT_TALLY_MAX];
};

/** Key of a pod. @param name used where it has no uid. @return not 0. */
uint64_t ext_tally_key(const char *uid, const char *ns, const char *name);

/**
 * Enters a pod, or replaces it; what others have is returned.
 * @param mcpu, mw of the pod. @param ret_mcpu, ret_mw of all others.
 */
void ext_tally_put(struct ext_tally *tally, uint64_t key, uint64_t mcpu, uint64_t mw,
                   int64_t now_ns, uint64_t *ret_mcpu, uint64_t *ret_mw);

/** Forgets a pod, from a request: it was let in nowhere. Never waits. */
void ext_tally_take_back(struct ext_tally *tally, uint64_t key);

/** Forgets a pod: it was seen. Waits for a request that is at it, some ten nanoseconds. */
void ext_tally_seen(struct ext_tally *tally, uint64_t key);

/** Forgets those whose time is over. Waits as ext_tally_seen. */
void ext_tally_sweep(struct ext_tally *tally, int64_t now_ns);

/** What all have. */
void ext_tally_sum(const struct ext_tally *tally, uint64_t *ret_mcpu, uint64_t *ret_mw);
