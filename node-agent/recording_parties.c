/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/recording_parties.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

#define TABLE_MIN 256

struct agent_recording_parties {
    size_t n, cap;
    struct agent_recording_party *items;
    size_t table_size; /* a power of two, at least twice n */
    uint32_t *table;   /* place + 1; 0: free */
};

/** Where a number is, or the free place where it would be. */
static size_t probe(const struct agent_recording_parties *parties, uint64_t number)
{
    /* the finalizer of MurmurHash3: numbers may be chosen by anybody, and are often dense */
    uint64_t mixed = (number ^ number >> 33) * UINT64_C(0xff51afd7ed558ccd);
    size_t mask = parties->table_size - 1, at = (size_t)(mixed ^ mixed >> 33) & mask;

    while (parties->table[at] != 0 && parties->items[parties->table[at] - 1].number != number)
        at = (at + 1) & mask;
    return at;
}

static int grow(struct agent_recording_parties *parties)
{
    size_t size = parties->table_size == 0 ? TABLE_MIN : 2 * parties->table_size;
    struct agent_recording_party *items =
        reallocarray(parties->items, size / 2, sizeof(*parties->items));

    if (items == NULL)
        return -ENOMEM;
    parties->items = items;
    uint32_t *table = calloc(size, sizeof(*table));
    if (table == NULL)
        return -ENOMEM;
    free(parties->table);
    parties->table = table;
    parties->table_size = size;
    parties->cap = size / 2;
    for (size_t i = 0; i < parties->n; i++)
        parties->table[probe(parties, parties->items[i].number)] = (uint32_t)i + 1;
    return 0;
}

int agent_recording_parties_meet(struct agent_recording_parties *parties, uint64_t number,
                                 struct agent_recording_party **ret)
{
    size_t at = parties->table_size > 0 ? probe(parties, number) : 0;

    if (parties->table_size > 0 && parties->table[at] != 0) {
        *ret = &parties->items[parties->table[at] - 1];
        return 0;
    }
    if (parties->n == AGENT_RECORDING_NUMBERS_MAX)
        return -E2BIG;
    if (parties->n == parties->cap) {
        int rc = grow(parties);
        if (rc < 0)
            return rc;
        at = probe(parties, number);
    }
    parties->items[parties->n] = (struct agent_recording_party){.number = number};
    *ret = &parties->items[parties->n++];
    parties->table[at] = (uint32_t)parties->n;
    return 0;
}

int agent_recording_parties_new(struct agent_recording_parties **ret)
{
    kw_cleanup(agent_recording_parties_free) struct agent_recording_parties *parties =
        calloc(1, sizeof(*parties));
    struct agent_recording_party *unused = NULL;

    if (parties == NULL || agent_recording_parties_meet(parties, 0, &unused) < 0)
        return -ENOMEM;
    *ret = KW_TAKE_PTR(parties);
    return 0;
}

void agent_recording_parties_free(struct agent_recording_parties **parties)
{
    struct agent_recording_parties *owned = KW_TAKE_PTR(*parties);

    if (owned == NULL)
        return;
    for (size_t i = 0; i < owned->n; i++)
        free(owned->items[i].text);
    free(owned->items);
    free(owned->table);
    free(owned);
}

int agent_recording_parties_name(struct agent_recording_party *party, const char *kind,
                                 const char *id, const char *name)
{
    char *text = NULL;
    bool named = name != NULL && name[0] != '\0' && strcmp(name, id) != 0;

    if (asprintf(&text, "%s%s%s%s%s%s", kind != NULL ? kind : "", kind != NULL ? " " : "", id,
                 named ? " (" : "", named ? name : "", named ? ")" : "") < 0)
        return -ENOMEM;
    free(party->text);
    party->text = text;
    return 0;
}

size_t agent_recording_parties_all(const struct agent_recording_parties *parties,
                                   const struct agent_recording_party **ret)
{
    *ret = parties->items;
    return parties->n;
}

size_t agent_recording_parties_place(const struct agent_recording_parties *parties, uint64_t number)
{
    uint32_t place = parties->table[probe(parties, number)];

    return place > 0 ? place - 1 : SIZE_MAX;
}
