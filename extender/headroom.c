/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waking is by level and not by edge: a pod is woken when it was rejected and some node that it was
 * offered has room now, however the room came to be, so that nothing is lost between a rejection
 * and the round that follows it. A pod that is rejected again and again although there seems to be
 * room (other plugins keep it from just that node) is woken after 1, 2, 4, ... 60 s; as soon as it
 * has no room in between, that begins anew. One that was woken and not asked about is woken once a
 * minute.
 */
#include "extender/headroom.h"

#include <math.h>

#include "common/clock.h"

#define MINUTE_NS   (60 * (int64_t)KW_NS_PER_S)
/** Time in which replicas choose. */
#define SPREAD_MS   5000
/** Pods that could not be kept are woken so often while there is room. */
#define MISSED_NS   (10 * (int64_t)KW_NS_PER_S)
#define TRIES_MAX   6
/** A change that counts: a twentieth. */
#define CHANGE_PART 20

uint64_t ext_headroom_watts(const struct ext_caps *caps, size_t index)
{
    double mw = caps == NULL ? (double)INFINITY : ext_caps_headroom_mw(caps, index);

    return isinf(mw) ? EXT_NO_HEADROOM : (uint64_t)(mw / 1000);
}

/** A plan under way. */
struct plan {
    const struct ext_snapshot *snapshot;
    struct ext_node_table *table;
    struct ext_headroom_write *writes;
    size_t n;
    int64_t now_ns;
};

static void add_write(struct plan *plan, size_t index, bool wakes)
{
    const struct ext_node *node = &plan->snapshot->nodes[index];
    uint64_t room_w = ext_headroom_watts(plan->snapshot->caps, index);
    struct ext_node_entry *entry = ext_node_table_find(plan->table, node->name);

    if (plan->n == EXT_HEADROOM_WRITES || entry == NULL)
        return;
    struct ext_headroom_write *write = &plan->writes[plan->n++];
    *write = (struct ext_headroom_write){.remove = room_w == EXT_NO_HEADROOM, .wakes = wakes};
    write->room_w = write->remove ? 0 : room_w;
    for (size_t i = 0; i <= node->name_len; i++)
        write->node[i] = node->name[i];
    entry->wrote_ns = plan->now_ns;
    entry->due_ns = 0;
}

/** A node that the waiter was offered and that the API server knows, with room for it now, or
 * SIZE_MAX. */
static size_t room_for(const struct plan *plan, const struct ext_waiter *waiter,
                       const struct ext_tally_sum *held)
{
    const struct ext_snapshot *snapshot = plan->snapshot;
    const struct ext_caps *caps = snapshot->caps;
    double flight = caps == NULL ? 1 : caps->use.flight;
    double sigmas = caps == NULL ? 0 : caps->sigmas;
    double variance = waiter->variance_mcpu2 + (double)held->variance_mcpu2;
    double alone = caps == NULL ? 0
                                : ext_caps_alone_mcpu(&caps->use, sigmas, waiter->mcpu,
                                                      waiter->variance_mcpu2);
    const struct ext_cap_need need = {.mcpu = waiter->mcpu * flight,
                                      .mw = waiter->mw,
                                      .held_mcpu =
                                          (double)held->mcpu * flight + sigmas * sqrt(variance),
                                      .held_mw = (double)held->mw,
                                      .alone_mcpu = alone,
                                      .nowhere_else = true,
                                      .critical = waiter->critical};

    for (size_t i = 0; i < snapshot->n; i++) {
        const struct ext_node *node = &snapshot->nodes[i];
        if ((caps == NULL || ext_caps_check(caps, i, &need) == EXT_CAP_PASSES) &&
            ext_waiter_has(waiter, node->name, node->name_len) &&
            ext_node_table_find(plan->table, node->name) != NULL)
            return i;
    }
    return SIZE_MAX;
}

/** @return whether the waiter is to be woken by a change of the node. */
static bool is_due(struct ext_waiter *waiter, bool fits, int64_t now_ns)
{
    if (!fits) {
        waiter->tries = 0;
        waiter->next_ns = now_ns;
        return false;
    }
    return waiter->rejected ? now_ns >= waiter->next_ns : now_ns - waiter->woken_ns > MINUTE_NS;
}

