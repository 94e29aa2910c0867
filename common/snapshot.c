/* SPDX-License-Identifier: Apache-2.0 */
#include "common/snapshot.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "common/cleanup.h"

/*
 * Hazard pointers (Michael, "Hazard Pointers: Safe Memory Reclamation for Lock-Free Objects", IEEE
 * TPDS 15(6), 2004) for one writer and a fixed number of slots.
 *
 * A reader claims a free slot, then repeats: read the published pointer, announce it in the slot,
 * read the published pointer again; when both reads agree, the announcement was visible before the
 * value could have been retired, so the writer will see it. It repeats only when the writer
 * published in between.
 *
 * The writer exchanges the pointer, puts the old value on the retired list and frees each retired
 * value that no slot announces. A slot announces at most one value, so at most `n` values survive a
 * round: the list has n + 1 places from the start, and publishing neither allocates nor waits.
 *
 * All accesses that take part are sequentially consistent: the reader's "announce, then read" must
 * not be reordered against the writer's "exchange, then look at the slots". The release of a slot
 * pairs with that look, so whatever the reader did with the value happens before its free.
 */

/* A line of its own for each slot: readers on different CPUs must not slow each other. */
struct slot {
    _Alignas(64) _Atomic(void *)
        held; /* NULL free; the snapshot itself: claimed; else the value in use */
};

struct kw_snapshot {
    _Atomic(void *) published;
    kw_snapshot_free_fn free_fn;
    struct slot *slots;
    size_t n;
    void **retired; /* writer's own; n + 1 places */
    size_t n_retired;
};

/*
 * A search that found every slot taken may have met one reader twice, when that moved from a slot
 * not yet looked at to one already passed. So the search is repeated: 32 such chances in a row do
 * not happen, and where the slots are really all taken it costs microseconds.
 */
#define ROUNDS 32

int kw_snapshot_new(size_t readers, kw_snapshot_free_fn free_fn, struct kw_snapshot **ret)
{
    size_t n = readers > 0 ? readers : 1;
    if (n > SIZE_MAX / sizeof(struct slot) - 1)
        return -ENOMEM;
    kw_cleanup(kw_snapshot_free) struct kw_snapshot *snapshot = calloc(1, sizeof(*snapshot));
    if (snapshot == NULL)
        return -ENOMEM;
    snapshot->slots = aligned_alloc(_Alignof(struct slot), n * sizeof(struct slot));
    snapshot->retired = calloc(n + 1, sizeof(*snapshot->retired));
    if (snapshot->slots == NULL || snapshot->retired == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        atomic_init(&snapshot->slots[i].held, NULL);
    atomic_init(&snapshot->published, NULL);
    snapshot->free_fn = free_fn;
    snapshot->n = n;
    *ret = KW_TAKE_PTR(snapshot);
    return 0;
}

void kw_snapshot_free(struct kw_snapshot **snapshot)
{
    struct kw_snapshot *s = *snapshot;
    *snapshot = NULL;
    if (s == NULL)
        return;
    for (size_t i = 0; i < s->n_retired; i++)
        s->free_fn(s->retired[i]);
    void *published = atomic_load(&s->published);
    if (published != NULL)
        s->free_fn(published);
    free(s->retired);
    free(s->slots);
    free(s);
}

static bool is_held(struct kw_snapshot *snapshot, const void *value)
{
    for (size_t i = 0; i < snapshot->n; i++) {
        if (atomic_load(&snapshot->slots[i].held) == value)
            return true;
    }
    return false;
}

void kw_snapshot_publish(struct kw_snapshot *snapshot, void *value)
{
    void *old = atomic_exchange(&snapshot->published, value);
    if (old != NULL)
        snapshot->retired[snapshot->n_retired++] = old;

    size_t kept = 0;
    for (size_t i = 0; i < snapshot->n_retired; i++) {
        void *candidate = snapshot->retired[i];
        if (is_held(snapshot, candidate))
            snapshot->retired[kept++] = candidate;
        else
            snapshot->free_fn(candidate);
    }
    snapshot->n_retired = kept;
}

const void *kw_snapshot_acquire(struct kw_snapshot *snapshot, size_t *ret_slot)
{
    /* Threads start at different slots; stacks are pages apart, so the low bits say nothing. */
    size_t start = ((uintptr_t)pthread_self() >> 12) % snapshot->n;
    void *const mark = snapshot; /* an address that no value has */
    *ret_slot = SIZE_MAX;
    for (size_t i = 0; i < ROUNDS * snapshot->n; i++) {
        size_t at = (start + i) % snapshot->n;
        struct slot *slot = &snapshot->slots[at];
        void *expected = NULL;
        if (!atomic_compare_exchange_strong(&slot->held, &expected, mark))
            continue;

        void *value = atomic_load(&snapshot->published);
        while (value != NULL) {
            atomic_store(&slot->held, value);
            void *again = atomic_load(&snapshot->published);
            if (again == value) {
                *ret_slot = at;
                return value;
            }
            value = again;
        }
        atomic_store(&slot->held, NULL);
        return NULL;
    }
    return NULL;
}

void kw_snapshot_release(struct kw_snapshot *snapshot, size_t slot)
{
    if (slot < snapshot->n)
        atomic_store_explicit(&snapshot->slots[slot].held, NULL, memory_order_release);
}
