/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cell per cgroup remembers what of its CPU time is booked. Time that a reading shows for a key
 * for the first time is new as a whole: the accounting counts from its own start, and what was
 * there at the first reading was taken as the baseline.
 *
 * Life of a cgroup. In the tree: its cell refers to a workload, also before it has run. Directory
 * gone: two more samples, so that its last slices arrive; then the accounting, the tree and the
 * workload let go of it. Never in the tree (it lived shorter than a look at the tree takes, or the
 * tree cannot be seen from here): the system's. If it has not moved for FORGET_NS, or since the
 * last sample where the accounting's room gets short, it is dropped there, or a fork storm of short
 * containers would fill the map. Should it run again it begins anew.
 *
 * A count that falls has no meaning; it becomes the new base and books nothing.
 */
#include "node-agent/booking.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/cells.h"
#include "node-agent/containers.h"

#define GONE_SWEEPS 2
#define FORGET_NS   (60 * KW_NS_PER_S)

struct agent_booking {
    struct agent_booking_conf conf;
    struct agent_cells *cells;
    uint64_t *forget; /* keys to let go of in this sample */
    size_t n_forget, cap_forget;
    uint64_t delta_ns[AGENT_PACKAGES_MAX];
    struct agent_counts counts[AGENT_PACKAGES_MAX];
    struct agent_served_list served;
    uint64_t overflow_turns; /* of requests that have no workload, since the table was full */
    uint32_t quality;        /* of requests that were booked before an end, and is not told yet */
    bool multiplexed;
    uint64_t followed; /* agent_cgroups_changes at the last walk over the cgroups */
    bool follow_again; /* that walk left something to the next one */
    /* of the sample at hand, for the walk over the cgroups */
    uint64_t now_ns;
    int64_t now_unix_ms;
    int error;
};

int agent_booking_new(const struct agent_booking_conf *conf, struct agent_booking **ret)
{
    struct agent_booking *booking = calloc(1, sizeof(*booking));

    if (booking == NULL)
        return -ENOMEM;
    booking->conf = *conf;
    booking->follow_again = true;
    if (booking->conf.n_packages > AGENT_PACKAGES_MAX)
        booking->conf.n_packages = AGENT_PACKAGES_MAX;
    int rc = agent_cells_new(booking->conf.n_packages, &booking->cells);
    if (rc < 0) {
        free(booking);
        return rc;
    }
    *ret = booking;
    return 0;
}

void agent_booking_free(struct agent_booking **booking)
{
    struct agent_booking *owned = KW_TAKE_PTR(*booking);

    if (owned == NULL)
        return;
    agent_cells_free(&owned->cells);
    agent_served_list_free(&owned->served);
    free(owned->forget);
    free(owned);
}

/** What row `i` adds per package. @return whether anything moved. */
static bool row_delta(struct agent_booking *booking, const struct agent_usage *usage, size_t i,
                      const struct agent_cell *cell)
{
    bool moved = false;

    for (unsigned p = 0; p < booking->conf.n_packages; p++) {
        uint64_t now = p < usage->n_packages ? usage->cpu_ns[i * usage->n_packages + p] : 0;
        uint64_t before = cell != NULL ? cell->prev_ns[p] : 0;
        booking->delta_ns[p] = now > before ? now - before : 0;
        moved = moved || now != before;
    }
    return moved;
}

/** What row `i` adds to the counts of a package that the reading has. */
static struct agent_counts counts_delta(const struct agent_usage *usage, size_t i, unsigned p,
                                        const struct agent_cell *cell, bool *multiplexed)
{
    static const struct agent_more nothing;
    bool noted = cell != NULL && cell->prev_more != NULL;

    return agent_counts_between(noted ? &cell->prev_more[p] : &nothing,
                                &usage->more[i * usage->n_packages + p], multiplexed);
}

/** What row `i` adds to the counts, and notes it. @return NULL where only time is counted. */
static const struct agent_counts *take_counts(struct agent_booking *booking,
                                              const struct agent_usage *usage, size_t i,
                                              struct agent_cell *cell)
{
    unsigned n =
        usage->n_packages < booking->conf.n_packages ? usage->n_packages : booking->conf.n_packages;

    if ((usage->features & AGENT_FEATURES_MORE) == 0)
        return NULL;
    if (cell != NULL && cell->prev_more == NULL)
        cell->prev_more = calloc(booking->conf.n_packages, sizeof(*cell->prev_more));
    memset(booking->counts, 0, sizeof(booking->counts));
    for (unsigned p = 0; p < n; p++) {
        booking->counts[p] = counts_delta(usage, i, p, cell, &booking->multiplexed);
        if (cell != NULL && cell->prev_more != NULL)
            cell->prev_more[p] = usage->more[i * usage->n_packages + p];
    }
    return booking->counts;
}

