/* SPDX-License-Identifier: Apache-2.0 */
#include "node-agent/workload_index.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS_MIN 128

static uint64_t hash_of(enum kw_workload_kind kind, const char *id)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) + (uint64_t)kind; /* FNV-1a */

    for (; *id != '\0'; id++)
        hash = (hash ^ (uint8_t)*id) * UINT64_C(0x100000001b3);
    return hash ^ (hash >> 32);
}

static size_t home(const struct agent_workload_index *index, const struct agent_label *label)
{
    return (size_t)hash_of(label->kind, label->id) & (index->n_slots - 1);
}

static void place(struct agent_workload_index *index, struct agent_workload_slot slot)
{
    size_t at = home(index, slot.label);

    while (index->slots[at].label != NULL)
        at = (at + 1) & (index->n_slots - 1);
    index->slots[at] = slot;
}

static int resize(struct agent_workload_index *index, size_t n_slots)
{
    struct agent_workload_index other = {.n = index->n, .n_slots = n_slots};

    other.slots = calloc(n_slots, sizeof(*other.slots));
    if (other.slots == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < index->n_slots; i++) {
        if (index->slots[i].label != NULL)
            place(&other, index->slots[i]);
    }
    free(index->slots);
    *index = other;
    return 0;
}

void agent_workload_index_clear(struct agent_workload_index *index)
{
    free(index->slots);
    *index = (struct agent_workload_index){0};
}

int agent_workload_index_add(struct agent_workload_index *index, const struct agent_label *label,
                             void *value)
{
    if (2 * (index->n + 1) > index->n_slots) {
        int rc = resize(index, index->n_slots > 0 ? 2 * index->n_slots : SLOTS_MIN);
        if (rc < 0)
            return rc;
    }
    place(index, (struct agent_workload_slot){label, value});
    index->n++;
    return 0;
}

void *agent_workload_index_find(const struct agent_workload_index *index,
                                enum kw_workload_kind kind, const char *id)
{
    if (index->n == 0)
        return NULL;
    for (size_t at = (size_t)hash_of(kind, id) & (index->n_slots - 1);
         index->slots[at].label != NULL; at = (at + 1) & (index->n_slots - 1)) {
        const struct agent_label *label = index->slots[at].label;
        if (label->kind == kind && strcmp(label->id, id) == 0)
            return index->slots[at].value;
    }
    return NULL;
}

void agent_workload_index_remove(struct agent_workload_index *index,
                                 const struct agent_label *label)
{
    size_t mask = index->n_slots - 1;

    if (index->n == 0)
        return;
    size_t at = home(index, label);
    while (index->slots[at].label != NULL && index->slots[at].label != label)
        at = (at + 1) & mask;
    if (index->slots[at].label == NULL)
        return;
    /* whoever stands behind and would rather stand here moves up, so that no search ends early */
    for (size_t next = (at + 1) & mask; index->slots[next].label != NULL;
         next = (next + 1) & mask) {
        if (((next - home(index, index->slots[next].label)) & mask) >= ((next - at) & mask)) {
            index->slots[at] = index->slots[next];
            at = next;
        }
    }
    index->slots[at] = (struct agent_workload_slot){0};
    index->n--;
    if (index->n_slots > SLOTS_MIN && 16 * index->n < index->n_slots)
        (void)resize(index, index->n_slots / 4); /* without memory it stays as it is */
}
