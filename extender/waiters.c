/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/waiters.h"

#include <sched.h>
#include <string.h>

#include "extender/snapshot.h"

/** What holds it does so for some microseconds at most. */
#define REQUEST_TRIES 200

static size_t bit_of(const char *node, size_t len)
{
    /* whoever chooses names that fall together has pods woken in vain, rarely, and no more */
    return (size_t)(ext_hash(node, len, 0) % EXT_WAITER_BITS);
}

void ext_waiter_add(struct ext_waiter *waiter, const char *node, size_t len)
{
    size_t bit = bit_of(node, len);

    waiter->nodes[bit / 64] |= UINT64_C(1) << (bit % 64);
}

bool ext_waiter_has(const struct ext_waiter *waiter, const char *node, size_t len)
{
    size_t bit = bit_of(node, len);

    return (waiter->nodes[bit / 64] >> (bit % 64) & 1) != 0;
}

static bool hold(struct ext_waiters *waiters, unsigned tries)
{
    for (unsigned i = 0; tries == 0 || i < tries; i++) {
        if (!atomic_exchange_explicit(&waiters->busy, true, memory_order_acquire))
            return true;
        if (tries == 0)
            (void)sched_yield();
    }
    return false;
}

static void let_go(struct ext_waiters *waiters)
{
    atomic_store_explicit(&waiters->busy, false, memory_order_release);
}

/** The one with this key; else a free one, else the one that was not asked about for longest. */
static struct ext_waiter *find(struct ext_waiters *waiters, uint64_t key, bool *ret_found)
{
    struct ext_waiter *best = &waiters->all[0];

    *ret_found = false;
    for (size_t i = 0; i < EXT_WAITERS_MAX; i++) {
        struct ext_waiter *waiter = &waiters->all[i];
        if (waiter->key == key) {
            *ret_found = true;
            return waiter;
        }
        if (best->key != 0 && (waiter->key == 0 || waiter->asked_ns < best->asked_ns))
            best = waiter;
    }
    return best;
}

void ext_waiters_put(struct ext_waiters *waiters, const struct ext_waiter *waiter, int64_t now_ns)
{
    bool known;

    if (!hold(waiters, REQUEST_TRIES)) {
        waiters->missed = true;
        return;
    }
    struct ext_waiter *place = find(waiters, waiter->key, &known);
    if (!known && place->key != 0 && now_ns - place->asked_ns < EXT_WAITER_NS)
        waiters->missed = true; /* whom it replaces */
    struct ext_waiter next = *waiter;
    next.tries = known ? place->tries : 0;
    next.woken_ns = known ? place->woken_ns : 0;
    next.next_ns = known ? place->next_ns : now_ns;
    next.rejected = true;
    next.asked_ns = now_ns;
    *place = next;
    let_go(waiters);
    waiters->any = true;
}

void ext_waiters_drop(struct ext_waiters *waiters, uint64_t key)
{
    bool known;

    if (!waiters->any || !hold(waiters, REQUEST_TRIES))
        return; /* it is woken in vain and then forgotten by time */
    struct ext_waiter *place = find(waiters, key, &known);
    if (known)
        place->key = 0;
    let_go(waiters);
}

size_t ext_waiters_copy(struct ext_waiters *waiters, int64_t now_ns, struct ext_waiter *ret)
{
    size_t n = 0;

    if (!waiters->any)
        return 0;
    (void)hold(waiters, 0);
    waiters->any = false;
    for (size_t i = 0; i < EXT_WAITERS_MAX; i++) {
        struct ext_waiter *waiter = &waiters->all[i];
        if (waiter->key != 0 && now_ns - waiter->asked_ns > EXT_WAITER_NS)
            waiter->key = 0;
        if (waiter->key != 0)
            ret[n++] = *waiter;
    }
    if (n > 0)
        waiters->any = true;
    let_go(waiters);
    return n;
}

void ext_waiters_update(struct ext_waiters *waiters, const struct ext_waiter *waiter)
{
    bool known;

    (void)hold(waiters, 0);
    struct ext_waiter *place = find(waiters, waiter->key, &known);
    if (known) {
        place->tries = waiter->tries;
        place->woken_ns = waiter->woken_ns;
        place->next_ns = waiter->next_ns;
        if (place->asked_ns == waiter->asked_ns)
            place->rejected = waiter->rejected;
    }
    let_go(waiters);
}
