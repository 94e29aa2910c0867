/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash with open addressing and linear probing over an array of nodes, at most half full. Built
 * whole, so that readers need nothing but a pointer. Where pods are placed meanwhile, their node's
 * new place is written beside the old ones and then pointed to: a reader holds the one or the
 * other.
 *
 * The table of a large cluster does not fit into the near caches, and a lookup misses them twice in
 * a row (slot, node). So what a request reads of a node is kept apart from the rest, a cache line
 * to find it and one to price it, and a batch asks for all its slots, then for all those lines, so
 * that the misses of sixteen names overlap. The hash of a name is a sum of products that do not
 * wait for each other: names are some 40 bytes and a request has hundreds of them. Its keys are
 * random per process, because names come from Redis, and one hostile writer must not be able to
 * make every lookup slow.
 */
#include "extender/snapshot.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "common/bytes.h"

/** Of what a request reads. */
#define LINE 64
_Static_assert(sizeof(struct ext_live) == LINE, "one miss to find a node");
_Static_assert(sizeof(struct ext_place) == LINE, "one miss to price it");

static uint64_t mix(uint64_t a, uint64_t b)
{
    /* the two halves of a 128-bit product depend on all bits of both factors (Wang Yi's wyhash) */
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* odd constants with about as many ones as zeros; any such do. One is in each factor: with the seed
 * alone, a seed and bytes of 0 would make the product 0, whatever else was hashed */
#define HASH_A UINT64_C(0x9e3779b97f4a7c15)
#define HASH_B UINT64_C(0xd6e8feb86659fd93)

static uint64_t load(const char *bytes, size_t len)
{
    uint64_t word = 0;

    memcpy(&word, bytes, len);
    return word;
}

uint64_t ext_hash(const char *bytes, size_t len, uint64_t seed)
{
    uint64_t hash = seed ^ len;
    const char *at = bytes;
    size_t left = len;

    for (; left > 16; at += 16, left -= 16)
        hash = mix(load(at, 8) ^ HASH_A ^ hash, load(at + 8, 8) ^ HASH_B ^ seed);
    /* the last 1..16 bytes; words may overlap, the length is part of the hash */
    uint64_t first = left >= 8 ? load(at, 8) : load(at, left);
    uint64_t last = left >= 8 ? load(at + left - 8, 8) : 0;
    return mix(mix(first ^ HASH_B ^ hash, last ^ HASH_A ^ seed), HASH_A ^ seed);
}

/** Independent of the others: the sum of such parts is the hash of a name. */
static inline uint64_t part(const char *at, const uint64_t *keys)
{
    return mix(load(at, 8) ^ keys[0], load(at + 8, 8) ^ keys[1]);
}

/** ext_hash for names, under the snapshot's keys. Parts may overlap, the length is hashed too. */
static inline uint64_t hash_name(const uint64_t keys[8], const char *name, size_t len)
{
    if (len < 16 || len > 64)
        return ext_hash(name, len, keys[0]);
    uint64_t sum = part(name, keys) + part(name + len - 16, keys + 2);
    if (len > 32)
        sum += part(name + 16, keys + 4) + part(name + len - 32, keys + 6);
    return mix(sum ^ len, HASH_A);
}

/** Slot of a name: the one that holds it, or the empty one where it belongs. */
static inline struct ext_slot *find_slot(const struct ext_snapshot *snapshot,
                                         const struct ext_key *key, uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 32);

    for (size_t at = (size_t)hash & snapshot->mask;; at = (at + 1) & snapshot->mask) {
        struct ext_slot *slot = &snapshot->slots[at];
        if (slot->index == 0)
            return slot;
        const struct ext_live *live = &snapshot->live[slot->index - 1];
        if (slot->tag != tag || live->name_len != key->len)
            continue;
        const char *name =
            live->text[0] != '\0' ? live->text : snapshot->nodes[slot->index - 1].name;
        if (kw_bytes_same(name, key->name, key->len))
            return slot;
    }
}

/** Whether a name stands in JSON with its own bytes, and is short enough for `text`. */
static bool is_plain(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (name[i] <= ' ' || name[i] > '~' || name[i] == '"' || name[i] == '\\')
            return false;
    }
    return len > 0 && len <= EXT_NAME_INLINE;
}

static struct ext_place stand_of(const struct ext_node *node)
{
    const struct ext_pricing *pricing = &node->pricing;
    double work = pricing->work_per_mcpu > 0 ? pricing->work_per_mcpu : 1;
    double used_mcpu = pricing->asleep ? 0 : node->used_mcpu * work;
    double peers_fill = ext_node_peers_fill(node);
    struct ext_place place = ext_place_of(&node->hull, used_mcpu + node->in_flight_mcpu,
                                          (double)node->capacity_mcpu * work, peers_fill,
                                          node->alike ? (double)INFINITY : EXT_PEERS_BAND);

    ext_place_price(&place, pricing);
    /* one pod pays for waking a node */
    place.wake_uj = node->in_flight_mcpu > 0 ? 0 : place.wake_uj;
    return place;
}

