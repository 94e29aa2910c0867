/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash with open addressing and linear probing over an array of nodes, at most half full. Built
 * whole and never changed, so that readers need nothing but a pointer.
 *
 * The table of a large cluster does not fit into the near caches, and a lookup misses them three
 * times in a row (slot, name, node). So what a request reads of a node is kept apart from the rest,
 * one cache line each, and a batch asks for all its slots, then for all its names and lines, so
 * that the misses of sixteen names overlap. The hash takes sixteen bytes a step: names are some 40
 * bytes and a request has hundreds of them. Its seed is random per process, because names come from
 * Redis, and one hostile writer must not be able to make every lookup slow.
 */
#include "extender/snapshot.h"

#include <stdlib.h>
#include <string.h>

/** Of what a request reads. */
#define CACHE_LINE 64
_Static_assert(sizeof(struct ext_live) == CACHE_LINE, "one miss a node");

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

/** Whether two texts of one length are the same; as `load`, without a call for the usual name. */
static bool is_same(const char *a, const char *b, size_t len)
{
    uint64_t differ = 0;

    if (len < 8)
        return memcmp(a, b, len) == 0;
    for (size_t at = 0; at + 8 < len; at += 8)
        differ |= load(a + at, 8) ^ load(b + at, 8);
    differ |= load(a + len - 8, 8) ^ load(b + len - 8, 8);
    return differ == 0;
}

/** Slot of a name: the one that holds it, or the empty one where it belongs. */
static struct ext_slot *find_slot(const struct ext_snapshot *snapshot, const struct ext_key *key,
                                  uint64_t hash)
{
    uint32_t tag = (uint32_t)(hash >> 32);

    for (size_t at = (size_t)hash & snapshot->mask;; at = (at + 1) & snapshot->mask) {
        struct ext_slot *slot = &snapshot->slots[at];
        if (slot->index == 0 || (slot->tag == tag && slot->name_len == key->len &&
                                 is_same(snapshot->names + slot->name_at, key->name, key->len)))
            return slot;
    }
}

static struct ext_live live_of(const struct ext_node *node)
{
    struct ext_live live = {.fresh_ns = node->fresh_ns, .interval_ns = node->interval_ns};

    if (node->has_curve)
        live.place = ext_place_of(&node->hull, node->used_mcpu, node->capacity_mcpu);
    return live;
}

static void copy_nodes(struct ext_snapshot *snapshot, const struct ext_node *nodes, size_t n)
{
    uint32_t at = 0;

    for (size_t i = 0; i < n; i++) {
        const struct ext_key key = {nodes[i].name, nodes[i].name_len};
        uint64_t hash = ext_hash(key.name, key.len, snapshot->seed);
        struct ext_node *node = &snapshot->nodes[snapshot->n];
        struct ext_slot *slot = find_slot(snapshot, &key, hash);
        if (slot->index != 0)
            continue;
        *node = nodes[i];
        node->name = snapshot->names + at;
        snapshot->live[snapshot->n] = live_of(node);
        memcpy(snapshot->names + at, key.name, key.len);
        snapshot->names[at + key.len] = '\0';
        *slot = (struct ext_slot){.index = (uint32_t)(++snapshot->n),
                                  .tag = (uint32_t)(hash >> 32),
                                  .name_at = at,
                                  .name_len = node->name_len};
        at += node->name_len + 1;
    }
}

struct ext_snapshot *ext_snapshot_new(const struct ext_node *nodes, size_t n, uint64_t seed)
{
    struct ext_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    size_t slots = 16;
    size_t bytes = 1;

    if (snapshot == NULL)
        return NULL;
    while (slots < n * 2)
        slots *= 2;
    for (size_t i = 0; i < n; i++)
        bytes += nodes[i].name_len + 1;
    snapshot->seed = seed;
    snapshot->mask = slots - 1;
    snapshot->nodes = calloc(n + 1, sizeof(*snapshot->nodes));
    snapshot->live = aligned_alloc(CACHE_LINE, (n + 1) * sizeof(*snapshot->live));
    snapshot->slots = calloc(slots, sizeof(*snapshot->slots));
    snapshot->names = malloc(bytes);
    if (snapshot->nodes == NULL || snapshot->live == NULL || snapshot->slots == NULL ||
        snapshot->names == NULL) {
        ext_snapshot_free(&snapshot);
        return NULL;
    }
    copy_nodes(snapshot, nodes, n);
    return snapshot;
}

void ext_snapshot_free(struct ext_snapshot **snapshot)
{
    if (*snapshot == NULL)
        return;
    free((*snapshot)->nodes);
    free((*snapshot)->live);
    free((*snapshot)->slots);
    free((*snapshot)->names);
    free(*snapshot);
    *snapshot = NULL;
}

const struct ext_node *ext_snapshot_find(const struct ext_snapshot *snapshot, const char *name,
                                         size_t len)
{
    const struct ext_key key = {name, len};

    if (snapshot == NULL)
        return NULL;
    const struct ext_slot *slot = find_slot(snapshot, &key, ext_hash(name, len, snapshot->seed));
    return slot->index == 0 ? NULL : &snapshot->nodes[slot->index - 1];
}

void ext_snapshot_find_batch(const struct ext_snapshot *snapshot, const struct ext_key *keys,
                             size_t n, const struct ext_live **ret)
{
    uint64_t hashes[EXT_BATCH];

    for (size_t i = 0; i < n; i++) {
        ret[i] = NULL;
        if (snapshot == NULL)
            continue;
        hashes[i] = ext_hash(keys[i].name, keys[i].len, snapshot->seed);
        __builtin_prefetch(&snapshot->slots[(size_t)hashes[i] & snapshot->mask]);
    }
    if (snapshot == NULL)
        return;
    for (size_t i = 0; i < n; i++) {
        const struct ext_slot *slot = &snapshot->slots[(size_t)hashes[i] & snapshot->mask];
        if (slot->tag != (uint32_t)(hashes[i] >> 32) || slot->index == 0)
            continue; /* further on, or unknown: rare enough to wait for */
        __builtin_prefetch(snapshot->names + slot->name_at);
        __builtin_prefetch(snapshot->names + slot->name_at + slot->name_len);
        __builtin_prefetch(&snapshot->live[slot->index - 1]);
    }
    for (size_t i = 0; i < n; i++) {
        const struct ext_slot *slot = find_slot(snapshot, &keys[i], hashes[i]);
        if (slot->index != 0)
            ret[i] = &snapshot->live[slot->index - 1];
    }
}
