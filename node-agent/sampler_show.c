/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "node-agent/naming.h"
#include "node-agent/sampler_impl.h"
#include "node-agent/working_sets.h"

/* No workload draws so many times what is expected of it: the filter is lost. */
#define INTENSITY_MAX 1e6

static void fill_packages(const struct agent_sampler *sampler, struct agent_snapshot *snapshot,
                          struct kw_sample *sample)
{
    for (unsigned p = 0; p < KW_PACKAGES_MAX; p++) {
        unsigned cpu = agent_slot(p, AGENT_DOMAIN_CPU), dram = agent_slot(p, AGENT_DOMAIN_DRAM);
        if (!sampler->ever[cpu] && !sampler->ever[dram])
            continue;
        sample->packages[sample->n_packages++] = (struct kw_package_sample){
            .package = sampler->package_ids[p],
            .cpu = *agent_ledger_total(sampler->ledger, cpu),
            .has_dram = sampler->ever[dram],
            .dram = *agent_ledger_total(sampler->ledger, dram),
        };
        for (unsigned slot = cpu; slot <= dram; slot++) {
            const struct agent_slot_window *window = &sampler->metered.slots[slot];
            const struct agent_period_slot *period = &sampler->period.slots[slot];
            snapshot->slots[slot].present = sampler->ever[slot];
            snapshot->slot_mw[slot] = agent_period_mw(period->measured_uj, period->interval_ns);
            snapshot->slot_idle_mw[slot] = agent_period_mw(period->idle_uj, period->interval_ns);
            sample->idle_mw += sampler->idle_mw[slot];
            if (window->metered)
                (void)snprintf(snapshot->slots[slot].path, sizeof(snapshot->slots[slot].path), "%s",
                               window->domain->path);
        }
    }
}

/** What power models are learnt from, where a meter says it. */
static void fill_totals(const struct agent_sampler *sampler, struct kw_sample *sample)
{
    const struct agent_ledger_work *work = agent_ledger_work(sampler->ledger);
    bool counters = (sample->quality & KW_QUALITY_BIT(KW_QUALITY_NO_COUNTERS)) == 0;
    struct kw_totals_sample *totals = &sample->totals;

    if ((sample->quality & KW_QUALITY_BIT(KW_QUALITY_ESTIMATED)) != 0 || sample->n_packages == 0)
        return;
    *totals = (struct kw_totals_sample){
        .present = true, .has_dram = true, .has_counters = counters, .cpu_ns = work->cpu_ns};
    if (totals->has_counters) {
        totals->cycles = work->counts.cycles;
        totals->instructions = work->counts.instructions;
        totals->llc_misses = work->counts.llc_misses;
    }
    for (uint32_t i = 0; i < sample->n_packages; i++) {
        totals->cpu_uj += sample->packages[i].cpu.measured_uj;
        totals->dram_uj += sample->packages[i].dram.measured_uj;
        totals->has_dram = totals->has_dram && sample->packages[i].has_dram;
    }
    totals->dram_uj = totals->has_dram ? totals->dram_uj : 0;
    for (unsigned slot = 0; slot < AGENT_SLOTS_MAX; slot++)
        totals->apart =
            totals->apart || (sampler->ever[slot] && !agent_period_covers(&sampler->period, slot));
}

