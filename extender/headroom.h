/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "extender/node_table.h"
#include "extender/snapshot.h"
#include "extender/tally.h"
#include "extender/waiters.h"

/*
 * When a node's headroom is written to its annotation. Pure. It is written for people and programs
 * where it has changed by more than a twentieth, at most once a minute and node, whichever replica
 * wrote; and at once where a pod that caps have rejected would pass now, since a change of a node
 * is what makes kube-scheduler try rejected pods again. One such write wakes all.
 *
 * Replicas need no leader: what one writes the others see through their watch, and each lets a
 * random time of some seconds pass before a write that does not wake anybody.
 */

/** An annotation to be written. */
struct ext_headroom_write {
    char node[KW_NODE_NAME_MAX + 1];
    uint64_t room_w;
    bool remove; /**< no cap holds for the node any more */
    bool wakes;  /**< a rejected pod waits for it: the time that is written with it is the change */
};

/** Most writes of one round; the rest follow in the next. */
#define EXT_HEADROOM_WRITES 32

/** A node without any cap in force. */
#define EXT_NO_HEADROOM UINT64_MAX

/** What is left on a node for a pod, in whole watts, rounded down. */
uint64_t ext_headroom_watts(const struct ext_caps *caps, size_t index);

/**
 * @param snapshot without caps, all that wait are woken. @param table entries learn when they are
 * to be written.
 * @param held of pods that were let in and not seen since.
 * @param random any number, another one each time. @param ret EXT_HEADROOM_WRITES of them.
 * @return how many to write.
 */
size_t ext_headroom_plan(const struct ext_snapshot *snapshot, struct ext_node_table *table,
                         struct ext_waiters *waiters, const struct ext_tally_sum *held,
                         uint32_t random, int64_t now_ns, struct ext_headroom_write *ret);
