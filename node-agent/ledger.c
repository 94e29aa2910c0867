/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conservation is kept in one place, book(): whatever a method answers, a slot's measured energy is
 * added to idle, pods, system and unattributed so that the four make up the fifth, and what
 * workloads got is what pods got. An answer that does not add up is not repaired: the window's
 * energy counts as unattributed.
 *
 * Workloads are allocated one by one, so that pointers to them stay good while the table grows;
 * cgroups refer to them, and a workload ends with its last cgroup. Ended ones stay for a quarter of
 * an hour, so that every reader sees their last figures, then only their energy remains, in one
 * number.
 *
 * Cost: per window O(workloads x slots), no allocation unless something new appears.
 */
#include "node-agent/ledger.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "node-agent/containers.h"
#include "node-agent/kin.h"
#include "node-agent/workload_index.h"

/* Smoothing of the powers that people look at: a step is 63 % through after this time. */
#define SMOOTH_NS 10e9

#define CAP_MIN 64

struct agent_ledger {
    unsigned n_packages;
    size_t n, cap;
    struct agent_workload **workloads;
    struct agent_workload_index index; /* of them, by their labels */
    struct agent_system_parts system;
    struct kw_energy totals[AGENT_SLOTS_MAX];
    uint64_t departed_uj, departed_idle_uj;
    uint64_t system_ns[AGENT_PACKAGES_MAX];
    struct agent_counts system_counts[AGENT_PACKAGES_MAX];
    struct agent_ledger_work work;
    /* scratch of a split, cap + 1 */
    struct agent_features *features;
    struct agent_share *shares;
    struct agent_workload **parties;
};

int agent_ledger_new(unsigned n_packages, struct agent_ledger **ret)
{
    struct agent_ledger *ledger = calloc(1, sizeof(*ledger));

    if (ledger == NULL)
        return -ENOMEM;
    ledger->n_packages = n_packages < AGENT_PACKAGES_MAX ? n_packages : AGENT_PACKAGES_MAX;
    ledger->features = calloc(1, sizeof(*ledger->features));
    ledger->shares = calloc(1, sizeof(*ledger->shares));
    ledger->parties = calloc(1, sizeof(struct agent_workload *));
    if (ledger->features == NULL || ledger->shares == NULL || ledger->parties == NULL) {
        agent_ledger_free(&ledger);
        return -ENOMEM;
    }
    *ret = ledger;
    return 0;
}

static void free_workload(struct agent_workload *workload)
{
    agent_containers_clear(workload);
    agent_label_unref(&workload->label);
    agent_names_unref(&workload->names);
    free(workload->window_ns);
    free(workload->window_counts);
    free(workload);
}

void agent_ledger_free(struct agent_ledger **ledger)
{
    struct agent_ledger *owned = KW_TAKE_PTR(*ledger);

    if (owned == NULL)
        return;
    for (size_t i = 0; i < owned->n; i++)
        free_workload(owned->workloads[i]);
    agent_workload_index_clear(&owned->index);
    free(owned->workloads);
    free(owned->features);
    free(owned->shares);
    free(owned->parties);
    free(owned);
}

/** @param cap at least the number of workloads. @return 0; -ENOMEM (what is there stays good). */
static int resize(struct agent_ledger *ledger, size_t cap)
{
    struct agent_workload **workloads =
        reallocarray(ledger->workloads, cap, sizeof(struct agent_workload *));
    if (workloads == NULL)
        return -ENOMEM;
    ledger->workloads = workloads;
    /* while only some are as large as said, the smallest of both counts */
    ledger->cap = cap < ledger->cap ? cap : ledger->cap;
    struct agent_features *features =
        reallocarray(ledger->features, cap + 1, sizeof(*ledger->features));
    if (features == NULL)
        return -ENOMEM;
    ledger->features = features;
    struct agent_share *shares = reallocarray(ledger->shares, cap + 1, sizeof(*ledger->shares));
    if (shares == NULL)
        return -ENOMEM;
    ledger->shares = shares;
    struct agent_workload **parties =
        reallocarray(ledger->parties, cap + 1, sizeof(struct agent_workload *));
    if (parties == NULL)
        return -ENOMEM;
    ledger->parties = parties;
    ledger->cap = cap;
    return 0;
}

