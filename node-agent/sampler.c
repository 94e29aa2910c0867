/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sample that is shown is made of windows: many short ones tell more about who drew what than one
 * long one (node-agent/pace.h says how many).
 *
 * Order within a window: the accounting is flushed and the meter read before anything else, so that
 * energy and CPU time cover the same window as closely as the machine allows. Then the cgroup tree
 * is brought up to date (a cgroup that was born in the window is known before its time is booked),
 * time is booked, and each slot's energy is split on its own.
 *
 * A window is as long as the monotonic clock says. If the agent was stopped, the counters went on:
 * the window is then long and exact, and flagged; if the machine slept, the boot clock shows it.
 * Nobody ran meanwhile: of a meter that went on, idle is taken off too, and the rest is nobody's.
 *
 * A domain that could not be read for a while gives its energy in one piece when it comes back. It
 * is split by the last window's CPU time, since nothing better is known, and idle is taken off for
 * the time it covers.
 *
 * Epoch: the wall clock at the start, in ms; energies count from there.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/quality.h"
#include "common/cleanup.h"
#include "common/clock.h"
#include "node-agent/naming.h"
#include "node-agent/period.h"
#include "node-agent/sampler_impl.h"
#include "node-agent/self_cost.h"
#include "node-agent/working_sets.h"

/* Smoothing of the node's watts, as the ledger's for workloads. */
#define SMOOTH_NS 10e9

/* Timers are late under load; this much more than the nominal window means that somebody stopped
 * us. */
#define LATE_FACTOR_NUM 5
#define LATE_FACTOR_DEN 2
#define LATE_MIN_NS     KW_NS_PER_S

/* Sleep shorter than this is the two clocks being read one after the other. */
#define SLEEP_MIN_NS (100 * KW_NS_PER_MS)

/* Windows with one of these say nothing reliable about power against load. */
#define UNFIT_FOR_CURVE                                                     \
    (KW_QUALITY_BIT(KW_QUALITY_RESET) | KW_QUALITY_BIT(KW_QUALITY_GAP) |    \
     KW_QUALITY_BIT(KW_QUALITY_STALE) | KW_QUALITY_BIT(KW_QUALITY_FROZEN) | \
     KW_QUALITY_BIT(KW_QUALITY_IMPLAUSIBLE))

static uint64_t boot_ahead_ns(void)
{
    uint64_t monotonic = kw_now_ns();
    uint64_t boot = kw_now_boot_ns();

    return boot > monotonic ? boot - monotonic : 0;
}

/** Leaves out of a reading what is not of this node, and lets go of it: it would fill the map.
 * Needs the tree as it is now: a cgroup that was just born is in it. */
static void confine(struct agent_sampler *sampler)
{
    struct agent_usage *usage = &sampler->usage;
    size_t row = usage->n_packages, kept = 0;

    if (!sampler->conf.part || sampler->conf.cgroups == NULL)
        return;
    (void)agent_cgroups_update(sampler->conf.cgroups, kw_now_ns());
    for (size_t i = 0; i < usage->n; i++) {
        uint64_t key = usage->keys[i];
        if (key != AGENT_KEY_OVERFLOW && agent_cgroups_find(sampler->conf.cgroups, key) == NULL) {
            sampler->conf.accounting->forget(sampler->conf.accounting_self, &key, 1);
            continue;
        }
        usage->keys[kept] = key;
        memmove(&usage->cpu_ns[kept * row], &usage->cpu_ns[i * row], row * sizeof(uint64_t));
        if ((usage->features & AGENT_FEATURES_MORE) != 0)
            memmove(&usage->more[kept * row], &usage->more[i * row], row * sizeof(*usage->more));
        kept++;
    }
    usage->n = kept;
}

/** How work is counted, by what the accounting tells apart. */
static void count_work(struct agent_sampler *sampler)
{
    sampler->basis.by_core = (sampler->usage.features & AGENT_FEATURE_BIT(AGENT_FEATURE_SMT)) != 0;
    sampler->basis.capacity_mcpu =
        agent_work_capacity_mcpu(sampler->conf.topology, sampler->basis.by_core);
}

/** First readings: what lies before them is not ours. A meter that fails here gives its baseline
 * later. */