void agent_booking_busy(struct agent_booking *booking, const struct agent_usage *usage,
                        uint64_t busy_ns[AGENT_PACKAGES_MAX],
                        struct agent_counts counts[AGENT_PACKAGES_MAX])
{
    bool counted = counts != NULL && (usage->features & AGENT_FEATURES_MORE) != 0;
    bool unused = false;

    memset(busy_ns, 0, AGENT_PACKAGES_MAX * sizeof(busy_ns[0]));
    if (counts != NULL)
        memset(counts, 0, AGENT_PACKAGES_MAX * sizeof(counts[0]));
    for (size_t i = 0; i < usage->n; i++) {
        const struct agent_cell *cell = agent_cells_find(booking->cells, usage->keys[i]);
        (void)row_delta(booking, usage, i, cell);
        for (unsigned p = 0; p < booking->conf.n_packages; p++) {
            busy_ns[p] += booking->delta_ns[p];
            if (!counted || p >= usage->n_packages)
                continue;
            struct agent_counts more = counts_delta(usage, i, p, cell, &unused);
            agent_counts_add(&counts[p], &more);
        }
    }
}

static void forget_later(struct agent_booking *booking, uint64_t key)
{
    if (booking->n_forget == booking->cap_forget) {
        size_t cap = booking->cap_forget == 0 ? 64 : 2 * booking->cap_forget;
        uint64_t *forget = reallocarray(booking->forget, cap, sizeof(uint64_t));
        if (forget == NULL)
            return; /* the next sample asks again */
        booking->forget = forget;
        booking->cap_forget = cap;
    }
    booking->forget[booking->n_forget++] = key;
}

/** Ties a cell to the workload that the tree names. */
static int settle(struct agent_booking *booking, struct agent_cell *cell,
                  const struct agent_cgroup *cgroup)
{
    int rc = 0;

    if (cgroup->identity.id[0] != '\0') {
        rc = agent_ledger_attach(booking->conf.ledger, &cgroup->identity, cgroup->path,
                                 booking->now_unix_ms, &cell->workload, &cell->container);
        /* too many workloads: the system takes what is left over */
        cell->homeless = rc == -ENOSPC;
        if (rc == -ENOSPC)
            rc = 0;
    }
    cell->known = rc == 0;
    return rc;
}

/** A cgroup of the tree: born ones get a cell, gone ones are counted out. */
static void follow(void *user, const struct agent_cgroup *cgroup)
{
    struct agent_booking *booking = user;
    struct agent_cell *cell = agent_cells_find(booking->cells, cgroup->key);
    int rc = 0;

    if (cell == NULL) {
        rc = agent_cells_add(booking->cells, cgroup->key, &cell);
        if (rc == 0)
            cell->moved_ns = booking->now_ns;
    }
    if (rc == 0 && !cell->known)
        rc = settle(booking, cell, cgroup);
    booking->follow_again = booking->follow_again || rc < 0 || cgroup->gone_ns != 0;
    if (rc < 0) {
        booking->error = rc;
        return;
    }
    if (cgroup->gone_ns == 0)
        cell->gone_sweeps = 0;
    else if (cell->gone_sweeps++ >= GONE_SWEEPS)
        forget_later(booking, cgroup->key);
}

/** Looks at the cgroups where there is news of them: most windows have none, and there are many. */
static void follow_all(struct agent_booking *booking)
{
    uint64_t changes = agent_cgroups_changes(booking->conf.cgroups);

    if (changes == booking->followed && !booking->follow_again)
        return;
    booking->followed = changes;
    booking->follow_again = false;
    agent_cgroups_each(booking->conf.cgroups, follow, booking);
}

/** Which part of the system a cgroup without a workload is. */
static enum agent_system_part part_of(uint64_t key, const struct agent_cell *cell)
{
    if (key == AGENT_KEY_KERNEL)
        return AGENT_SYSTEM_KERNEL;
    if (key == AGENT_KEY_INTERRUPTS)
        return AGENT_SYSTEM_INTERRUPTS;
    if (key == AGENT_KEY_SYSTEM)
        return AGENT_SYSTEM_ROOT;
    return cell != NULL && cell->known && !cell->homeless ? AGENT_SYSTEM_SLICES
                                                          : AGENT_SYSTEM_OTHER;
}

