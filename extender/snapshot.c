/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash with open addressing and linear probing over an array of nodes, at most half full. Built
 * whole and never changed, so that readers need nothing but a pointer. The hash takes eight bytes a
 * step: names are some 40 bytes and a request has hundreds of them. Its seed is random per process,
 * because names come from Redis, and one hostile writer must not be able to make every lookup slow.
 */
#include "extender/snapshot.h"

#include <stdlib.h>
#include <string.h>

/** A sample may be late twice before its node counts as silent. */
#define STALE_INTERVALS 3

/** No honest agent publishes less often; bounds what a bad sample can claim for itself. */
#define INTERVAL_MAX_NS (UINT64_C(600) * 1000000000)

static uint64_t mix(uint64_t a, uint64_t b)
{
    /* the two halves of a 128-bit product depend on all bits of both factors (Wang Yi's wyhash) */
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* odd constants with about as many ones as zeros; any such do */
#define HASH_A UINT64_C(0x9e3779b97f4a7c15)
#define HASH_B UINT64_C(0xd6e8feb86659fd93)

uint64_t ext_hash(const char *bytes, size_t len, uint64_t seed)
{
    uint64_t hash = mix(seed ^ HASH_A, len ^ HASH_B);
    uint64_t word = 0;

    for (; len >= sizeof(word); bytes += sizeof(word), len -= sizeof(word)) {
        memcpy(&word, bytes, sizeof(word));
        hash = mix(hash ^ word, HASH_B ^ seed);
    }
    word = 0;
    if (len > 0)
        memcpy(&word, bytes, len);
    return mix(hash ^ word, HASH_A ^ seed);
}

/** Slot of a name: the one that holds it, or the empty one where it belongs. */
static size_t find_slot(const struct ext_snapshot *snapshot, const char *name, size_t len)
{
    size_t at = (size_t)ext_hash(name, len, snapshot->seed) & snapshot->mask;

    for (;; at = (at + 1) & snapshot->mask) {
        uint32_t slot = snapshot->slots[at];
        if (slot == 0)
            return at;
        const struct ext_node *node = &snapshot->nodes[slot - 1];
        if (node->name_len == len && memcmp(node->name, name, len) == 0)
            return at;
    }
}

static void copy_nodes(struct ext_snapshot *snapshot, const struct ext_node *nodes, size_t n)
{
    char *name = snapshot->names;

    for (size_t i = 0; i < n; i++) {
        struct ext_node *node = &snapshot->nodes[snapshot->n];
        size_t slot = find_slot(snapshot, nodes[i].name, nodes[i].name_len);
        if (snapshot->slots[slot] != 0)
            continue;
        *node = nodes[i];
        memcpy(name, nodes[i].name, nodes[i].name_len);
        name[nodes[i].name_len] = '\0';
        node->name = name;
        name += nodes[i].name_len + 1;
        snapshot->slots[slot] = (uint32_t)(++snapshot->n);
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
    snapshot->slots = calloc(slots, sizeof(*snapshot->slots));
    snapshot->names = malloc(bytes);
    if (snapshot->nodes == NULL || snapshot->slots == NULL || snapshot->names == NULL) {
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
    free((*snapshot)->slots);
    free((*snapshot)->names);
    free(*snapshot);
    *snapshot = NULL;
}

const struct ext_node *ext_snapshot_find(const struct ext_snapshot *snapshot, const char *name,
                                         size_t len)
{
    if (snapshot == NULL)
        return NULL;
    uint32_t slot = snapshot->slots[find_slot(snapshot, name, len)];
    return slot == 0 ? NULL : &snapshot->nodes[slot - 1];
}

bool ext_node_is_stale(const struct ext_node *node, int64_t now_ns, uint64_t stale_after_ns)
{
    uint64_t interval_ns =
        node->interval_ns < INTERVAL_MAX_NS ? node->interval_ns : INTERVAL_MAX_NS;
    uint64_t limit_ns = interval_ns * STALE_INTERVALS;

    if (limit_ns < stale_after_ns)
        limit_ns = stale_after_ns;
    return now_ns > node->fresh_ns && (uint64_t)(now_ns - node->fresh_ns) > limit_ns;
}