/** Sets what requests read of a node. @param snapshot not published yet. */
static void show(struct ext_snapshot *snapshot, size_t index)
{
    const struct ext_node *node = &snapshot->nodes[index];
    struct ext_live live = {.good_until_ns = EXT_NEVER_GOOD, .name_len = (uint16_t)node->name_len};
    _Atomic int64_t *calm = &snapshot->calm_until_ns[index / EXT_CALM];

    if (node->has_curve) {
        snapshot->places[index] = stand_of(node);
        live.good_until_ns =
            node->pricing.asleep
                ? EXT_ALWAYS_GOOD
                : ext_good_until_ns(node->fresh_ns, node->interval_ns, snapshot->stale_after_ns);
    }
    if (is_plain(node->name, node->name_len))
        memcpy(live.text, node->name, node->name_len);
    snapshot->live[index] = live;
    /* it does not rise where a node is set again: the next snapshot has it right */
    bool first = index % EXT_CALM == 0 && index == snapshot->n;
    if (first || live.good_until_ns < *calm)
        *calm = live.good_until_ns;
}

static void copy_nodes(struct ext_snapshot *snapshot, const struct ext_node *nodes, size_t n)
{
    char *name_at = snapshot->names;

    for (size_t i = 0; i < n; i++) {
        const struct ext_key key = {nodes[i].name, nodes[i].name_len};
        uint64_t hash = hash_name(snapshot->keys, key.name, key.len);
        struct ext_node *node = &snapshot->nodes[snapshot->n];
        struct ext_slot *slot = find_slot(snapshot, &key, hash);
        if (slot->index != 0)
            continue;
        *node = nodes[i];
        show(snapshot, snapshot->n);
        node->name = snapshot->live[snapshot->n].text;
        if (*node->name == '\0') {
            memcpy(name_at, key.name, key.len);
            name_at[key.len] = '\0';
            node->name = name_at;
            name_at += key.len + 1;
        }
        *slot =
            (struct ext_slot){.index = (uint32_t)(++snapshot->n), .tag = (uint32_t)(hash >> 32)};
        snapshot->names_id = mix(snapshot->names_id ^ hash, HASH_B);
    }
}

/**
 * Blocks from this size on are mapped by themselves, so that the kernel has them back when a
 * snapshot is replaced, which is each second. The allocator would keep them, in pieces: it raises
 * its own threshold to what was freed last. Smaller ones are its own, where sanitizers watch them.
 */
#define MAPPED_BYTES (128 * (size_t)1024)

/** @return zeros, aligned to LINE; NULL on ENOMEM. */
static void *new_block(size_t bytes)
{
    if (bytes < MAPPED_BYTES) {
        void *block = aligned_alloc(LINE, bytes);
        return block == NULL ? NULL : memset(block, 0, bytes);
    }
    void *block = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return block == MAP_FAILED ? NULL : block;
}

static void free_block(void *block, size_t bytes)
{
    if (bytes < MAPPED_BYTES)
        free(block);
    else if (block != NULL)
        (void)munmap(block, bytes);
}

/** @param n nodes, with names of so many bytes. @return 0 or -ENOMEM. */
static int make_room(struct ext_snapshot *snapshot, size_t n, size_t slots, size_t name_bytes)
{
    size_t places = (n + 1) * sizeof(*snapshot->places);
    size_t live = (n + 1) * sizeof(*snapshot->live);
    size_t calm = (n / EXT_CALM + 1) * sizeof(*snapshot->calm_until_ns);
    size_t nodes = (n + 1) * sizeof(*snapshot->nodes);
    size_t table = slots * sizeof(*snapshot->slots);
    size_t bytes = places + live + calm + nodes + table + name_bytes;
    char *block;

    bytes = (bytes + LINE - 1) / LINE * LINE;
    block = new_block(bytes);
    if (block == NULL)
        return -ENOMEM;
    snapshot->block = block;
    snapshot->block_bytes = bytes;
    snapshot->places = (void *)block;
    snapshot->live = (void *)(block + places);
    snapshot->calm_until_ns = (void *)(block + places + live);
    snapshot->nodes = (void *)(block + places + live + calm);
    snapshot->slots = (void *)(block + places + live + calm + nodes);
    snapshot->names = block + places + live + calm + nodes + table;
    return 0;
}

/** Keys from a seed, each as random as it is. */
static void make_keys(uint64_t keys[8], uint64_t seed)
{
    for (uint64_t i = 0; i < 8; i++)
        keys[i] = ext_hash((const char *)&i, sizeof(i), seed);
}

