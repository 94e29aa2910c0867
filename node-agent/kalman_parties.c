/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/kalman_parties.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

/* Open addressing with linear probing; at most half full, so that a probe is short. */
#define TABLE (2 * AGENT_PARTIES_MAX)

/* Owners that are remembered; a later one with the same place takes it. */
#define KIN_MAX 1024

/* States before those of workloads are few. */
#define STATES_MAX (AGENT_PARTIES_MAX + 16)

struct kin {
    uint64_t kin;
    double intensity[AGENT_VIEWS];
};

struct agent_parties {
    size_t n;
    struct agent_party table[TABLE];
    uint32_t by_state[STATES_MAX]; /* place in the table + 1; 0: nobody */
    struct kin kin[KIN_MAX];
};

int agent_parties_new(struct agent_parties **ret)
{
    struct agent_parties *parties = calloc(1, sizeof(*parties));

    if (parties == NULL)
        return -ENOMEM;
    *ret = parties;
    return 0;
}

void agent_parties_free(struct agent_parties **parties)
{
    free(KW_TAKE_PTR(*parties));
}

void agent_parties_clear(struct agent_parties *parties)
{
    memset(parties->table, 0, sizeof(parties->table));
    memset(parties->by_state, 0, sizeof(parties->by_state));
    parties->n = 0;
}

/* Fibonacci hashing */
static size_t place_of(uint64_t number, size_t places)
{
    return (size_t)((number * UINT64_C(0x9e3779b97f4a7c15)) >> 32) % places;
}

size_t agent_parties_count(const struct agent_parties *parties)
{
    return parties->n;
}

/** Where a workload is, or the free place where it would be. */
static size_t probe(const struct agent_parties *parties, uint64_t workload)
{
    size_t at = place_of(workload + 1, TABLE);

    while (parties->table[at].workload != 0 && parties->table[at].workload != workload + 1)
        at = (at + 1) % TABLE;
    return at;
}

struct agent_party *agent_parties_find(struct agent_parties *parties, uint64_t workload)
{
    struct agent_party *party = &parties->table[probe(parties, workload)];

    return party->workload != 0 ? party : NULL;
}

struct agent_party *agent_parties_add(struct agent_parties *parties, uint64_t workload,
                                      uint64_t kin, uint32_t state)
{
    if (parties->n == AGENT_PARTIES_MAX || state >= STATES_MAX || workload == UINT64_MAX)
        return NULL;
    size_t at = probe(parties, workload);
    parties->n += parties->table[at].workload == 0;
    parties->table[at] = (struct agent_party){.workload = workload + 1, .kin = kin, .state = state};
    parties->by_state[state] = (uint32_t)at + 1;
    return &parties->table[at];
}

void agent_parties_remove(struct agent_parties *parties, uint64_t workload)
{
    size_t hole = probe(parties, workload);

    if (parties->table[hole].workload == 0)
        return;
    parties->by_state[parties->table[hole].state] = 0;
    parties->n--;
    /* close the gap: whoever was pushed past it moves back */
    for (size_t at = (hole + 1) % TABLE; parties->table[at].workload != 0; at = (at + 1) % TABLE) {
        size_t home = place_of(parties->table[at].workload, TABLE);
        if ((at + TABLE - home) % TABLE < (at + TABLE - hole) % TABLE)
            continue;
        parties->table[hole] = parties->table[at];
        parties->by_state[parties->table[hole].state] = (uint32_t)hole + 1;
        hole = at;
    }
    parties->table[hole] = (struct agent_party){0};
}

struct agent_party *agent_parties_of_state(struct agent_parties *parties, uint32_t state)
{
    uint32_t at = state < STATES_MAX ? parties->by_state[state] : 0;

    return at != 0 ? &parties->table[at - 1] : NULL;
}

size_t agent_parties_of_kin(const struct agent_parties *parties, uint64_t kin, size_t max,
                            uint32_t *ret)
{
    size_t n = 0;

    for (uint32_t state = 0; kin != 0 && state < STATES_MAX && n < max; state++) {
        uint32_t at = parties->by_state[state];
        if (at != 0 && parties->table[at - 1].kin == kin)
            ret[n++] = state;
    }
    return n;
}

struct agent_party *agent_parties_smallest(struct agent_parties *parties)
{
    struct agent_party *smallest = NULL;

    for (size_t i = 0; i < TABLE; i++) {
        struct agent_party *party = &parties->table[i];
        if (party->workload != 0 && (smallest == NULL || party->size < smallest->size))
            smallest = party;
    }
    return smallest;
}

void agent_parties_move(struct agent_parties *parties, struct agent_party *party, uint32_t state)
{
    if (state >= STATES_MAX)
        return;
    if (parties->by_state[party->state] == (uint32_t)(party - parties->table) + 1)
        parties->by_state[party->state] = 0;
    party->state = state;
    parties->by_state[state] = (uint32_t)(party - parties->table) + 1;
}

void agent_parties_note(struct agent_parties *parties, uint64_t kin,
                        const double intensity[AGENT_VIEWS])
{
    struct kin *known = &parties->kin[place_of(kin, KIN_MAX)];

    if (kin == 0)
        return;
    known->kin = kin;
    memcpy(known->intensity, intensity, sizeof(known->intensity));
}

bool agent_parties_recall(const struct agent_parties *parties, uint64_t kin,
                          double ret[AGENT_VIEWS])
{
    const struct kin *known = &parties->kin[place_of(kin, KIN_MAX)];

    if (kin == 0 || known->kin != kin)
        return false;
    memcpy(ret, known->intensity, sizeof(known->intensity));
    return true;
}
