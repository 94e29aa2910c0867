/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "extender/caps.h"
#include "extender/hull.h"
#include "extender/watts.h"
#include "extender/zones.h"

/*
 * What the extender knows of all nodes at one instant, found by name in constant time. Requests
 * read it; extender/refresh.h builds the next one and swaps it in. Once it is published one thing
 * alone changes: pods that were placed since move their nodes along their hulls.
 */

/**
 * One node. Times are of this machine's CLOCK_MONOTONIC, so that neither side's clock jumps matter.
 */
struct ext_node {
    double used_mcpu;
    double in_flight_mcpu; /**< of pods that used_mcpu does not show yet; the writer's alone */
    int64_t
        fresh_ns; /**< when what the sample says was true; may lie before this machine's start */
    uint64_t interval_ns;       /**< how often the agent publishes, as far as it said */
    struct ext_pricing pricing; /**< the hull is built with it: a change of its work_per_mcpu,
                                   sleepable, sleep_mw, reach or, where it is sleepable, wake_uj
                                   wants ext_pool_reprice */
    struct ext_hull hull;
    const char *name; /**< NUL-terminated, owned by the snapshot; NULL: an empty place */
    uint16_t name_len;
    bool sleep_told : 1; /**< the API server was asked about its sleep */
    bool has_curve : 1;  /**< false: the hull is not set, and the node is unknown to scoring */
    bool pooled : 1;     /**< the hull is of a shared curve (extender/pool.h) */
    bool alike : 1;      /**< all nodes that are awake and known share its curve and its price */
    uint8_t peers_fill;  /**< mean fill of those that share both, plus EXT_PEERS_FILL_MIN; 0: none
                            do */
    uint16_t zone; /**< place in the snapshot's zones, plus 1; EXT_ZONE_NONE; EXT_ZONE_UNLISTED */
    double score;  /**< its score in the sorted set of nodes when it was read */
    uint64_t epoch, seq;
    int64_t t_unix_ms;   /**< as the agent said */
    uint64_t curve_hash; /**< of the curve's text: an unchanged one is not decoded again */
    int64_t covered_ns;  /**< until when its sample surely covers it, for caps: what it was late
                            by is not covered */
    int64_t behind_ms;   /**< its clock, behind this machine's */
    float capacity_mcpu;
    struct ext_watts watts;
    /* what its agent knows of it; its hull may be of a curve that it shares (extender/pool.h) */
    uint64_t machine;                /**< class of machines that learn together; 0: of its own */
    uint32_t own_mw[KW_CURVE_KNOTS]; /**< its own curve at watts.load_permille */
    uint8_t own_sureness[KW_CURVE_KNOTS]; /**< confidence, in two hundredths */
    uint32_t seen_sleep_mw;               /**< its agent saw that; EXT_SLEEP_UNSEEN */
    float seen_wake_uj;                   /**< the same; negative: not seen */
};

#define EXT_SLEEP_UNSEEN UINT32_MAX

/** Of ext_node.peers_fill: what stands for no load, and steps to a full node. */
#define EXT_PEERS_FILL_MIN   1
#define EXT_PEERS_FILL_STEPS 254

/** As ext_place_of takes it: negative where it has no peers. */
static inline double ext_node_peers_fill(const struct ext_node *node)
{
    return ((double)node->peers_fill - EXT_PEERS_FILL_MIN) / (double)EXT_PEERS_FILL_STEPS;
}

/** The API server tells of no zone, or the zones do not name it. */
#define EXT_ZONE_NONE     0
#define EXT_ZONE_UNLISTED UINT16_MAX

/** Longest name that lies in its ext_live itself. */
#define EXT_NAME_INLINE 51

/** Good until then: a node that no instant finds placeable. */
#define EXT_NEVER_GOOD  INT64_MIN
/** A node that sleeps: nothing changes until it is woken. */
#define EXT_ALWAYS_GOOD INT64_MAX

