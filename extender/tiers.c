/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The eleven levels of a score become ten tiers, in which the two dearest share the last. They are
 * relative, as scores are: the cheapest nodes of the cluster have tier 0 however dear they are.
 * They favour the best by less than scores do, since what is next to it now may be better in a
 * minute. Unlike a score, a tier outlives the state that it was made from, by a
 * minute and more where a cluster is large; what that costs, the simulator says
 * (docs/placement.md).
 */
#include "extender/tiers.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"
#include "extender/score.h"

#define LEVEL_MAX 10

/** Nodes that are taken at once. */
#define FEW 64

/** As EXT_PEERS_BAND, where the answer outlives the pod. In the simulator, equal nodes that are
 * best filled evenly take 0.1 % more than spreading so with labels of a minute, where at 0.15 it is
 * 0.6 %; without a limit it is 0.1 % at any age, but a fleet with others beside them, at 85 % of
 * load, takes 1.6 % more. */
#define EVEN_BAND 0.25

/** Takes away what caps do. */
static int level_under_caps(const struct ext_caps *caps, size_t index, double mcpu, int level)
{
    const struct ext_cap_need need = {.mcpu = mcpu};

    if (ext_caps_check(caps, index, &need) != EXT_CAP_PASSES)
        return 0;
    return level - (int)ext_caps_penalty(caps, index, &need);
}

static int8_t tier_of(int level)
{
    int tier = LEVEL_MAX - level;

    return (int8_t)(tier < KW_POWER_TIERS ? tier : KW_POWER_TIERS - 1);
}

/** Where a node is priced for a label: of peers that are best filled evenly, nearer to their mean
 * than for one pod. The plugins spread among them by requests, which are as of now. */
static struct ext_place even_place(const struct ext_place *place)
{
    const struct ext_node *node = ext_place_node(place);
    double capacity_mcpu = (double)place->capacity_mcpu;
    struct ext_place even =
        ext_place_of(place->hull, (double)place->fill * capacity_mcpu, capacity_mcpu,
                     ext_node_peers_fill(node), node->alike ? (double)INFINITY : EVEN_BAND);

    even.wake_uj = place->wake_uj;
    even.price_permille = place->price_permille;
    even.risk_permille = place->risk_permille;
    return even;
}

/** Takes all nodes of a snapshot, a few at a time. @param ret_tiers KW_TIER_NONE of those that
 * nobody knows, else the best. */
static void take_nodes(struct ext_score *score, const struct ext_snapshot *snapshot, int64_t now_ns,
                       int8_t *ret_tiers)
{
    struct ext_place places[FEW];
    const struct ext_place *taken[FEW];

    for (size_t begin = 0; begin < snapshot->n; begin += FEW) {
        size_t n = snapshot->n - begin < FEW ? snapshot->n - begin : FEW;
        for (size_t i = 0; i < n; i++) {
            const struct ext_place *place = ext_place_good(snapshot, begin + i, now_ns);
            if (place != NULL)
                places[i] = even_place(place);
            taken[i] = place == NULL ? NULL : &places[i];
            ret_tiers[begin + i] = place == NULL ? KW_TIER_NONE : 0;
        }
        ext_score_take(score, taken, n);
    }
}

int ext_tiers_rank(const struct ext_snapshot *snapshot, double mcpu, int64_t now_ns,
                   int8_t *ret_tiers)
{
    size_t n = snapshot->n;
    const struct ext_score_pod pod = {.mcpu = mcpu, .lasting = true};
    kw_cleanup_free struct ext_score_scratch *scratch = calloc(n + 1, sizeof(*scratch));
    kw_cleanup_free uint8_t *levels = malloc(n + 1);
    struct ext_score score;

    if (scratch == NULL || levels == NULL)
        return -ENOMEM;
    ext_score_begin(&score, &pod, scratch);
    take_nodes(&score, snapshot, now_ns, ret_tiers);
    (void)ext_score_end(&score, levels);
    for (size_t i = 0; i < n; i++) {
        int level = levels[i];
        if (ret_tiers[i] == KW_TIER_NONE)
            continue;
        if (snapshot->caps != NULL)
            level = level_under_caps(snapshot->caps, i, mcpu, level);
        ret_tiers[i] = tier_of(level);
    }
    return 0;
}

static bool is_less_urgent(const struct ext_tier_write *a, const struct ext_tier_write *b)
{
    if (a->urgency != b->urgency)
        return a->urgency < b->urgency;
    return a->mark->changed_ns > b->mark->changed_ns;
}

/** Lets the top of the heap sink to where it belongs. */
static void sink(struct ext_tier_plan *plan)
{
    struct ext_tier_write top = plan->writes[0];
    size_t at = 0;

    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < plan->n && is_less_urgent(&plan->writes[child + 1], &plan->writes[child]))
            child++;
        if (child >= plan->n || !is_less_urgent(&plan->writes[child], &top))
            break;
        plan->writes[at] = plan->writes[child];
        at = child;
    }
    plan->writes[at] = top;
}

static void rise(struct ext_tier_plan *plan, const struct ext_tier_write *write)
{
    size_t at = plan->n++;

    for (; at > 0 && is_less_urgent(write, &plan->writes[(at - 1) / 2]); at = (at - 1) / 2)
        plan->writes[at] = plan->writes[(at - 1) / 2];
    plan->writes[at] = *write;
}

void ext_tier_plan_offer(struct ext_tier_plan *plan, size_t index, struct ext_tier_mark *mark,
                         int8_t wanted, const struct ext_tier_policy *policy, int64_t now_ns)
{
    const struct ext_tier_write write = {.mark = mark,
                                         .index = index,
                                         .urgency = ext_tier_urgency(mark, wanted, policy, now_ns),
                                         .tier = wanted};

    if (write.urgency == 0)
        return;
    plan->due++;
    if (plan->n < plan->room) {
        rise(plan, &write);
    } else if (plan->room > 0 && is_less_urgent(&plan->writes[0], &write)) {
        plan->writes[0] = write;
        sink(plan);
    }
}

void ext_tier_plan_end(struct ext_tier_plan *plan, int64_t now_ns)
{
    for (size_t i = 0; i < plan->n; i++)
        plan->writes[i].mark->changed_ns = now_ns;
}

void ext_tiers_plan(struct ext_tier_plan *plan, struct ext_node_table *table,
                    const struct ext_snapshot *snapshot, const int8_t *tiers,
                    const struct ext_tier_policy *policy, int64_t now_ns)
{
    for (size_t i = 0; i < ext_node_table_count(table); i++) {
        struct ext_node_entry *entry = ext_node_table_at(table, i);
        const struct ext_node *node = ext_snapshot_find(snapshot, entry->name, strlen(entry->name));
        int8_t wanted = node == NULL ? KW_TIER_NONE : tiers[node - snapshot->nodes];
        ext_tier_plan_offer(plan, i, &entry->tier, wanted, policy, now_ns);
    }
    ext_tier_plan_end(plan, now_ns);
}