static int take_baseline(struct agent_sampler *sampler)
{
    const struct agent_sampler_conf *conf = &sampler->conf;

    if (conf->cgroups != NULL)
        (void)agent_cgroups_update(conf->cgroups, kw_now_ns());
    int rc = conf->accounting->read(conf->accounting_self, &sampler->usage);
    if (rc == 0)
        confine(sampler);
    (void)agent_metering_read(conf->metering, NULL, kw_now_ns(), 0, &sampler->metered);
    sampler->last_ns = rc == 0 ? sampler->usage.t_ns : kw_now_ns();
    sampler->last_ahead_ns = boot_ahead_ns();
    return agent_booking_take(sampler->booking, rc == 0 ? &sampler->usage : NULL, true,
                              sampler->last_ns, kw_now_unix_ms());
}

void agent_sampler_choose_splitter(struct agent_sampler *sampler)
{
    struct agent_recorder *recorder = sampler->conf.recorder;

    sampler->splitter = recorder != NULL ? &agent_recorder_ops : sampler->conf.method;
    sampler->splitter_self = recorder != NULL ? recorder : sampler->method;
    if (recorder != NULL)
        agent_recorder_stand_before(recorder, sampler->conf.method, sampler->method);
}

int agent_sampler_new(const struct agent_sampler_conf *conf, struct agent_sampler **ret)
{
    kw_cleanup(agent_sampler_free) struct agent_sampler *sampler = calloc(1, sizeof(*sampler));
    uint64_t idle_mw, full_mw;

    if (sampler == NULL)
        return -ENOMEM;
    sampler->conf = *conf;
    sampler->conf.prior.topology = conf->topology;
    sampler->idle.policy = conf->idle_policy;
    sampler->epoch = (uint64_t)kw_now_unix_ms();
    agent_self_cost_begin(&sampler->self);
    agent_idle_prior_node(&sampler->conf.prior, &idle_mw, &full_mw);
    agent_curve_feed_init(&sampler->curve, idle_mw, full_mw);
    int rc = conf->method->open(AGENT_WORKLOADS_MAX + 1, &sampler->method);
    agent_sampler_choose_splitter(sampler);
    if (rc == 0)
        rc = agent_ledger_new(conf->topology->n_packages, &sampler->ledger);
    if (rc == 0)
        rc = agent_snapshot_pool_new(&sampler->pool);
    if (rc < 0)
        return rc;
    struct agent_booking_conf booking = {
        .n_packages = conf->topology->n_packages,
        .accounting = conf->accounting,
        .accounting_self = conf->accounting_self,
        .cgroups = conf->cgroups,
        .ledger = sampler->ledger,
        .requests = conf->requests,
    };
    rc = agent_booking_new(&booking, &sampler->booking);
    if (rc == 0)
        rc = take_baseline(sampler);
    if (rc < 0)
        return rc;
    count_work(sampler);
    agent_sampler_ask_names(sampler, sampler->last_ns); /* so that the first sample has them */
    *ret = KW_TAKE_PTR(sampler);
    return 0;
}

void agent_sampler_free(struct agent_sampler **sampler)
{
    struct agent_sampler *owned = KW_TAKE_PTR(*sampler);

    if (owned == NULL)
        return;
    agent_booking_free(&owned->booking);
    agent_ledger_free(&owned->ledger);
    agent_snapshot_pool_free(&owned->pool);
    if (owned->method != NULL)
        owned->conf.method->close(&owned->method);
    agent_usage_free(&owned->usage);
    agent_idle_shares_free(&owned->idle);
    free(owned);
}

/** Packages whose CPU domain is metered. */
static unsigned metered_packages(const struct agent_sampler *sampler)
{
    unsigned n = 0;

    for (unsigned p = 0; p < sampler->metered.n_packages; p++)
        n += sampler->metered.slots[agent_slot(p, AGENT_DOMAIN_CPU)].metered;
    return n;
}

/** Splits the energy of every slot. @param slept_ns time that the window's energy covers beside its
 * length. @return all that was measured in the window. */