static int book_row(struct agent_booking *booking, const struct agent_usage *usage, size_t i,
                    bool baseline)
{
    struct agent_cell *cell = agent_cells_find(booking->cells, usage->keys[i]);
    bool moved = row_delta(booking, usage, i, cell);
    int rc = 0;

    if (cell == NULL) {
        rc = agent_cells_add(booking->cells, usage->keys[i], &cell);
        moved = true;
    }
    const struct agent_counts *counts =
        moved || baseline ? take_counts(booking, usage, i, cell) : NULL;
    if (!baseline)
        agent_ledger_use(booking->conf.ledger, cell != NULL ? cell->workload : NULL,
                         cell != NULL ? cell->container : NULL, booking->delta_ns, counts);
    if (!baseline && (cell == NULL || cell->workload == NULL))
        agent_ledger_use_system(booking->conf.ledger, part_of(usage->keys[i], cell),
                                booking->delta_ns);
    if (cell == NULL)
        return rc;
    if (moved) {
        cell->moved_ns = booking->now_ns;
        for (unsigned p = 0; p < booking->conf.n_packages; p++)
            cell->prev_ns[p] = p < usage->n_packages ? usage->cpu_ns[i * usage->n_packages + p] : 0;
    } else if (!cell->known && !agent_key_is_fixed(cell->key) &&
               (usage->crowded || booking->now_ns - cell->moved_ns >= FORGET_NS)) {
        forget_later(booking, cell->key);
    }
    return rc;
}

static uint64_t grown(uint64_t now, uint64_t before)
{
    return now > before ? now - before : 0;
}

/** What a cgroup answered since the last reading. */
static void serve(struct agent_cell *cell, const struct agent_served *now)
{
    struct agent_container *container = agent_containers_of(cell->workload, cell->container);
    uint64_t turns = grown(now->turns, cell->served.turns);

    cell->workload->requests += turns;
    if (container != NULL)
        container->requests += turns;
    for (unsigned k = 0; k < AGENT_REQUESTS_CLASSES; k++)
        cell->workload->responses[k] += grown(now->classes[k], cell->served.classes[k]);
    cell->served = *now;
}

static uint32_t serve_all(struct agent_booking *booking)
{
    uint32_t quality = 0;
    int rc = agent_requests_read(booking->conf.requests, &booking->served);

    for (size_t i = 0; rc == 0 && i < booking->served.n; i++) {
        const struct agent_served *now = &booking->served.rows[i];
        if (now->key == AGENT_KEY_OVERFLOW) {
            if (now->turns > booking->overflow_turns)
                quality |= KW_QUALITY_BIT(KW_QUALITY_OVERFLOW);
            booking->overflow_turns = now->turns;
            continue;
        }
        struct agent_cell *cell = agent_cells_find(booking->cells, now->key);
        /* those of a cgroup that is not known yet wait; the system's are nobody's */
        if (cell != NULL && cell->workload != NULL && now->turns != cell->served.turns)
            serve(cell, now);
    }
    return quality;
}

uint32_t agent_booking_serve(struct agent_booking *booking)
{
    uint32_t quality = booking->quality;

    if (booking->conf.requests != NULL)
        quality |= serve_all(booking);
    booking->quality = 0;
    return quality;
}

/** Lets go of what ended; its time is booked. */
static void forget_ended(struct agent_booking *booking)
{
    if (booking->n_forget == 0)
        return;
    booking->quality = agent_booking_serve(booking);
    booking->conf.accounting->forget(booking->conf.accounting_self, booking->forget,
                                     booking->n_forget);
    agent_requests_forget(booking->conf.requests, booking->forget, booking->n_forget);
    for (size_t i = 0; i < booking->n_forget; i++) {
        struct agent_cell *cell = agent_cells_find(booking->cells, booking->forget[i]);
        if (cell != NULL && cell->workload != NULL)
            agent_ledger_detach(cell->workload, cell->container, booking->now_ns,
                                booking->now_unix_ms);
        agent_cells_remove(booking->cells, booking->forget[i]);
        if (booking->conf.cgroups != NULL)
            agent_cgroups_forget(booking->conf.cgroups, booking->forget[i]);
    }
    booking->n_forget = 0;
}

int agent_booking_take(struct agent_booking *booking, const struct agent_usage *usage,
                       bool baseline, uint64_t now_ns, int64_t now_unix_ms)
{
    booking->now_ns = now_ns;
    booking->now_unix_ms = now_unix_ms;
    booking->error = 0;
    booking->multiplexed = false;
    if (booking->conf.cgroups != NULL)
        follow_all(booking);
    for (size_t i = 0; usage != NULL && i < usage->n; i++) {
        int rc = book_row(booking, usage, i, baseline);
        if (rc < 0)
            booking->error = rc;
    }
    forget_ended(booking);
    return booking->error;
}

void agent_booking_owner(const struct agent_booking *booking, uint64_t key,
                         struct agent_workload **ret_workload, struct agent_label **ret_container)
{
    const struct agent_cell *cell = agent_cells_find(booking->cells, key);

    *ret_workload = cell != NULL ? cell->workload : NULL;
    *ret_container = cell != NULL ? cell->container : NULL;
}

bool agent_booking_multiplexed(const struct agent_booking *booking)
{
    return booking->multiplexed;
}