/** Room for one more workload and for a split among all. @return 0; -ENOSPC; -ENOMEM. */
static int grow(struct agent_ledger *ledger)
{
    if (ledger->n < ledger->cap)
        return 0;
    if (ledger->cap >= AGENT_WORKLOADS_MAX)
        return -ENOSPC;
    return resize(ledger, ledger->cap == 0 ? CAP_MIN : 2 * ledger->cap);
}

static int add_workload(struct agent_ledger *ledger, const struct agent_identity *identity,
                        int64_t now_unix_ms, struct agent_workload **ret)
{
    struct agent_label texts = {.kind = identity->kind,
                                .qos = identity->qos,
                                .id = (char *)identity->id,
                                .name = (char *)identity->name,
                                .runtime = (char *)identity->runtime,
                                .cgroup = (char *)identity->workload_path,
                                .started_unix_ms = now_unix_ms};
    int rc = grow(ledger);

    if (rc < 0)
        return rc;
    struct agent_workload *workload = calloc(1, sizeof(*workload));
    if (workload == NULL)
        return -ENOMEM;
    workload->window_ns = calloc(ledger->n_packages, sizeof(uint64_t));
    workload->window_counts = calloc(ledger->n_packages, sizeof(*workload->window_counts));
    if (workload->window_ns == NULL || workload->window_counts == NULL ||
        agent_label_new(&texts, &workload->label) < 0 ||
        agent_workload_index_add(&ledger->index, workload->label, workload) < 0) {
        free_workload(workload);
        return -ENOMEM;
    }
    workload->kin = agent_kin_of(workload->label, NULL);
    workload->number = agent_number_of(workload->label->kind, workload->label->id);
    ledger->workloads[ledger->n++] = workload;
    *ret = workload;
    return 0;
}

int agent_ledger_attach(struct agent_ledger *ledger, const struct agent_identity *identity,
                        const char *path, int64_t now_unix_ms, struct agent_workload **ret,
                        struct agent_label **ret_container)
{
    kw_cleanup_free char *id = agent_label_text(identity->id);
    kw_cleanup_free char *container_id = agent_label_text(identity->container_id);
    struct agent_container *container = NULL;

    if (id == NULL || container_id == NULL)
        return -ENOMEM;
    struct agent_workload *workload = agent_workload_index_find(&ledger->index, identity->kind, id);

    if (workload == NULL) {
        int rc = add_workload(ledger, identity, now_unix_ms, &workload);
        if (rc < 0)
            return rc;
    }
    if (identity->container_id[0] != '\0') {
        container = agent_containers_find(workload, container_id);
        if (container != NULL) {
            container->cgroups++;
        } else {
            int rc = agent_containers_add(workload, identity, path, now_unix_ms);
            container = agent_containers_find(workload, container_id);
            if (rc < 0 && workload->cgroups == 0)
                workload->ended_unix_ms = now_unix_ms; /* made for nothing: departs in time */
            if (rc < 0)
                return rc;
        }
    }
    workload->cgroups++;
    workload->attached++;
    workload->ended_unix_ms = 0;
    *ret = workload;
    *ret_container = container != NULL ? agent_label_ref(container->label) : NULL;
    return 0;
}

void agent_ledger_detach(struct agent_workload *workload, const struct agent_label *label,
                         uint64_t now_ns, int64_t now_unix_ms)
{
    struct agent_container *container = agent_containers_of(workload, label);

    if (container != NULL && container->cgroups > 0 && --container->cgroups == 0)
        container->ended_ns = now_ns;
    workload->detached++;
    if (workload->cgroups > 0 && --workload->cgroups == 0) {
        workload->ended_unix_ms = now_unix_ms;
        workload->ended_ns = now_ns;
    }
}

void agent_ledger_begin(struct agent_ledger *ledger)
{
    memset(ledger->system_ns, 0, sizeof(ledger->system_ns));
    memset(ledger->system_counts, 0, sizeof(ledger->system_counts));
    agent_system_parts_begin(&ledger->system);
    for (size_t i = 0; i < ledger->n; i++) {
        struct agent_workload *workload = ledger->workloads[i];
        memset(workload->window_ns, 0, ledger->n_packages * sizeof(uint64_t));
        memset(workload->window_counts, 0, ledger->n_packages * sizeof(*workload->window_counts));
        workload->window_all_ns = 0;
        workload->window_own_ns = 0;
        workload->window_cpu_uj = 0;
        workload->window_dram_uj = 0;
        workload->window_sigma_uj = 0;
        for (size_t k = 0; k < workload->n_containers; k++)
            workload->containers[k].window_ns = 0;
    }
}