static void fill_sample(struct agent_sampler *sampler, struct agent_snapshot *snapshot)
{
    const struct agent_sampler_conf *conf = &sampler->conf;
    const struct agent_metering_window *metered = &sampler->metered;
    struct kw_sample *sample = &snapshot->sample;
    uint64_t now_ns = sampler->last_ns;
    double variance = 0;

    memset(sample, 0, sizeof(*sample));
    memset(snapshot->slot_mw, 0, sizeof(snapshot->slot_mw));
    memset(snapshot->slot_idle_mw, 0, sizeof(snapshot->slot_idle_mw));
    (void)snprintf(sample->node, sizeof(sample->node), "%s", conf->node);
    (void)snprintf(sample->boot_id, sizeof(sample->boot_id), "%s", conf->boot_id);
    sample->epoch = sampler->epoch;
    sample->seq = ++sampler->seq;
    sample->t_unix_ms = kw_now_unix_ms();
    sample->interval_ns = sampler->period.interval_ns;
    fill_packages(sampler, snapshot, sample);
    for (unsigned slot = 0; slot < AGENT_SLOTS_MAX; slot++)
        variance += (double)sampler->idle_sigma_mw[slot] * (double)sampler->idle_sigma_mw[slot];
    sample->idle_sigma_mw = (uint64_t)llround(sqrt(variance));
    if (metered->has_platform) {
        sample->platform.present = true;
        sample->platform.mw = metered->platform_mw;
        sample->platform.age_ms =
            now_ns > metered->platform_t_ns ? (now_ns - metered->platform_t_ns) / KW_NS_PER_MS : 0;
        (void)snprintf(sample->platform.source, sizeof(sample->platform.source), "%s",
                       metered->platform_source);
    }
    sample->watts_mw = (uint64_t)llround(sampler->node_mw);
    sampler->used_mcpu = agent_period_used_mcpu(&sampler->period, sampler->used_mcpu);
    sample->used_mcpu = sampler->used_mcpu;
    sampler->work_mcpu = agent_period_work_mcpu(&sampler->period, sampler->work_mcpu);
    sample->has_work = sampler->basis.by_core;
    sample->work_mcpu = sample->has_work ? sampler->work_mcpu : 0;
    sample->allocatable_mcpu = (uint64_t)conf->topology->n_online * 1000;
    sample->quality = sampler->period.quality;
    sample->quality_epoch = sampler->period.quality_epoch;
    fill_totals(sampler, sample);
    (void)snprintf(sample->meter, sizeof(sample->meter), "%s",
                   agent_metering_ops(conf->metering)->name);
    (void)snprintf(sample->method, sizeof(sample->method), "%s", conf->method->name);
    (void)snprintf(sample->accounting, sizeof(sample->accounting), "%s", conf->accounting->name);
    (void)snprintf(sample->idle_policy, sizeof(sample->idle_policy), "%s",
                   agent_idle_policy_names[conf->idle_policy]);
    sample->idle_unshared_uj = sampler->idle.unshared_uj;
    sample->self_cpu_ns = agent_self_cpu_ns() - sampler->self.base_ns;
    sample->self_uj = sampler->self.uj;
    agent_system_parts_show(agent_ledger_system(sampler->ledger), conf->accounting->merges_kernel,
                            &sample->system);
    sample->self_rss_bytes = agent_self_rss_bytes();
}

/** What the method believes of a workload, on the package where it is surest. */
static struct kw_intensity intensity_of(const struct agent_sampler *sampler, uint64_t workload,
                                        enum agent_domain_kind kind)
{
    const struct agent_attribution_ops *method = sampler->conf.method;
    struct kw_intensity best = {0};
    double mean = 0, sigma = 0, least = INFINITY;

    for (unsigned p = 0; method->tell != NULL && p < KW_PACKAGES_MAX; p++) {
        unsigned slot = agent_slot(p, kind);
        if (!sampler->ever[slot] || !method->tell(sampler->method, slot, workload, &mean, &sigma) ||
            !(sigma < least) || !(fabs(mean) < INTENSITY_MAX) || !(sigma < INTENSITY_MAX))
            continue;
        least = sigma;
        best = (struct kw_intensity){.permille = (uint64_t)llround(1000 * fmax(mean, 0)),
                                     .sigma_permille = (uint64_t)llround(fmax(1000 * sigma, 1))};
    }
    return best;
}

/** Where the power of each workload comes from. The rows are the ledger's workloads, in its order.
 */