static uint64_t split_all(struct agent_sampler *sampler, bool usage_known, uint64_t slept_ns)
{
    const struct agent_metering_window *metered = &sampler->metered;
    struct agent_workload *const *workloads = NULL;
    size_t n = agent_ledger_workloads(sampler->ledger, &workloads);
    uint64_t measured_uj = 0, idle_sum_uj = 0;

    for (unsigned slot = 0; slot < 2 * metered->n_packages; slot++) {
        const struct agent_slot_window *window = &metered->slots[slot];
        if (!window->metered)
            continue;
        struct agent_period_slot *period = &sampler->period.slots[slot];
        uint64_t idle_uj = agent_ledger_total(sampler->ledger, slot)->idle_uj;
        uint64_t covered_ns = window->interval_ns == 0 ? 0 : window->interval_ns + slept_ns;
        struct agent_ledger_energy energy = {
            .slot = slot,
            .dram = slot % 2 == 1,
            .package = slot / 2,
            .measured_uj = window->delta_uj,
            .interval_ns = covered_ns,
            .idle_prior_mw = agent_idle_prior_mw(&sampler->conf.prior, slot / 2, slot % 2 == 1,
                                                 metered_packages(sampler)),
            .usage_known = usage_known,
            .n_cpus = agent_topology_cpus_of(sampler->conf.topology, slot / 2),
            .has = agent_counts_has(sampler->usage.features),
        };
        sampler->ever[slot] = true;
        sampler->package_ids[slot / 2] = window->package_id;
        sampler->idle_mw[slot] =
            agent_ledger_split(sampler->ledger, sampler->splitter, sampler->splitter_self, &energy,
                               &sampler->idle_sigma_mw[slot]);
        period->measured_uj += window->delta_uj;
        idle_uj = agent_ledger_total(sampler->ledger, slot)->idle_uj - idle_uj;
        period->idle_uj += idle_uj;
        idle_sum_uj += idle_uj;
        period->interval_ns += covered_ns;
        measured_uj += window->delta_uj;
    }
    agent_idle_share(&sampler->idle, workloads, n, idle_sum_uj,
                     (uint64_t)sampler->conf.topology->n_online * 1000);
    return measured_uj;
}

/** The node's power and load of the window, into the average and the curve. */
static void learn(struct agent_sampler *sampler, uint64_t measured_uj,
                  const struct agent_period_window *window, uint64_t slept_ns)
{
    uint64_t interval_ns = window->interval_ns;
    struct agent_curve_window seen = {
        .fit = window->usage_known && (window->quality & UNFIT_FOR_CURVE) == 0,
        .measured_uj = measured_uj,
        .work_ns = window->work_ns,
        .interval_ns = interval_ns,
        .slept_ns = slept_ns,
        .platform_mw = sampler->metered.platform_mw,
        .platform_t_ns = sampler->metered.has_platform ? sampler->metered.platform_t_ns : 0,
    };
    double history = (double)sampler->watched_ns /
                     (double)(sampler->watched_ns + interval_ns + (interval_ns == 0));
    double keep = fmin(exp(-(double)interval_ns / SMOOTH_NS), history);

    if (interval_ns == 0)
        return;
    sampler->node_mw =
        sampler->node_mw * keep + (double)agent_period_mw(measured_uj, interval_ns) * (1.0 - keep);
    sampler->watched_ns += interval_ns;
    sampler->basis.domains = 0;
    for (unsigned slot = 0; slot < 2 * sampler->metered.n_packages; slot++) {
        if (sampler->metered.slots[slot].metered)
            sampler->basis.domains = agent_curve_domain(sampler->basis.domains, slot);
    }
    sampler->basis.estimated = agent_metering_ops(sampler->conf.metering)->estimated;
    seen.basis = sampler->basis;
    agent_curve_feed_take(&sampler->curve, &seen);
}

static void forget_workload(void *user, uint64_t number)
{
    struct agent_sampler *sampler = user;

    sampler->splitter->forget(sampler->splitter_self, number);
}

/** Whether time of cgroups that did not fit into the table came in since the last look. */
static bool overflow_grew(struct agent_sampler *sampler)
{
    const struct agent_usage *usage = &sampler->usage;
    uint64_t total_ns = 0;

    for (size_t i = 0; usage->overflowed && i < usage->n; i++) {
        for (unsigned p = 0; usage->keys[i] == AGENT_KEY_OVERFLOW && p < usage->n_packages; p++)
            total_ns += usage->cpu_ns[i * usage->n_packages + p];
    }
    bool grew = total_ns > sampler->overflow_ns;
    sampler->overflow_ns = total_ns;
    return grew;
}

static uint32_t window_quality(struct agent_sampler *sampler, bool usage_known,
                               uint64_t interval_ns, uint64_t slept_ns)
{
    uint64_t late_ns = sampler->window_ns * LATE_FACTOR_NUM / LATE_FACTOR_DEN;
    uint32_t quality = sampler->metered.quality;

    if ((sampler->usage.features & AGENT_FEATURE_BIT(AGENT_FEATURE_COUNTERS)) == 0)
        quality |= KW_QUALITY_BIT(KW_QUALITY_NO_COUNTERS);
    if (slept_ns >= SLEEP_MIN_NS ||
        (interval_ns > late_ns && interval_ns > sampler->window_ns + LATE_MIN_NS))
        quality |= KW_QUALITY_BIT(KW_QUALITY_GAP);
    if (usage_known && overflow_grew(sampler))
        quality |= KW_QUALITY_BIT(KW_QUALITY_OVERFLOW);
    if (!usage_known)
        quality |= KW_QUALITY_BIT(KW_QUALITY_STALE);
    return quality;
}

