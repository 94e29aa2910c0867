/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels of nodes in a simulated cluster, written by the rules of extender/tiers.h for the typical
 * pod, and what NodeAffinity makes of them.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "common/clock.h"
#include "extender/sim_impl.h"

/** --power-tiers-per-second */
#define WRITES_PER_S 10.0

/** How often the extender looks at the labels. */
#define LOOK_S 1.0

/** Best score of a plugin. */
#define TOP 100

/** --default-cpu-mcpu */
#define DEFAULT_MCPU 100

int ext_sim_tiers_init(struct ext_sim *sim)
{
    size_t n = sim->input->n_nodes;

    sim->tiers.marks = calloc(n, sizeof(*sim->tiers.marks));
    sim->tiers.wanted = calloc(n, sizeof(*sim->tiers.wanted));
    if (sim->tiers.marks == NULL || sim->tiers.wanted == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++)
        ext_tier_seen(&sim->tiers.marks[i], KW_TIER_NONE, 0);
    return 0;
}

void ext_sim_tiers_clear(struct ext_sim *sim)
{
    free(sim->tiers.marks);
    free(sim->tiers.wanted);
}

/** Writes the labels that are due. */
static void write_due(struct ext_sim *sim, const struct ext_tier_policy *policy, double passed_s)
{
    struct ext_sim_tiers *tiers = &sim->tiers;
    int64_t now_ns = (int64_t)(sim->now_s * (double)KW_NS_PER_S) + 1; /* 0: never */
    struct ext_tier_plan plan = {.room =
                                     (size_t)fmin(EXT_TIER_WRITES_MAX, WRITES_PER_S * passed_s)};

    for (size_t i = 0; i < sim->input->n_nodes; i++)
        ext_tier_plan_offer(&plan, i, &tiers->marks[i], tiers->wanted[i], policy, now_ns);
    ext_tier_plan_end(&plan, now_ns);
    for (size_t i = 0; i < plan.n; i++)
        ext_tier_seen(plan.writes[i].mark, plan.writes[i].tier, now_ns);
}

int ext_sim_tiers_renew(struct ext_sim *sim)
{
    struct ext_sim_tiers *tiers = &sim->tiers;
    double age_s = sim->conf.tier_age_s;
    int64_t age_ns = (int64_t)(age_s * (double)KW_NS_PER_S);
    const struct ext_tier_policy policy = {.every_ns = age_ns, .patience_ns = age_ns};
    double passed_s = sim->now_s - tiers->looked_s;

    if (age_s > 0 && passed_s < LOOK_S && tiers->looked)
        return 0;
    uint64_t mcpu = ext_typical_mcpu(&tiers->typical, DEFAULT_MCPU);
    int rc = ext_tiers_rank(sim->view.snapshot, (double)mcpu,
                            (int64_t)(sim->now_s * (double)KW_NS_PER_S), tiers->wanted);
    if (rc < 0)
        return rc;
    /* nodes were there long before the first pod */
    bool at_will = age_s <= 0 || !tiers->looked;
    for (size_t i = 0; at_will && i < sim->input->n_nodes; i++)
        tiers->marks[i].tier = tiers->wanted[i];
    if (!at_will)
        write_due(sim, &policy, passed_s);
    tiers->looked = true;
    tiers->looked_s = sim->now_s;
    return 0;
}

void ext_sim_tiers_score(struct ext_sim *sim, size_t n)
{
    int64_t most = 0;

    for (size_t i = 0; i < n; i++) {
        int weight = kw_tier_weight(sim->tiers.marks[sim->found[i]].tier);
        sim->values[i] = weight;
        most = weight > most ? weight : most;
    }
    for (size_t i = 0; i < n && most > 0; i++)
        sim->points[i] += sim->conf.weight * ((int64_t)sim->values[i] * TOP / most);
}