static void fill_causes(struct agent_sampler *sampler, struct agent_snapshot *snapshot)
{
    struct agent_workload *const *workloads = NULL;
    size_t n = agent_ledger_workloads(sampler->ledger, &workloads);
    uint64_t capacity_mcpu = snapshot->sample.allocatable_mcpu;
    const uint64_t *idle_mw = agent_idle_portions(&sampler->idle, AGENT_IDLE_EQUAL, workloads, n,
                                                  snapshot->sample.idle_mw, capacity_mcpu);

    for (size_t i = 0; i < n; i++) {
        struct agent_row *row = &snapshot->rows[i];
        row->idle_equal_mw = idle_mw != NULL ? idle_mw[i] : 0;
        row->cpu_intensity = intensity_of(sampler, workloads[i]->number, AGENT_DOMAIN_CPU);
        row->dram_intensity = intensity_of(sampler, workloads[i]->number, AGENT_DOMAIN_DRAM);
    }
    idle_mw = agent_idle_portions(&sampler->idle, AGENT_IDLE_REQUESTS, workloads, n,
                                  snapshot->sample.idle_mw, capacity_mcpu);
    for (size_t i = 0; i < n; i++)
        snapshot->rows[i].idle_requests_mw = idle_mw != NULL ? idle_mw[i] : 0;
}

void agent_sampler_ask_names(struct agent_sampler *sampler, uint64_t now_ns)
{
    struct agent_workload *const *workloads = NULL;
    size_t n = agent_ledger_workloads(sampler->ledger, &workloads);

    if (sampler->conf.lookup != NULL)
        agent_lookup_name(sampler->conf.lookup, workloads, n, now_ns);
}

static void name_workloads(struct agent_sampler *sampler, uint64_t now_ns)
{
    struct agent_pod_source *pods = sampler->conf.pods;
    struct agent_workload *const *workloads = NULL;
    size_t n = agent_ledger_workloads(sampler->ledger, &workloads);

    agent_sampler_ask_names(sampler, now_ns);
    if (pods == NULL)
        return;
    struct agent_pod_directory *directory = agent_pod_source_acquire(pods);
    agent_pod_source_release(pods, agent_naming_pods(directory, workloads, n, now_ns));
}

static void fill_curve(const struct agent_sampler *sampler, struct kw_curve *curve)
{
    const struct agent_sampler_conf *conf = &sampler->conf;

    agent_curve_feed_get(&sampler->curve, &sampler->basis, curve);
    curve->has_sleep = conf->sleep_w > 0;
    curve->sleep_mw = (uint32_t)llround(conf->sleep_w * 1000);
    curve->has_wake = conf->wake_j > 0;
    curve->wake_uj = (uint64_t)llround(conf->wake_j * 1e6);
}

int agent_sampler_show(struct agent_sampler *sampler, struct agent_snapshot **ret)
{
    const struct agent_sampler_conf *conf = &sampler->conf;
    struct agent_snapshot *snapshot = NULL;

    if (conf->cgroups != NULL)
        agent_working_sets_read(sampler->ledger, conf->cgroups, &sampler->memory_cursor,
                                sampler->last_ns, sampler->period.interval_ns);
    name_workloads(sampler, sampler->last_ns);
    agent_period_flag(&sampler->period, agent_booking_serve(sampler->booking));
    int rc = agent_snapshot_take(sampler->pool, &snapshot);
    if (rc < 0)
        return rc;
    rc = agent_snapshot_fill(snapshot, sampler->ledger);
    if (rc < 0) {
        agent_snapshot_recycle(snapshot);
        return rc;
    }
    fill_sample(sampler, snapshot);
    fill_causes(sampler, snapshot);
    if (conf->processes != NULL && conf->cgroups != NULL)
        agent_process_watch_show(conf->processes, conf->cgroups, sampler->booking, sampler->ledger,
                                 kw_now_boot_ns(), snapshot);
    snapshot->counts_requests = conf->requests != NULL;
    memcpy(snapshot->quality_windows, sampler->period.quality_windows,
           sizeof(snapshot->quality_windows));
    fill_curve(sampler, &snapshot->curve);
    agent_period_next(&sampler->period);
    *ret = snapshot;
    return 0;
}