struct ext_snapshot *ext_snapshot_new(const struct ext_node *nodes, size_t n, uint64_t seed,
                                      uint64_t stale_after_ns)
{
    static _Atomic uint64_t made;
    struct ext_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    size_t slots = 16;
    size_t bytes = 1;

    if (snapshot == NULL)
        return NULL;
    while (slots < n * 2)
        slots *= 2;
    for (size_t i = 0; i < n; i++)
        bytes += is_plain(nodes[i].name, nodes[i].name_len) ? 0 : nodes[i].name_len + 1;
    snapshot->id = 1 + atomic_fetch_add_explicit(&made, 1, memory_order_relaxed);
    snapshot->seed = seed;
    snapshot->stale_after_ns = stale_after_ns;
    make_keys(snapshot->keys, seed);
    snapshot->mask = slots - 1;
    if (make_room(snapshot, n, slots, bytes) < 0) {
        ext_snapshot_free(&snapshot);
        return NULL;
    }
    copy_nodes(snapshot, nodes, n);
    return snapshot;
}

struct ext_snapshot *ext_snapshot_copy(const struct ext_snapshot *snapshot)
{
    return ext_snapshot_new(snapshot->nodes, snapshot->n, snapshot->seed, snapshot->stale_after_ns);
}

void ext_snapshot_free(struct ext_snapshot **snapshot)
{
    if (*snapshot == NULL)
        return;
    free_block((*snapshot)->block, (*snapshot)->block_bytes);
    free((*snapshot)->moved);
    ext_caps_free(&(*snapshot)->caps);
    ext_zones_free(&(*snapshot)->zones);
    free(*snapshot);
    *snapshot = NULL;
}

const struct ext_node *ext_snapshot_find(const struct ext_snapshot *snapshot, const char *name,
                                         size_t len)
{
    const struct ext_key key = {name, len};

    if (snapshot == NULL)
        return NULL;
    const struct ext_slot *slot = find_slot(snapshot, &key, hash_name(snapshot->keys, name, len));
    return slot->index == 0 ? NULL : &snapshot->nodes[slot->index - 1];
}

void ext_snapshot_set(struct ext_snapshot *snapshot, size_t index, const struct ext_node *node)
{
    struct ext_node *place = &snapshot->nodes[index];
    const char *name = place->name;

    *place = *node;
    place->name = name;
    show(snapshot, index);
}

void ext_snapshot_restand(struct ext_snapshot *snapshot)
{
    for (size_t i = 0; i < snapshot->n; i++) {
        if (snapshot->nodes[i].has_curve)
            snapshot->places[i] = stand_of(&snapshot->nodes[i]);
    }
}

void ext_snapshot_set_in_flight(struct ext_snapshot *snapshot, size_t index, double mcpu)
{
    struct ext_node *node = &snapshot->nodes[index];

    node->in_flight_mcpu = mcpu;
    if (node->has_curve)
        snapshot->places[index] = stand_of(node);
}

void ext_snapshot_set_zone(struct ext_snapshot *snapshot, size_t index, uint16_t zone,
                           double energy_price)
{
    struct ext_node *node = &snapshot->nodes[index];

    node->zone = zone;
    node->pricing.energy_price = (float)energy_price;
    if (node->has_curve)
        snapshot->places[index] = stand_of(node);
}

int ext_snapshot_add_in_flight(struct ext_snapshot *snapshot, const char *node, double mcpu)
{
    const struct ext_node *found = ext_snapshot_find(snapshot, node, strlen(node));

    if (found == NULL || !found->has_curve)
        return -ENOENT;
    if (snapshot->n_moved == EXT_MOVES_MAX)
        return -ENOSPC;
    if (snapshot->moved == NULL)
        snapshot->moved = aligned_alloc(LINE, EXT_MOVES_MAX * sizeof(*snapshot->moved));
    if (snapshot->moved == NULL)
        return -ENOMEM;
    size_t index = (size_t)(found - snapshot->nodes);
    snapshot->nodes[index].in_flight_mcpu += mcpu;
    snapshot->moved[snapshot->n_moved++] = stand_of(found);
    /* one that still takes the node for calm has it where it stood before */
    atomic_store_explicit(&snapshot->calm_until_ns[index / EXT_CALM], EXT_NEVER_GOOD,
                          memory_order_relaxed);
    /* whoever sees the new index sees the place and the array, too */
    atomic_store_explicit(&snapshot->live[index].moved, (uint16_t)snapshot->n_moved,
                          memory_order_release);
    return 0;
}

void ext_snapshot_find_batch(const struct ext_snapshot *snapshot, const struct ext_key *keys,
                             size_t n, uint32_t *ret)
{
    uint64_t hashes[EXT_BATCH];

    for (size_t i = 0; i < n; i++) {
        hashes[i] = hash_name(snapshot->keys, keys[i].name, keys[i].len);
        __builtin_prefetch(&snapshot->slots[(size_t)hashes[i] & snapshot->mask]);
    }
    for (size_t i = 0; i < n; i++) {
        /* where the name is further on, or unknown, this fetches a line too many */
        uint32_t index = snapshot->slots[(size_t)hashes[i] & snapshot->mask].index;
        __builtin_prefetch(&snapshot->live[index == 0 ? 0 : index - 1]);
        __builtin_prefetch(&snapshot->places[index == 0 ? 0 : index - 1]);
    }
    for (size_t i = 0; i < n; i++)
        ret[i] = find_slot(snapshot, &keys[i], hashes[i])->index;
}
