/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A hash of chains over an array of entries. Entries stand where they were put and are linked by
 * index, so that the array can grow; free ones are chained too.
 *
 * A sample speaks of its window: what a pod uses in it is in the node's used CPU by the part of the
 * window that the pod ran. So a pod that started inside the window counts by the other part. A
 * sample ends when it came, or earlier where its own clock says so: samples that come a minute late
 * do not show the pods of that minute.
 *
 * A program that starts is told of the pods that wait. Those that another one let in and that have
 * left since are known to nobody until a sample shows them, which is a window later at the least:
 * so long a node may run anything, and is said to be unseen.
 */
#include "extender/ledger.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define BUCKETS     4096
#define ENTRIES_MIN 64

/** No entry. */
#define NONE UINT32_MAX

enum state {
    FREE,
    WAITING,
    LEFT, /**< started, as far as anybody knows */
};

struct entry {
    struct ext_bound_pod pod;
    enum state state;
    uint32_t next;    /**< in its chain, or of the free ones */
    bool named;       /**< in the list at hand */
    int64_t since_ns; /**< when it came to its state */
    double unseen;    /**< part of it that no sample had shown when that was asked last, 0..1 */
};

struct ext_ledger {
    uint64_t seed;
    struct entry *entries;
    uint32_t n, cap; /**< entries that were ever used; that there is room for */
    uint32_t free;
    size_t count;
    bool listed;
    int64_t since_ns; /**< all that left later is known; 0: nothing was asked yet */
    uint32_t buckets[BUCKETS];
};

int ext_ledger_new(uint64_t seed, struct ext_ledger **ret)
{
    struct ext_ledger *ledger = calloc(1, sizeof(*ledger));

    if (ledger == NULL)
        return -ENOMEM;
    ledger->seed = seed;
    ledger->free = NONE;
    for (size_t i = 0; i < BUCKETS; i++)
        ledger->buckets[i] = NONE;
    *ret = ledger;
    return 0;
}

void ext_ledger_free(struct ext_ledger **ledger)
{
    if (*ledger == NULL)
        return;
    free((*ledger)->entries);
    free(*ledger);
    *ledger = NULL;
}

size_t ext_ledger_count(const struct ext_ledger *ledger)
{
    return ledger->count;
}

/** Where the index of a uid's entry stands, or NONE. */
static uint32_t *find(struct ext_ledger *ledger, const char *uid)
{
    uint32_t *at = &ledger->buckets[ext_hash(uid, strlen(uid), ledger->seed) % BUCKETS];

    while (*at != NONE && strcmp(ledger->entries[*at].pod.uid, uid) != 0)
        at = &ledger->entries[*at].next;
    return at;
}

/** Forgets the entry that stands there. */
static void forget(struct ext_ledger *ledger, uint32_t *at)
{
    uint32_t index = *at;
    struct entry *entry = &ledger->entries[index];

    *at = entry->next;
    entry->state = FREE;
    entry->next = ledger->free;
    ledger->free = index;
    ledger->count--;
}

static int grow(struct ext_ledger *ledger)
{
    uint32_t cap = ledger->cap == 0 ? ENTRIES_MIN : ledger->cap * 2;

    if (ledger->cap == EXT_FLIGHTS_MAX)
        return -ENOSPC;
    struct entry *grown = reallocarray(ledger->entries, cap, sizeof(*grown));
    if (grown == NULL)
        return -ENOMEM;
    ledger->entries = grown;
    ledger->cap = cap;
    return 0;
}

int ext_ledger_bound(struct ext_ledger *ledger, const struct ext_bound_pod *pod, int64_t now_ns)
{
    uint32_t *at = find(ledger, pod->uid);
    uint32_t index = ledger->free;

    if (*at != NONE) {
        struct entry *known = &ledger->entries[*at];
        known->named = true;
        if (known->state != WAITING)
            known->since_ns = now_ns;
        known->state = WAITING;
        return 0;
    }
    if (index != NONE) {
        ledger->free = ledger->entries[index].next;
    } else {
        int rc = ledger->n < ledger->cap ? 0 : grow(ledger);
        if (rc < 0)
            return rc;
        index = ledger->n++;
        at = find(ledger, pod->uid); /* its chain may have moved */
    }
    ledger->entries[index] = (struct entry){.pod = *pod,
                                            .state = WAITING,
                                            .next = NONE,
                                            .named = true,
                                            .since_ns = now_ns,
                                            .unseen = 1};
    *at = index;
    ledger->count++;
    return 1;
}

static void leave(struct entry *entry, int64_t now_ns)
{
    if (entry->state != WAITING)
        return;
    entry->state = LEFT;
    entry->since_ns = now_ns;
}

void ext_ledger_left(struct ext_ledger *ledger, const char *uid, int64_t now_ns)
{
    const uint32_t *at = find(ledger, uid);

    if (*at != NONE)
        leave(&ledger->entries[*at], now_ns);
}

void ext_ledger_gone(struct ext_ledger *ledger, const char *uid)
{
    uint32_t *at = find(ledger, uid);

    if (*at != NONE)
        forget(ledger, at);
}

void ext_ledger_list_begin(struct ext_ledger *ledger)
{
    for (uint32_t i = 0; i < ledger->n; i++)
        ledger->entries[i].named = false;
}