const struct agent_ledger_work *agent_ledger_work(const struct agent_ledger *ledger)
{
    return &ledger->work;
}

void agent_ledger_use(struct agent_ledger *ledger, struct agent_workload *workload,
                      const struct agent_label *label, const uint64_t *cpu_ns,
                      const struct agent_counts *counts)
{
    struct agent_counts *into = workload == NULL ? ledger->system_counts : workload->window_counts;
    uint64_t all = 0;

    for (unsigned p = 0; counts != NULL && p < ledger->n_packages; p++) {
        agent_counts_add(&into[p], &counts[p]);
        agent_counts_add(&ledger->work.counts, &counts[p]);
        if (workload != NULL)
            agent_counts_add(&workload->counts, &counts[p]);
    }
    for (unsigned p = 0; p < ledger->n_packages; p++) {
        all += cpu_ns[p];
        if (workload == NULL)
            ledger->system_ns[p] += cpu_ns[p];
        else
            workload->window_ns[p] += cpu_ns[p];
    }
    ledger->work.cpu_ns += all;
    if (all == 0 || workload == NULL)
        return;
    workload->cpu_ns += all;
    workload->window_all_ns += all;
    struct agent_container *container = agent_containers_of(workload, label);
    if (container == NULL) {
        workload->window_own_ns += all;
        return;
    }
    container->cpu_ns += all;
    container->window_ns += all;
}

void agent_ledger_use_system(struct agent_ledger *ledger, enum agent_system_part part,
                             const uint64_t *cpu_ns)
{
    agent_system_parts_use(&ledger->system, part, cpu_ns, ledger->n_packages);
}

const struct agent_system_parts *agent_ledger_system(const struct agent_ledger *ledger)
{
    return &ledger->system;
}

/** Books a split; one that does not add up is refused whole. */
static void book(struct agent_ledger *ledger, const struct agent_ledger_energy *energy,
                 const struct agent_split *split, size_t n)
{
    struct kw_energy *total = &ledger->totals[energy->slot];
    unsigned __int128 sum = (unsigned __int128)split->idle_uj + split->unattributed_uj;

    for (size_t i = 0; i < n; i++)
        sum += split->shares[i].active_uj;
    total->measured_uj += energy->measured_uj;
    if (sum != energy->measured_uj) {
        total->unattributed_uj += energy->measured_uj;
        return;
    }
    total->idle_uj += split->idle_uj;
    total->unattributed_uj += split->unattributed_uj;
    if (n > 0) {
        total->system_uj += split->shares[0].active_uj;
        agent_system_parts_share(&ledger->system, split->shares[0].active_uj, energy->package,
                                 ledger->n_packages);
    }
    for (size_t i = 1; i < n; i++) {
        struct agent_workload *workload = ledger->parties[i];
        const struct agent_share *share = &split->shares[i];
        total->pods_uj += share->active_uj;
        workload->sigma_uj += share->sigma_uj;
        workload->window_sigma_uj += share->sigma_uj;
        if (energy->dram) {
            workload->dram_uj += share->active_uj;
            workload->window_dram_uj += share->active_uj;
        } else {
            workload->cpu_uj += share->active_uj;
            workload->window_cpu_uj += share->active_uj;
        }
    }
}

uint64_t agent_ledger_split(struct agent_ledger *ledger, const struct agent_attribution_ops *method,
                            void *state, const struct agent_ledger_energy *energy,
                            uint64_t *ret_sigma_mw)
{
    size_t n = 0;

    if (energy->usage_known) {
        ledger->features[n++] = agent_counts_features(ledger->system_counts, ledger->system_ns,
                                                      ledger->n_packages, energy->package, 0);
        for (size_t i = 0; i < ledger->n; i++) {
            struct agent_workload *workload = ledger->workloads[i];
            if (workload->cgroups == 0 && workload->window_all_ns == 0)
                continue;
            ledger->parties[n] = workload;
            ledger->features[n++] =
                agent_counts_features(workload->window_counts, workload->window_ns,
                                      ledger->n_packages, energy->package, workload->number);
            ledger->features[n - 1].kin = workload->kin;
        }
    }
    struct agent_window window = {
        .domain = energy->slot,
        .dram = energy->dram,
        .has = energy->has,
        .n_cpus = energy->n_cpus,
        .interval_ns = energy->interval_ns,
        .measured_uj = energy->measured_uj,
        .idle_prior_mw = energy->idle_prior_mw,
        .n = n,
        .features = ledger->features,
    };
    struct agent_split split = {.shares = ledger->shares};
    method->split(state, &window, &split);
    book(ledger, energy, &split, n);
    *ret_sigma_mw = split.idle_sigma_mw;
    return split.idle_mw;
}