/** What finding a node reads of it: one cache line. */
struct ext_live {
    int64_t good_until_ns;  /**< CLOCK_MONOTONIC after which its sample is stale; EXT_NEVER_GOOD
                               without a curve */
    _Atomic uint16_t moved; /**< where the node stands by now: place in `moved` plus 1; 0: in
                               `places` */
    uint16_t name_len;
    char text[EXT_NAME_INLINE + 1]; /**< the name, NUL-terminated; a longer one, or one that JSON
                                       would escape, leaves it empty */
};

/** Nodes that are calm together: as long as none of them has moved, nor is stale or without a
 * curve, nothing is read of them but where they stand. */
#define EXT_CALM 64

/** How often nodes can move before the next snapshot. */
#define EXT_MOVES_MAX 4096

/** Place of a name in the table. */
struct ext_slot {
    uint32_t index; /**< into nodes, plus 1; 0: empty */
    uint32_t tag;   /**< upper half of the name's hash */
};

struct ext_snapshot {
    size_t n;
    struct ext_node *nodes;
    struct ext_place *places;       /**< where each of the nodes stood when this was made; not set
                                       where it has no curve */
    struct ext_live *live;          /**< one for each of the nodes */
    _Atomic int64_t *calm_until_ns; /**< of each EXT_CALM nodes: no later than what is said there */
    uint64_t seed, stale_after_ns;  /**< what it was made with */
    uint64_t keys[8];               /**< of the hash, so that names cannot be chosen to collide */
    uint64_t id;                    /**< above 0, and of no other snapshot of this process */
    uint64_t names_id;      /**< of the names in their order: snapshots of one seed that have
                               the same names have the same */
    size_t mask;            /**< slots - 1, a power of two less one */
    struct ext_slot *slots; /**< open addressing */
    char *names;            /**< of nodes that have none in `live` */
    void *block;            /**< all these arrays */
    size_t block_bytes;
    struct ext_place *moved; /**< EXT_MOVES_MAX of them, in the order they were made; NULL: none */
    size_t n_moved;          /**< the writer's alone */
    struct ext_caps *caps;   /**< NULL: there are none */
    struct ext_zones *zones; /**< that nodes are priced by; held; NULL: there are none */
};

/** A name that is looked for. */
struct ext_key {
    const char *name;
    size_t len;
};

/** Names looked for at the same time: their cache misses overlap. More brings nothing, a core has a
 * dozen fill buffers. */
#define EXT_BATCH 16

/** Hash of bytes under a key; the same for the same bytes and key on one machine. */
uint64_t ext_hash(const char *bytes, size_t len, uint64_t seed);

/**
 * Copies the nodes and their names into a new snapshot, in their order. Of two nodes with one name
 * the first counts.
 * @param nodes their names may belong to another snapshot.
 * @param stale_after_ns how old a sample may be, as for ext_is_stale.
 * @return NULL on ENOMEM.
 */
struct ext_snapshot *ext_snapshot_new(const struct ext_node *nodes, size_t n, uint64_t seed,
                                      uint64_t stale_after_ns);
/** The same nodes in a snapshot of their own, with none of its moves. @return NULL on ENOMEM. */
struct ext_snapshot *ext_snapshot_copy(const struct ext_snapshot *snapshot);
void ext_snapshot_free(struct ext_snapshot **snapshot);

/** @param snapshot NULL: nothing is known. @return the node, or NULL. */
const struct ext_node *ext_snapshot_find(const struct ext_snapshot *snapshot, const char *name,
                                         size_t len);

/** Finds up to EXT_BATCH names at once. @param snapshot not NULL. @param ret n elements: index of
 * the node, plus 1; 0: unknown. */
void ext_snapshot_find_batch(const struct ext_snapshot *snapshot, const struct ext_key *keys,
                             size_t n, uint32_t *ret);

/** Replaces what is known of a node, but for its name. @param snapshot not published yet. */
void ext_snapshot_set(struct ext_snapshot *snapshot, size_t index, const struct ext_node *node);

/** Where all nodes stand, once more: their hulls have changed. @param snapshot not published yet.
 */
void ext_snapshot_restand(struct ext_snapshot *snapshot);