void ext_ledger_list_end(struct ext_ledger *ledger, int64_t now_ns)
{
    for (uint32_t i = 0; i < ledger->n; i++) {
        if (!ledger->entries[i].named)
            leave(&ledger->entries[i], now_ns);
    }
    if (!ledger->listed)
        ledger->since_ns = now_ns;
    ledger->listed = true;
}

static int64_t window_ns(const struct ext_node *node)
{
    return (int64_t)(node->interval_ns < EXT_INTERVAL_MAX_NS ? node->interval_ns
                                                             : EXT_INTERVAL_MAX_NS);
}

/** Part of a pod that has left which its node's samples do not show, 0..1. */
static double unseen(const struct entry *entry, const struct ext_node *node)
{
    double seen_ns = (double)(node->covered_ns - entry->since_ns);

    if (seen_ns <= 0)
        return 1;
    return seen_ns >= (double)window_ns(node) ? 0 : 1 - seen_ns / (double)window_ns(node);
}

/** Part of a pod's CPU that counts as in flight, 0..1. @param node NULL: unknown. */
static double weight(const struct entry *entry, const struct ext_node *node, int64_t now_ns)
{
    int64_t age_ns = now_ns - entry->since_ns;

    if (entry->state == WAITING)
        return age_ns > EXT_FLIGHT_PATIENCE_NS ? 0 : 1;
    if (node == NULL ||
        (age_ns > EXT_FLIGHT_SILENCE_NS && now_ns - node->fresh_ns > EXT_FLIGHT_SILENCE_NS))
        return 0;
    return unseen(entry, node);
}

/** Whether a pod counts for caps: whole, until a sample covers it whole, however long that takes.
 */
static bool counts(const struct entry *entry, const struct ext_node *node, int64_t now_ns)
{
    if (entry->state == WAITING)
        return true;
    return node != NULL && now_ns - entry->since_ns < EXT_HELD_NS &&
           node->covered_ns < entry->since_ns + window_ns(node);
}

/** Whether pods may run on a node that left before anything was known of them, and that no sample
 * shows. */
static bool is_unseen(const struct ext_ledger *ledger, const struct ext_snapshot *snapshot,
                      const struct ext_node *node, int64_t now_ns)
{
    int64_t shown_ns = ledger->since_ns + window_ns(node);

    return node->covered_ns < shown_ns &&
           now_ns < ledger->since_ns + EXT_UNSEEN_INTERVALS * window_ns(node) &&
           !ext_is_stale(node->fresh_ns, node->interval_ns, now_ns, snapshot->stale_after_ns);
}

static void hold(const struct ext_bound_pod *pod, struct ext_held *held)
{
    held->mw += (double)pod->mw;
    if (pod->mw > 0)
        return;
    held->mcpu += (double)pod->mcpu;
    held->square_mcpu2 += (double)pod->mcpu * (double)pod->mcpu;
    held->variance_mcpu2 += pod->variance_mcpu2;
    if ((double)pod->mcpu > held->most_mcpu)
        held->most_mcpu = (double)pod->mcpu;
}

/** What the samples show of a pod that they did not show before. */
static void see(struct entry *entry, const struct ext_node *node, struct ext_held *held)
{
    double left = entry->state == LEFT ? unseen(entry, node) : 1;

    if (left >= entry->unseen)
        return;
    double mcpu = (entry->unseen - left) * (double)entry->pod.mcpu;
    held->seen_mcpu += mcpu;
    held->seen_square_mcpu2 += mcpu * (double)entry->pod.mcpu;
    entry->unseen = left;
}

bool ext_ledger_settle(struct ext_ledger *ledger, struct ext_snapshot *snapshot, int64_t now_ns,
                       double *ret_mcpu, struct ext_held *ret_held)
{
    bool any = false;

    if (ledger->since_ns == 0)
        ledger->since_ns = now_ns;
    for (size_t i = 0; i < snapshot->n; i++) {
        ret_mcpu[i] = 0;
        if (ret_held != NULL)
            ret_held[i] = (struct ext_held){
                .unseen = is_unseen(ledger, snapshot, &snapshot->nodes[i], now_ns)};
    }
    for (uint32_t i = 0; i < ledger->n; i++) {
        struct entry *entry = &ledger->entries[i];
        if (entry->state == FREE)
            continue;
        const struct ext_node *node =
            ext_snapshot_find(snapshot, entry->pod.node, strlen(entry->pod.node));
        double part = weight(entry, node, now_ns);
        if (node != NULL && part > 0) {
            ret_mcpu[node - snapshot->nodes] += part * (double)entry->pod.mcpu;
            any = true;
        }
        bool held = ret_held != NULL && counts(entry, node, now_ns);
        if (ret_held != NULL && node != NULL)
            see(entry, node, &ret_held[node - snapshot->nodes]);
        if (held && node != NULL)
            hold(&entry->pod, &ret_held[node - snapshot->nodes]);
        any = any || held;
        if (part > 0 || held || entry->state != LEFT)
            continue;
        if (node != NULL && ret_held != NULL)
            ext_watts_join(&snapshot->nodes[node - snapshot->nodes].watts,
                           entry->pod.variance_mcpu2);
        forget(ledger, find(ledger, entry->pod.uid));
    }
    return any;
}
