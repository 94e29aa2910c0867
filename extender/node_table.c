/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dense array of entries and open addressing over their indices, at most half full. An entry that
 * goes leaves its place to the last one; the slots behind the freed one move up, so that no
 * tombstones pile up while nodes come and go.
 */
#include "extender/node_table.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "extender/snapshot.h"

#define ENTRIES_MIN 64

struct ext_node_table {
    uint64_t seed;
    struct ext_node_entry *entries;
    size_t n, cap;
    uint32_t *slots; /**< index plus 1; 0: empty; 2 x cap of them */
};

struct ext_node_table *ext_node_table_new(uint64_t seed)
{
    struct ext_node_table *table = calloc(1, sizeof(*table));

    if (table != NULL)
        table->seed = seed;
    return table;
}

static void clear_entry(struct ext_node_entry *entry)
{
    free(entry->name);
    free(entry->domain);
    free(entry->zone);
}

void ext_node_table_free(struct ext_node_table **table)
{
    if (*table == NULL)
        return;
    for (size_t i = 0; i < (*table)->n; i++)
        clear_entry(&(*table)->entries[i]);
    free((*table)->entries);
    free((*table)->slots);
    free(*table);
    *table = NULL;
}

size_t ext_node_table_count(const struct ext_node_table *table)
{
    return table->n;
}

struct ext_node_entry *ext_node_table_at(const struct ext_node_table *table, size_t i)
{
    return &table->entries[i];
}

size_t ext_node_table_bound(const struct ext_node_table *table)
{
    size_t n = 0;

    for (size_t i = 0; i < table->n; i++)
        n += table->entries[i].cap_mw > 0 || table->entries[i].falling_asleep;
    return n;
}

static size_t home_of(const struct ext_node_table *table, const char *name)
{
    return (size_t)ext_hash(name, strlen(name), table->seed) & (2 * table->cap - 1);
}

/** Slot that holds the name, or the empty one where it belongs. */
static size_t slot_of(const struct ext_node_table *table, const char *name)
{
    size_t at = home_of(table, name);

    while (table->slots[at] != 0 && strcmp(table->entries[table->slots[at] - 1].name, name) != 0)
        at = (at + 1) & (2 * table->cap - 1);
    return at;
}

struct ext_node_entry *ext_node_table_find(const struct ext_node_table *table, const char *name)
{
    if (table->cap == 0)
        return NULL;
    uint32_t index = table->slots[slot_of(table, name)];
    return index == 0 ? NULL : &table->entries[index - 1];
}

static int grow(struct ext_node_table *table)
{
    size_t cap = table->cap == 0 ? ENTRIES_MIN : table->cap * 2;

    if (table->n == EXT_NODE_TABLE_MAX)
        return -ENOSPC;
    if (table->n < table->cap)
        return 0;
    uint32_t *slots = calloc(2 * cap, sizeof(*slots));
    struct ext_node_entry *entries =
        slots == NULL ? NULL : reallocarray(table->entries, cap, sizeof(*entries));
    if (entries == NULL) {
        free(slots);
        return -ENOMEM;
    }
    free(table->slots);
    table->slots = slots;
    table->entries = entries;
    table->cap = cap;
    for (size_t i = 0; i < table->n; i++)
        table->slots[slot_of(table, entries[i].name)] = (uint32_t)i + 1;
    return 0;
}

/** A text for an entry: the one that it has where that is the same. */
static int set_text(char **text, const char *value)
{
    if (*text != NULL && strcmp(*text, value) == 0)
        return 0;
    char *copy = strdup(value);
    if (copy == NULL)
        return -ENOMEM;
    free(*text);
    *text = copy;
    return 0;
}

static int add(struct ext_node_table *table, const char *name, struct ext_node_entry **ret)
{
    struct ext_node_entry entry = {0};
    int rc = grow(table);

    if (rc == 0)
        rc = set_text(&entry.name, name);
    if (rc == 0)
        rc = set_text(&entry.domain, "");
    if (rc == 0)
        rc = set_text(&entry.zone, "");
    if (rc < 0 || table->entries == NULL) {
        clear_entry(&entry);
        return rc < 0 ? rc : -ENOMEM;
    }
    table->entries[table->n] = entry;
    table->slots[slot_of(table, name)] = (uint32_t)table->n + 1;
    *ret = &table->entries[table->n++];
    return 0;
}

int ext_node_table_put(struct ext_node_table *table, const struct kw_node *node, int64_t now_ns)
{
    struct ext_node_entry *entry = ext_node_table_find(table, node->name);
    int rc = entry != NULL ? 0 : add(table, node->name, &entry);

    if (rc == 0)
        rc = set_text(&entry->domain, node->domain);
    if (rc == 0)
        rc = set_text(&entry->zone, node->zone);
    if (rc < 0)
        return rc;
    if (node->has_headroom && (!entry->has_headroom || entry->headroom_w != node->headroom_w))
        entry->headroom_ns = now_ns;
    entry->has_headroom = node->has_headroom;
    entry->headroom_w = node->headroom_w;
    ext_tier_seen(&entry->tier, node->tier, now_ns);
    entry->uid[0] = '\0';
    if (strlen(node->uid) < sizeof(entry->uid))
        memcpy(entry->uid, node->uid, strlen(node->uid) + 1);
    entry->cap_mw = (double)node->cap_mw;
    entry->sleep = (struct ext_node_sleep){
        .wake_uj = (double)node->wake_mj * 1000,
        .sleep_mw = (uint32_t)node->sleep_mw, /* at most a megawatt */
        .sleepable = node->sleepable,
        .asleep = node->asleep,
        .has_sleep = node->has_sleep,
        .has_wake = node->has_wake,
    };
    entry->falling_asleep = node->falling_asleep;
    entry->bad = node->bad;
    entry->bad_said &= node->bad;
    entry->named = true;
    return 0;
}

/** Empties a slot and lets those behind it move up. */
static void empty_slot(struct ext_node_table *table, size_t hole)
{
    size_t mask = 2 * table->cap - 1;

    table->slots[hole] = 0;
    for (size_t at = (hole + 1) & mask; table->slots[at] != 0; at = (at + 1) & mask) {
        size_t home = home_of(table, table->entries[table->slots[at] - 1].name);
        if (((at - home) & mask) < ((at - hole) & mask))
            continue; /* its home lies behind the hole */
        table->slots[hole] = table->slots[at];
        table->slots[at] = 0;
        hole = at;
    }
}

static void drop_at(struct ext_node_table *table, size_t index)
{
    struct ext_node_entry gone = table->entries[index];
    size_t last = table->n - 1;

    empty_slot(table, slot_of(table, gone.name));
    if (index != last) {
        table->slots[slot_of(table, table->entries[last].name)] = (uint32_t)index + 1;
        table->entries[index] = table->entries[last];
    }
    table->n = last;
    clear_entry(&gone);
}

void ext_node_table_drop(struct ext_node_table *table, const char *name)
{
    const struct ext_node_entry *entry = ext_node_table_find(table, name);

    if (entry != NULL)
        drop_at(table, (size_t)(entry - table->entries));
}

void ext_node_table_list_begin(struct ext_node_table *table)
{
    for (size_t i = 0; i < table->n; i++)
        table->entries[i].named = false;
}

void ext_node_table_list_end(struct ext_node_table *table)
{
    for (size_t i = table->n; i > 0; i--) {
        if (!table->entries[i - 1].named)
            drop_at(table, i - 1);
    }
}
