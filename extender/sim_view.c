/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the extender knows of a simulated cluster, through its own snapshot and ledger. A node's
 * agent publishes the mean of its last interval, at times of its own. As in extender/ingest.h a
 * sample is taken for fresh when it comes, and its own clock says which pods it covers.
 */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "extender/pool.h"
#include "extender/sim_impl.h"

/** How often the extender reads the nodes. */
#define REFRESH_S 1.0

/** --stale-after */
#define STALE_AFTER_NS (30 * KW_NS_PER_S)

static int64_t ns_of(double s)
{
    return (int64_t)(s * (double)KW_NS_PER_S);
}

/** Work that a node had done until a time. */
static double sum_at(const struct ext_sim_machine *machine, double at_s)
{
    uint32_t oldest = machine->n_past > EXT_SIM_PAST ? machine->n_past - EXT_SIM_PAST : 0;
    uint32_t i = machine->n_past - 1;

    while (i > oldest && machine->past[i % EXT_SIM_PAST].at_s > at_s)
        i--;
    const struct ext_sim_change *change = &machine->past[i % EXT_SIM_PAST];
    return change->sum_mcpu_s + change->work_mcpu * (at_s - change->at_s);
}

/** A number of its own for each sample of each node. */
static uint64_t number_of(const struct ext_sim *sim, size_t node, int64_t sample)
{
    const uint64_t parts[3] = {sim->conf.seed, node, (uint64_t)sample};

    return ext_hash((const char *)parts, sizeof(parts), 1);
}

/** Takes a node's latest sample, where there is a new one. */
static void take_sample(struct ext_sim *sim, size_t i)
{
    const struct ext_sim_node *truth = &sim->input->nodes[i];
    struct ext_node *node = &sim->view.nodes[i];
    double interval_s = sim->conf.interval_s;
    /* agents started at any time */
    double phase_s = interval_s * (double)(number_of(sim, i, -1) % 1000) / 1000;
    int64_t sample = (int64_t)floor((sim->now_s - sim->conf.late_s - phase_s) / interval_s);
    double end_s = (double)sample * interval_s + phase_s;

    if (sample == sim->view.sample[i])
        return;
    sim->view.sample[i] = sample;
    double from_s = fmax(end_s - interval_s, 0);
    double mean = end_s > from_s
                      ? (sum_at(&sim->machines[i], end_s) - sum_at(&sim->machines[i], from_s)) /
                            (end_s - from_s)
                      : 0;
    double noise = 1 + sim->conf.noise * ext_sim_normal(number_of(sim, i, sample));
    node->used_mcpu =
        fmin(fmax(mean * noise, 0) / truth->work_per_mcpu, (double)truth->curve.capacity_mcpu);
    node->fresh_ns = ns_of(end_s + sim->conf.late_s);
    node->covered_ns = ns_of(end_s);
}

int ext_sim_view_renew(struct ext_sim *sim)
{
    struct ext_sim_view *view = &sim->view;
    size_t n = sim->input->n_nodes;

    if (sim->now_s < view->next_s)
        return 0;
    view->next_s = floor(sim->now_s / REFRESH_S + 1) * REFRESH_S;
    for (size_t i = 0; i < n; i++) {
        take_sample(sim, i);
        view->nodes[i].pricing.asleep = sim->machines[i].asleep; /* which the API server tells */
    }
    ext_snapshot_free(&view->snapshot);
    view->snapshot = ext_snapshot_new(view->nodes, n, sim->conf.seed | 1, STALE_AFTER_NS);
    if (view->snapshot == NULL)
        return -ENOMEM;
    (void)ext_ledger_settle(view->ledger, view->snapshot, ns_of(sim->now_s), view->in_flight_mcpu,
                            NULL);
    for (size_t i = 0; i < n; i++) {
        if (view->in_flight_mcpu[i] > 0)
            ext_snapshot_set_in_flight(view->snapshot, i, view->in_flight_mcpu[i]);
    }
    int reached = ext_pool_reach(view->snapshot->nodes, n);
    if (reached < 0)
        return reached;
    if (ext_pool_level(view->snapshot->nodes, n) || reached > 0)
        ext_snapshot_restand(view->snapshot);
    for (size_t i = 0; reached > 0 && i < n; i++) { /* the next snapshot is made of these */
        view->nodes[i].pricing.reach = view->snapshot->nodes[i].pricing.reach;
        view->nodes[i].hull = view->snapshot->nodes[i].hull;
        view->nodes[i].pooled = view->snapshot->nodes[i].pooled;
    }
    return 0;
}