/** Reads accounting and meter back to back. @return what is known of the window so far. */
static struct agent_period_window read_all(struct agent_sampler *sampler, uint64_t *busy_ns,
                                           uint64_t *ret_slept_ns, struct agent_sample_notes *notes)
{
    const struct agent_sampler_conf *conf = &sampler->conf;
    struct agent_counts counts[AGENT_PACKAGES_MAX] = {0};
    struct agent_period_window window = {0};

    notes->accounting_error = conf->accounting->read(conf->accounting_self, &sampler->usage);
    window.usage_known = notes->accounting_error == 0;
    uint64_t now_ns = window.usage_known ? sampler->usage.t_ns : kw_now_ns();
    window.interval_ns = now_ns > sampler->last_ns ? now_ns - sampler->last_ns : 0;
    uint64_t ahead_ns = boot_ahead_ns();
    uint64_t slept_ns = ahead_ns > sampler->last_ahead_ns ? ahead_ns - sampler->last_ahead_ns : 0;
    if (window.usage_known) {
        confine(sampler);
        count_work(sampler);
        agent_booking_busy(sampler->booking, &sampler->usage, busy_ns,
                           agent_metering_ops(conf->metering)->estimated || sampler->basis.by_core
                               ? counts
                               : NULL);
    }
    struct agent_meter_load load = {window.interval_ns, busy_ns, counts};
    notes->meter_error =
        agent_metering_read(conf->metering, &load, now_ns, slept_ns, &sampler->metered);
    notes->meter_changed = sampler->metered.changed;
    notes->meter_left_out = sampler->metered.left_out;
    notes->meter_doubtful = (sampler->metered.quality & KW_QUALITY_BIT(KW_QUALITY_DOUBTFUL)) != 0;
    notes->meter_frozen = (sampler->metered.quality & KW_QUALITY_BIT(KW_QUALITY_FROZEN)) != 0;
    sampler->last_ns = now_ns;
    sampler->last_ahead_ns = ahead_ns;
    for (unsigned p = 0; p < AGENT_PACKAGES_MAX; p++) {
        window.busy_ns += busy_ns[p];
        window.work_ns += agent_work_ns(busy_ns[p], counts[p].shared_ns);
    }
    window.quality = window_quality(sampler, window.usage_known, window.interval_ns, slept_ns);
    *ret_slept_ns = slept_ns >= SLEEP_MIN_NS ? slept_ns : 0;
    return window;
}

void agent_sampler_window(struct agent_sampler *sampler, uint64_t window_ns,
                          struct agent_sample_notes *ret_notes)
{
    const struct agent_sampler_conf *conf = &sampler->conf;
    struct agent_sample_notes notes = {0};
    uint64_t busy_ns[AGENT_PACKAGES_MAX] = {0}, slept_ns = 0;

    sampler->window_ns = window_ns;
    struct agent_period_window window = read_all(sampler, busy_ns, &slept_ns, &notes);
    if (conf->cgroups != NULL)
        notes.cgroups_error = agent_cgroups_update(conf->cgroups, sampler->last_ns);
    agent_ledger_begin(sampler->ledger);
    notes.booking_error =
        agent_booking_take(sampler->booking, window.usage_known ? &sampler->usage : NULL, false,
                           sampler->last_ns, kw_now_unix_ms());
    if (agent_booking_multiplexed(sampler->booking))
        window.quality |= KW_QUALITY_BIT(KW_QUALITY_MULTIPLEXED);
    uint64_t measured_uj = split_all(sampler, window.usage_known && slept_ns == 0, slept_ns);
    if (conf->recorder != NULL)
        agent_recorder_window(conf->recorder, sampler->ledger, sampler->last_ns,
                              window.interval_ns);
    agent_ledger_end(sampler->ledger, sampler->last_ns, window.interval_ns, forget_workload,
                     sampler);
    agent_self_cost_add(&sampler->self, agent_ledger_active_uj(sampler->ledger), window.busy_ns);
    agent_period_add(&sampler->period, &window);
    learn(sampler, measured_uj, &window, slept_ns);
    *ret_notes = notes;
}