static void wake(struct plan *plan, struct ext_waiters *waiters, const struct ext_tally_sum *held)
{
    struct ext_waiter all[EXT_WAITERS_MAX];
    size_t n = ext_waiters_copy(waiters, plan->now_ns, all);
    bool woken = false;

    for (size_t i = 0; i < n; i++) {
        struct ext_waiter *waiter = &all[i];
        size_t index = room_for(plan, waiter, held);
        if (is_due(waiter, index != SIZE_MAX, plan->now_ns)) {
            if (!woken)
                add_write(plan, index, true);
            woken = true;
            waiter->rejected = false;
            waiter->woken_ns = plan->now_ns;
            waiter->next_ns = plan->now_ns + ((int64_t)KW_NS_PER_S << waiter->tries);
            waiter->tries += waiter->tries < TRIES_MAX;
        }
        if (woken && plan->snapshot->caps == NULL)
            ext_waiters_drop(waiters, waiter->key); /* nothing will reject it again */
        else
            ext_waiters_update(waiters, waiter);
    }
}

/** Wakes those that could not be kept, by the node with the most room. */
static void wake_missed(struct plan *plan, struct ext_waiters *waiters)
{
    size_t best = SIZE_MAX;
    uint64_t most = 0;

    for (size_t i = 0; i < plan->snapshot->n; i++) {
        uint64_t room = ext_headroom_watts(plan->snapshot->caps, i);
        if (room > most) {
            most = room;
            best = i;
        }
    }
    if (best == SIZE_MAX)
        return;
    const struct ext_node_entry *entry =
        ext_node_table_find(plan->table, plan->snapshot->nodes[best].name);
    if (entry == NULL || plan->now_ns - entry->wrote_ns < MISSED_NS)
        return;
    waiters->missed = false;
    add_write(plan, best, true);
}

static bool has_changed(const struct ext_node_entry *entry, uint64_t room_w)
{
    if (room_w == EXT_NO_HEADROOM || !entry->has_headroom)
        return (room_w == EXT_NO_HEADROOM) == entry->has_headroom;
    uint64_t difference =
        room_w > entry->headroom_w ? room_w - entry->headroom_w : entry->headroom_w - room_w;
    return difference * CHANGE_PART > entry->headroom_w;
}

/** Whether a node's turn has come, a change of it given. */
static bool is_turn(struct ext_node_entry *entry, uint32_t random, int64_t now_ns)
{
    int64_t last_ns = entry->wrote_ns > entry->headroom_ns ? entry->wrote_ns : entry->headroom_ns;

    if (last_ns != 0 && now_ns - last_ns < MINUTE_NS)
        return false;
    if (entry->due_ns == 0)
        entry->due_ns = now_ns + (int64_t)(random % SPREAD_MS) * (int64_t)KW_NS_PER_MS;
    return now_ns >= entry->due_ns;
}

size_t ext_headroom_plan(const struct ext_snapshot *snapshot, struct ext_node_table *table,
                         struct ext_waiters *waiters, const struct ext_tally_sum *held,
                         uint32_t random, int64_t now_ns, struct ext_headroom_write *ret)
{
    struct plan plan = {.snapshot = snapshot, .table = table, .writes = ret, .now_ns = now_ns};

    wake(&plan, waiters, held);
    if (waiters->missed && plan.n == 0)
        wake_missed(&plan, waiters);
    /* rooms that come back within seconds of a start are not written down as gone */
    bool settled = snapshot->caps == NULL || snapshot->caps->n_unseen == 0;
    for (size_t i = 0; settled && i < snapshot->n && plan.n < EXT_HEADROOM_WRITES; i++) {
        struct ext_node_entry *entry = ext_node_table_find(table, snapshot->nodes[i].name);
        if (entry == NULL)
            continue;
        if (!has_changed(entry, ext_headroom_watts(snapshot->caps, i)))
            entry->due_ns = 0;
        else if (is_turn(entry, random ^ (uint32_t)i * 2654435761U, now_ns))
            add_write(&plan, i, false);
    }
    return plan.n;
}