/** How long an ended workload is listed: a storm of pods must leave room for the next ones, whose
 * energy would go to the system otherwise. */
static uint64_t stay_of(size_t n)
{
    if (n > AGENT_WORKLOADS_MAX - AGENT_WORKLOADS_MAX / 16)
        return 0;
    return n > AGENT_WORKLOADS_MAX / 4 * 3 ? AGENT_DEPART_NS / 15 : AGENT_DEPART_NS;
}

/** Gives memory back after a storm. Where there is none for a smaller table the large one stays. */
static void shrink(struct agent_ledger *ledger)
{
    size_t cap = ledger->cap;

    while (cap > CAP_MIN && ledger->n < cap / 8)
        cap /= 2;
    if (cap < ledger->cap)
        (void)resize(ledger, cap);
}

void agent_ledger_end(struct agent_ledger *ledger, uint64_t now_ns, uint64_t interval_ns,
                      void (*departed)(void *user, uint64_t number), void *user)
{
    double ewma_keep = exp(-(double)interval_ns / SMOOTH_NS);
    uint64_t stay_ns = stay_of(ledger->n);
    size_t kept = 0;

    for (size_t i = 0; i < ledger->n; i++) {
        struct agent_workload *workload = ledger->workloads[i];
        /* a plain mean until there is more history than the average remembers */
        double mean_keep = (double)workload->watched_ns /
                           (double)(workload->watched_ns + (interval_ns > 0 ? interval_ns : 1));
        double keep = fmin(ewma_keep, mean_keep);
        agent_containers_share(workload, interval_ns, keep);
        if (workload->cgroups == 0) {
            workload->cpu_mw = 0;
            workload->dram_mw = 0;
            workload->sigma_mw = 0;
        } else if (interval_ns > 0) {
            agent_containers_smooth(&workload->cpu_mw, workload->window_cpu_uj, interval_ns, keep);
            agent_containers_smooth(&workload->dram_mw, workload->window_dram_uj, interval_ns,
                                    keep);
            agent_containers_smooth(&workload->sigma_mw, workload->window_sigma_uj, interval_ns,
                                    keep);
            workload->watched_ns += interval_ns;
        }
        if (workload->cgroups == 0 && now_ns - workload->ended_ns >= stay_ns) {
            ledger->departed_uj += workload->cpu_uj + workload->dram_uj;
            ledger->departed_idle_uj += workload->idle_uj;
            if (departed != NULL)
                departed(user, workload->number);
            agent_workload_index_remove(&ledger->index, workload->label);
            free_workload(workload);
            continue;
        }
        agent_containers_expire(workload, now_ns);
        ledger->workloads[kept++] = workload;
    }
    ledger->n = kept;
    shrink(ledger);
}

const struct kw_energy *agent_ledger_total(const struct agent_ledger *ledger, unsigned slot)
{
    return &ledger->totals[slot];
}

uint64_t agent_ledger_active_uj(const struct agent_ledger *ledger)
{
    uint64_t active_uj = 0;

    for (unsigned slot = 0; slot < AGENT_SLOTS_MAX; slot++)
        active_uj += ledger->totals[slot].pods_uj + ledger->totals[slot].system_uj;
    return active_uj;
}

uint64_t agent_ledger_departed_uj(const struct agent_ledger *ledger)
{
    return ledger->departed_uj;
}

uint64_t agent_ledger_departed_idle_uj(const struct agent_ledger *ledger)
{
    return ledger->departed_idle_uj;
}

size_t agent_ledger_workloads(const struct agent_ledger *ledger, struct agent_workload *const **ret)
{
    *ret = ledger->workloads;
    return ledger->n;
}
