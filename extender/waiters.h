/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Pods that caps have left without any node. kube-scheduler tries such a pod again when something
 * happens in the cluster, and watts that become free are no such thing; so they are kept here until
 * they were let in, and whoever sees that one has room now makes something happen
 * (extender/headroom.h). Requests write it and never wait for long.
 */

/** Most that are kept. An event in the cluster wakes all pods at once, so that more would bring
 * nothing but for their sizes. */
#define EXT_WAITERS_MAX 256

/** Candidates by a hash of their names, modulo this: their places in the snapshot change as nodes
 * come and go. */
#define EXT_WAITER_BITS 1024

/** The scheduler asks again within five minutes, whatever happens; a pod that it does not ask about
 * is gone. */
#define EXT_WAITER_NS (INT64_C(900) * 1000000000)

struct ext_waiter {
    uint64_t key;    /**< ext_tally_key; 0: free */
    double mcpu, mw; /**< expected of it, as in ext_tally_sum */
    double variance_mcpu2;
    bool critical;
    bool rejected;    /**< since it was woken last */
    unsigned tries;   /**< wakes in a row that led to nothing though there seemed to be room */
    int64_t asked_ns; /**< when it was rejected last */
    int64_t woken_ns; /**< when it was woken last; 0: never */
    int64_t next_ns;  /**< not to be woken before */
    uint64_t nodes[EXT_WAITER_BITS / 64];
};

/** Says that a waiter was offered a node. */
void ext_waiter_add(struct ext_waiter *waiter, const char *node, size_t len);

/** Whether it was, or one that is told by the same bit. */
bool ext_waiter_has(const struct ext_waiter *waiter, const char *node, size_t len);

/** Zero-initialised is empty. */
struct ext_waiters {
    _Atomic bool busy;
    _Atomic bool any;    /**< there may be some */
    _Atomic bool missed; /**< some pod could not be kept */
    struct ext_waiter all[EXT_WAITERS_MAX];
};

/** Keeps a pod that was rejected. @param waiter key, need and nodes; the rest is kept of the one
 * that is there. */
void ext_waiters_put(struct ext_waiters *waiters, const struct ext_waiter *waiter, int64_t now_ns);

/** It was let in. */
void ext_waiters_drop(struct ext_waiters *waiters, uint64_t key);

/** Copies all that are there and not too old. @param ret EXT_WAITERS_MAX of them. @return how many.
 */
size_t ext_waiters_copy(struct ext_waiters *waiters, int64_t now_ns, struct ext_waiter *ret);

/** Writes back tries, woken_ns, next_ns of one that was copied; and that it is no longer rejected,
 * unless it was rejected again meanwhile. */
void ext_waiters_update(struct ext_waiters *waiters, const struct ext_waiter *waiter);