/** Sets what is in flight on a node. @param snapshot not published yet. */
void ext_snapshot_set_in_flight(struct ext_snapshot *snapshot, size_t index, double mcpu);

/** Sets the zone of a node and what a joule costs there. @param snapshot not published yet. */
void ext_snapshot_set_zone(struct ext_snapshot *snapshot, size_t index, uint16_t zone,
                           double energy_price);

/**
 * Adds a pod to what is in flight on a node, while requests read the snapshot: they see the node
 * before or after it. One thread at a time.
 * @return 0; -ENOENT no such node, or one without a curve; -ENOSPC moved too often (the next
 * snapshot has the pod); -ENOMEM.
 */
int ext_snapshot_add_in_flight(struct ext_snapshot *snapshot, const char *node, double mcpu);

/** Where a node with a curve stands by now. */
static inline const struct ext_place *ext_place_now(const struct ext_snapshot *snapshot,
                                                    size_t index)
{
    uint16_t moved = atomic_load_explicit(&snapshot->live[index].moved, memory_order_acquire);

    return moved == 0 ? &snapshot->places[index] : &snapshot->moved[moved - 1];
}

/** Whether a node is good, and stands where it stood when the snapshot was made; false where that
 * is not sure. */
static inline bool ext_snapshot_is_calm(const struct ext_snapshot *snapshot, size_t index,
                                        int64_t now_ns)
{
    return now_ns <=
           atomic_load_explicit(&snapshot->calm_until_ns[index / EXT_CALM], memory_order_relaxed);
}

/** Where a node stands by now. @return NULL where its sample is stale, or it has no curve. */
static inline const struct ext_place *ext_place_good(const struct ext_snapshot *snapshot,
                                                     size_t index, int64_t now_ns)
{
    if (ext_snapshot_is_calm(snapshot, index, now_ns))
        return &snapshot->places[index];
    return now_ns > snapshot->live[index].good_until_ns ? NULL : ext_place_now(snapshot, index);
}

/** The node that a place of a snapshot is of. */
static inline const struct ext_node *ext_place_node(const struct ext_place *place)
{
    /* a place points to its node's hull, which lies in the node */
    return (const struct ext_node *)((const char *)place->hull - offsetof(struct ext_node, hull));
}

/** The zone of a node. @return NULL: unknown. */
static inline const struct ext_zone *ext_snapshot_zone(const struct ext_snapshot *snapshot,
                                                       const struct ext_node *node)
{
    /* without zones the node is not looked at, which is a miss of the caches */
    if (snapshot->zones == NULL || node->zone == EXT_ZONE_NONE || node->zone == EXT_ZONE_UNLISTED)
        return NULL;
    return &snapshot->zones->items[node->zone - 1];
}

/** A sample may be late twice before its node counts as silent. */
#define EXT_STALE_INTERVALS 3

/** No honest agent publishes less often; bounds what a bad sample can claim for itself. */
#define EXT_INTERVAL_MAX_NS (UINT64_C(600) * 1000000000)

/**
 * Until when a node's sample is one to place by: as long as it is no older than `stale_after_ns`,
 * or than three of the node's own publish intervals, so that a node that publishes rarely is not
 * stale between two of its samples. @param stale_after_ns at most ten years.
 */
static inline int64_t ext_good_until_ns(int64_t fresh_ns, uint64_t interval_ns,
                                        uint64_t stale_after_ns)
{
    uint64_t limit_ns = EXT_STALE_INTERVALS *
                        (interval_ns < EXT_INTERVAL_MAX_NS ? interval_ns : EXT_INTERVAL_MAX_NS);

    return fresh_ns + (int64_t)(limit_ns < stale_after_ns ? stale_after_ns : limit_ns);
}

/** Whether a node's sample is too old to place by. */
static inline bool ext_is_stale(int64_t fresh_ns, uint64_t interval_ns, int64_t now_ns,
                                uint64_t stale_after_ns)
{
    return now_ns > ext_good_until_ns(fresh_ns, interval_ns, stale_after_ns);
}