/** Of the noise, what is left in a knot that the agent has seen many times. */
#define KNOT_NOISE 0.2

/** A curve as an agent learns it: its meter is wrong by a factor, each knot a little by itself, and
 * it never falls. */
static struct kw_curve learn(const struct ext_sim *sim, size_t node)
{
    struct kw_curve curve = sim->input->nodes[node].curve;
    double gain = 1 + sim->conf.noise * ext_sim_normal(number_of(sim, node, -2));
    uint32_t least_mw = 0;

    /* machines of one curve are of one model */
    (void)snprintf(curve.machine, sizeof(curve.machine), "%016" PRIx64,
                   ext_hash((const char *)curve.knots, sizeof(curve.knots), 1));

    for (uint32_t k = 0; k < curve.n; k++) {
        double noise = ext_sim_normal(number_of(sim, node, -3 - (int64_t)k));
        double factor = fmax(gain + KNOT_NOISE * sim->conf.noise * noise, 0);
        double mw = fmin(curve.knots[k].mw * factor, UINT32_MAX / 2);
        curve.knots[k].mw = (uint32_t)fmax(mw, least_mw);
        least_mw = curve.knots[k].mw;
    }
    return curve;
}

int ext_sim_view_init(struct ext_sim *sim)
{
    struct ext_sim_view *view = &sim->view;
    size_t n = sim->input->n_nodes;

    view->nodes = calloc(n + 1, sizeof(*view->nodes));
    view->learnt = calloc(n + 1, sizeof(*view->learnt));
    view->in_flight_mcpu = calloc(n + 1, sizeof(*view->in_flight_mcpu));
    view->sample = calloc(n + 1, sizeof(*view->sample));
    if (view->nodes == NULL || view->learnt == NULL || view->in_flight_mcpu == NULL ||
        view->sample == NULL || ext_ledger_new(sim->conf.seed, &view->ledger) < 0)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        const struct ext_sim_node *truth = &sim->input->nodes[i];
        view->learnt[i] = learn(sim, i);
        view->sample[i] = INT64_MIN;
        view->nodes[i] = (struct ext_node){
            .name = truth->name,
            .name_len = (uint16_t)strlen(truth->name),
            .has_curve = true,
            .interval_ns = (uint64_t)ns_of(sim->conf.interval_s),
            .pricing = {.work_per_mcpu = truth->work_per_mcpu,
                        .energy_price = (float)truth->energy_price,
                        .wake_uj = (float)truth->wake_uj,
                        .sleep_mw = truth->sleep_mw,
                        .sleepable = truth->sleepable},
        };
        ext_pool_take(&view->nodes[i], &view->learnt[i]);
    }
    return ext_pool_settle(view->nodes, n);
}

void ext_sim_view_clear(struct ext_sim *sim)
{
    struct ext_sim_view *view = &sim->view;

    free(view->nodes);
    free(view->learnt);
    free(view->in_flight_mcpu);
    free(view->sample);
    ext_snapshot_free(&view->snapshot);
    ext_ledger_free(&view->ledger);
    *view = (struct ext_sim_view){0};
}

int ext_sim_view_bound(struct ext_sim *sim, uint32_t pod, uint32_t node)
{
    struct ext_bound_pod bound = {.mcpu = (uint64_t)sim->input->pods[pod].request_mcpu};

    (void)snprintf(bound.uid, sizeof(bound.uid), "%u", pod);
    (void)snprintf(bound.node, sizeof(bound.node), "%s", sim->input->nodes[node].name);
    if (sim->conf.policy == EXT_SIM_TIERS)
        ext_typical_note(&sim->tiers.typical, bound.mcpu > 0 ? bound.mcpu : 100);
    int rc = ext_ledger_bound(sim->view.ledger, &bound, ns_of(sim->now_s));
    if (rc == 1 && sim->view.snapshot != NULL)
        (void)ext_snapshot_add_in_flight(sim->view.snapshot, bound.node, (double)bound.mcpu);
    return rc == -ENOMEM ? rc : 0;
}

void ext_sim_view_runs(struct ext_sim *sim, uint32_t pod)
{
    char uid[EXT_UID_MAX + 1];

    (void)snprintf(uid, sizeof(uid), "%u", pod);
    ext_ledger_left(sim->view.ledger, uid, ns_of(sim->now_s));
}

void ext_sim_view_gone(struct ext_sim *sim, uint32_t pod)
{
    char uid[EXT_UID_MAX + 1];

    (void)snprintf(uid, sizeof(uid), "%u", pod);
    ext_ledger_gone(sim->view.ledger, uid);
}
