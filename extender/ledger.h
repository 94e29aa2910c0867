/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/names.h"
#include "extender/snapshot.h"

/*
 * Pods in flight: placed on a node, and not yet in what its agent measures. Without them a burst of
 * pods would all see the node that was cheapest before the burst. Pure: the owner locks, and says
 * what time it is (CLOCK_MONOTONIC).
 *
 * A pod enters when it is seen bound to a node and waiting for its start; its expected CPU counts
 * in full until it has left that state, then less and less as the samples of its node cover the
 * time since, and not at all once one covers it whole. Entries are kept by uid, so that a pod that
 * is told again (a replay, a new list, a retry) counts once.
 */

/** Longest uid of a pod that is taken; Kubernetes makes UUIDs. */
#define EXT_UID_MAX 63

/** Most pods in flight; further ones do not count. Ten thousand starting at once are two hundred
 * bytes each. */
#define EXT_FLIGHTS_MAX 16384

/** A pod that has waited this long for its start has no image or no volume: it draws nothing. */
#define EXT_FLIGHT_PATIENCE_NS (INT64_C(300) * 1000000000)

/** A pod that left, on a node whose samples have not come for so long: its node is unknown to
 * scoring by then. */
#define EXT_FLIGHT_SILENCE_NS (INT64_C(60) * 1000000000)

struct ext_ledger;

/** A pod that is bound to a node and has not started. */
struct ext_bound_pod {
    char uid[EXT_UID_MAX + 1];
    char node[KW_NODE_NAME_MAX + 1];
    uint64_t mcpu;         /**< expected CPU */
    uint64_t mw;           /**< what it is said to draw; 0: not said */
    double variance_mcpu2; /**< of its use */
};

/** @param seed random, so that uids cannot be chosen to collide. @return 0 or -ENOMEM. */
int ext_ledger_new(uint64_t seed, struct ext_ledger **ret);
void ext_ledger_free(struct ext_ledger **ledger);

/** How many pods are in the ledger, those that no longer count and are still waiting included. */
size_t ext_ledger_count(const struct ext_ledger *ledger);

/**
 * A pod is bound and waits. One that is known and waits stays as it was first seen; one that was
 * thought to have left waits again.
 * @return 1: it is new, and counts from now; 0: known; -ENOSPC; -ENOMEM.
 */
int ext_ledger_bound(struct ext_ledger *ledger, const struct ext_bound_pod *pod, int64_t now_ns);

/** A pod waits no longer: it runs, or nobody knows. Unknown uids are passed over. */
void ext_ledger_left(struct ext_ledger *ledger, const char *uid, int64_t now_ns);

/** A pod is gone and will never run. Unknown uids are passed over. */
void ext_ledger_gone(struct ext_ledger *ledger, const char *uid);

/** A full list of waiting pods begins: ext_ledger_bound names each. Of pods that started before the
 * first one nobody tells, and samples show them later: until then their nodes are unseen. */
void ext_ledger_list_begin(struct ext_ledger *ledger);

/** It has ended: whoever was not named waits no longer. */
void ext_ledger_list_end(struct ext_ledger *ledger, int64_t now_ns);

/** In flight as caps have it: whole until a sample covers a pod whole, patience and silence
 * notwithstanding. */
struct ext_held {
    double mcpu;           /**< of pods that do not say what they draw */
    double square_mcpu2;   /**< sum of the squares of that */
    double variance_mcpu2; /**< of the use of those */
    double most_mcpu;      /**< of any one of those */
    double alone_mcpu;     /**< what that one may use beyond what counts of all; set by
                              ext_uptake_settle */
    double mw;             /**< of those that do */
    bool unseen;           /**< pods may run there that neither this nor a sample tells of */
    /* of all pods that samples show, and did not show when this was asked last: */
    double seen_mcpu;         /**< expected, by the part of it that is new */
    double seen_square_mcpu2; /**< the same part of the squares of what is expected */
};

/** A node is unseen for no more of its intervals: one that is silent counts by what was last known
 * of it. */
#define EXT_UNSEEN_INTERVALS 3

/** A pod that left, on a node that is silent, counts for caps so long. */
#define EXT_HELD_NS (INT64_C(3600) * 1000000000)

/**
 * What is in flight on each node of a snapshot, and forgets the pods that its samples cover; from
 * then on their nodes expect their use to wander.
 * @param ret_mcpu snapshot->n elements. @param ret_held the same for caps; NULL: there are none.
 * @return whether any is above 0.
 */
bool ext_ledger_settle(struct ext_ledger *ledger, struct ext_snapshot *snapshot, int64_t now_ns,
                       double *ret_mcpu, struct ext_held *ret_held);
