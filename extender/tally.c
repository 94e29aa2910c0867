/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/tally.h"

#include <sched.h>
#include <string.h>

#include "extender/snapshot.h"

/** Places where a key may stand, from its own on. */
#define PROBES 16

uint64_t ext_tally_key(const char *uid, const char *ns, const char *name)
{
    uint64_t key = uid[0] != '\0' ? ext_hash(uid, strlen(uid), 1)
                                  : ext_hash(name, strlen(name), ext_hash(ns, strlen(ns), 2));

    return key == 0 ? 1 : key;
}

static bool try_hold(struct ext_tally *tally)
{
    return !atomic_exchange_explicit(&tally->busy, true, memory_order_acquire);
}

static void let_go(struct ext_tally *tally)
{
    atomic_store_explicit(&tally->busy, false, memory_order_release);
}

static void hold(struct ext_tally *tally)
{
    while (!try_hold(tally))
        (void)sched_yield();
}

/** The entry of a key, or a free one where it may go, or NULL. */
static struct ext_tally_entry *find(struct ext_tally *tally, uint64_t key)
{
    struct ext_tally_entry *free_one = NULL;

    for (unsigned i = 0; i < PROBES; i++) {
        struct ext_tally_entry *entry = &tally->entries[(key + i) % EXT_TALLY_MAX];
        if (entry->key == key)
            return entry;
        if (entry->key == 0 && free_one == NULL)
            free_one = entry;
    }
    return free_one;
}

static void add(struct ext_tally_atomic *to, const struct ext_tally_sum *sum)
{
    to->mcpu += sum->mcpu;
    to->mw += sum->mw;
    to->variance_mcpu2 += sum->variance_mcpu2;
}

static void subtract(struct ext_tally_atomic *from, const struct ext_tally_sum *sum)
{
    from->mcpu -= sum->mcpu;
    from->mw -= sum->mw;
    from->variance_mcpu2 -= sum->variance_mcpu2;
}

static void clear(struct ext_tally *tally, struct ext_tally_entry *entry)
{
    subtract(&tally->all, &entry->sum);
    *entry = (struct ext_tally_entry){0};
}

static void spill(struct ext_tally *tally, const struct ext_tally_sum *pod, int64_t now_ns)
{
    /* in this order: who sees the sum sees the time, too */
    tally->spilt_until_ns = now_ns + EXT_TALLY_NS;
    add(&tally->spilt, pod);
}

void ext_tally_sum(const struct ext_tally *tally, struct ext_tally_sum *ret)
{
    *ret =
        (struct ext_tally_sum){tally->all.mcpu + tally->spilt.mcpu, tally->all.mw + tally->spilt.mw,
                               tally->all.variance_mcpu2 + tally->spilt.variance_mcpu2};
}

void ext_tally_put(struct ext_tally *tally, uint64_t key, const struct ext_tally_sum *pod,
                   int64_t now_ns, struct ext_tally_sum *ret_others)
{
    struct ext_tally_entry *entry = NULL;

    if (try_hold(tally)) {
        entry = find(tally, key);
        if (entry != NULL) {
            const struct ext_tally_entry old = *entry;
            *entry = (struct ext_tally_entry){
                .key = key, .sum = *pod, .until_ns = now_ns + EXT_TALLY_NS};
            /* others read the sums: never too little in between */
            add(&tally->all, pod);
            subtract(&tally->all, &old.sum);
        }
        let_go(tally);
    }
    if (entry == NULL)
        spill(tally, pod, now_ns);
    ext_tally_sum(tally, ret_others);
    ret_others->mcpu -= pod->mcpu;
    ret_others->mw -= pod->mw;
    ret_others->variance_mcpu2 -= pod->variance_mcpu2;
}

static void drop(struct ext_tally *tally, uint64_t key)
{
    struct ext_tally_entry *entry = find(tally, key);

    if (entry != NULL && entry->key == key)
        clear(tally, entry);
    let_go(tally);
}

void ext_tally_take_back(struct ext_tally *tally, uint64_t key)
{
    if (try_hold(tally))
        drop(tally, key);
}

void ext_tally_seen(struct ext_tally *tally, uint64_t key)
{
    hold(tally);
    drop(tally, key);
}

void ext_tally_sweep(struct ext_tally *tally, int64_t now_ns)
{
    const struct ext_tally_sum spilt = {tally->spilt.mcpu, tally->spilt.mw,
                                        tally->spilt.variance_mcpu2};

    if (now_ns > tally->spilt_until_ns)
        subtract(&tally->spilt, &spilt);
    hold(tally);
    for (size_t i = 0; i < EXT_TALLY_MAX; i++) {
        struct ext_tally_entry *entry = &tally->entries[i];
        if (entry->key != 0 && now_ns > entry->until_ns)
            clear(tally, entry);
    }
    let_go(tally);
}
