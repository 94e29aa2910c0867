/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/node.h"
#include "extender/tier_mark.h"

/*
 * The nodes as the API server tells of them, by name. Pure: the owner locks.
 */

/** What the API server tells of a node's sleep. */
struct ext_node_sleep {
    double wake_uj;    /**< where has_wake */
    uint32_t sleep_mw; /**< where has_sleep */
    bool sleepable, asleep;
    bool has_sleep, has_wake; /**< stated, and not what the agent saw */
};

/** One node. */
struct ext_node_entry {
    char *name;
    char *domain;           /**< "": none */
    char *zone;             /**< carbon zone; "": none */
    char uid[40];           /**< of the object, for Events; "": none that fits */
    double cap_mw;          /**< 0: none */
    uint64_t headroom_w;    /**< as the API server shows it */
    int64_t headroom_ns;    /**< when that was first seen (CLOCK_MONOTONIC); 0: never */
    int64_t wrote_ns;       /**< when this replica wrote it last; 0: never */
    int64_t due_ns;         /**< when a change is to be written; 0: there is none */
    uint32_t bad, bad_said; /**< bits of values that are bad; that an Event was asked for */
    struct ext_tier_mark tier;
    bool has_headroom;
    struct ext_node_sleep sleep;
    bool falling_asleep;
    bool named; /**< in the list at hand */
};

/** Most nodes that are kept, as of Redis. */
#define EXT_NODE_TABLE_MAX 100000

struct ext_node_table;

/** @param seed random, so that names cannot be chosen to collide. @return NULL on ENOMEM. */
struct ext_node_table *ext_node_table_new(uint64_t seed);
void ext_node_table_free(struct ext_node_table **table);

/** @return 0; -ENOSPC; -ENOMEM. */
int ext_node_table_put(struct ext_node_table *table, const struct kw_node *node, int64_t now_ns);
void ext_node_table_drop(struct ext_node_table *table, const char *name);

/** A full list begins, and ends: whoever was not put in between is gone. */
void ext_node_table_list_begin(struct ext_node_table *table);
void ext_node_table_list_end(struct ext_node_table *table);

/** How many nodes there are. */
size_t ext_node_table_count(const struct ext_node_table *table);
/** How many have a cap of their own or fall asleep. */
size_t ext_node_table_bound(const struct ext_node_table *table);

/** @return the node, or NULL. */
struct ext_node_entry *ext_node_table_find(const struct ext_node_table *table, const char *name);
/** Entry i < ext_node_table_count, in an order that a put or a drop may change. */
struct ext_node_entry *ext_node_table_at(const struct ext_node_table *table, size_t i);
