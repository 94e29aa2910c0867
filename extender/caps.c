/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Problem: a pod may go where neither the node, nor any power domain that it stands in, nor the
 * cluster passes its cap; thousands of candidates are asked about while the scheduler waits.
 *
 * Approach: what does not depend on the pod is computed with each snapshot. A node keeps its room
 * and the price of work from where it stands; a domain the least room of itself and all that it
 * lies in. A request then costs a product and two comparisons a candidate, and nothing in it walks
 * a tree. A pod that is placed between two snapshots moves its node along, and takes its watts from
 * the rooms of all domains around it; then the least rooms are made anew, parents first.
 *
 * Invariants: every estimate errs to the dear side: watts are the greater of measured and curve, a
 * pod that passes a knot is priced at the steepest slope behind it, and pods that were let in and
 * not seen since (extender/tally.h) count on each node that might have got them. A reader that sees
 * half of a move still counts the pod, since it is taken from the tally after the move.
 */
#include "extender/caps.h"

#include <math.h>
#include <stdlib.h>

#define LEVELS 10

/** A node that has this part of its cap free, above idle, runs next to nothing: what fits there but
 * for what it might use alone is let in where it fits nowhere else, since it might never. */
#define IDLE_PART 0.9

const char *const ext_cap_names[EXT_CAP__MAX] = {
    [EXT_CAP_PASSES] = "passes",   [EXT_CAP_NODE] = "node",    [EXT_CAP_DOMAIN] = "domain",
    [EXT_CAP_CLUSTER] = "cluster", [EXT_CAP_ASLEEP] = "sleep", [EXT_CAP_UNSEEN] = "start",
};
const char *const ext_cap_texts[EXT_CAP__MAX] = {
    [EXT_CAP_PASSES] = "",
    [EXT_CAP_NODE] = "kwatt: no room under the node's power cap",
    [EXT_CAP_DOMAIN] = "kwatt: no room under the power cap of the node's domain",
    [EXT_CAP_CLUSTER] = "kwatt: no room under the cluster's power cap",
    [EXT_CAP_ASLEEP] = "kwatt: the node is being put to sleep",
    [EXT_CAP_UNSEEN] = "kwatt: has just started, and waits for samples of what runs under the cap",
};
_Static_assert(EXT_CAP__MAX == 6, "a verdict without a text");

bool ext_caps_any(const struct ext_cap_tree *tree, const struct ext_node_table *table)
{
    return tree->n > 0 || ext_node_table_bound(table) > 0;
}

void ext_caps_free(struct ext_caps **caps)
{
    if (*caps == NULL)
        return;
    free((*caps)->nodes);
    free((*caps)->domains);
    ext_cap_tree_free(&(*caps)->tree);
    free(*caps);
    *caps = NULL;
}

/** A building under way. */
struct work {
    const struct ext_caps_sources *from;
    struct ext_caps *caps;
    double *cap_mw;   /**< of each node; 0: none */
    double *variance; /**< of each domain's sum: squares of risks, mW^2 */
    double known_mw;  /**< of all nodes that were heard of */
    size_t n_known;
};

/** What is known of the nodes by the API server: caps, domains, sleep. */
static void take_table(struct work *work)
{
    const struct ext_caps_sources *from = work->from;
    struct ext_caps *caps = work->caps;

    for (size_t i = 0; i < ext_node_table_count(from->table); i++) {
        const struct ext_node_entry *entry = ext_node_table_at(from->table, i);
        size_t index = from->index_of(from->user, entry->name);
        if (index == SIZE_MAX)
            continue;
        caps->nodes[index].domain = ext_cap_tree_find(from->tree, entry->domain);
        caps->nodes[index].asleep = entry->falling_asleep;
        work->cap_mw[index] = entry->cap_mw;
    }
}

/** Adds a node to the domains around it. */
static void add_up(struct work *work, uint32_t domain, double mw, double risk_mw, double price)
{
    while (domain != 0) {
        struct ext_cap_domain *sum = &work->caps->domains[domain - 1];
        sum->n_nodes++;
        sum->watts_mw += mw;
        work->variance[domain - 1] += risk_mw * risk_mw;
        if (price > sum->mw_per_mcpu)
            sum->mw_per_mcpu = price;
        domain = work->from->tree->domains[domain - 1].parent;
    }
}

/** Counts nodes in the domains around them. */
static void count_up(struct work *work, uint32_t domain, bool stale, bool unseen)
{
    for (; domain != 0; domain = work->from->tree->domains[domain - 1].parent) {
        struct ext_cap_domain *sum = &work->caps->domains[domain - 1];
        sum->n_stale += stale;
        sum->n_unseen += unseen;
        sum->n_unknown += !stale && !unseen;
    }
}

static bool was_closed(const struct work *work, size_t index)
{
    const struct ext_caps_sources *from = work->from;
    size_t before = from->before == NULL ? SIZE_MAX : from->before_of(from->user, index);

    return before < SIZE_MAX && from->before->nodes[before].closed;
}

/** What is in flight on a node; all that it has room for, where nobody knows. */
static double held_on(const struct ext_cap_input *input)
{
    double free_mcpu = (double)input->watts->capacity_mcpu - input->used_mcpu;

    return input->unseen && free_mcpu > input->held_mcpu ? free_mcpu : input->held_mcpu;
}

static void settle_node(struct work *work, size_t i)
{
    const struct ext_cap_policy *policy = work->from->policy;
    const struct ext_cap_input *input = &work->from->inputs[i];
    struct ext_cap_node *node = &work->caps->nodes[i];
    const struct ext_watts_load load = {.used_mcpu = input->used_mcpu,
                                        .held_mcpu = held_on(input),
                                        .held_variance_mcpu2 = input->held_variance_mcpu2,
                                        .sigmas = policy->sigmas};
    struct ext_watts_slope slope = ext_watts_slope(input->watts, &load);
    double mw = slope.base_mw + input->held_mw;
    double cap = work->cap_mw[i];

    node->room_mcpu = slope.room_mcpu;
    node->mw_per_mcpu = slope.mw_per_mcpu;
    node->beyond_mw_per_mcpu = slope.beyond_mw_per_mcpu;
    node->hard_mw = node->soft_mw = (double)INFINITY;
    if (input->watts->heard) {
        work->known_mw += mw;
        work->n_known++;
    }
    add_up(work, node->domain, mw, slope.risk_mw, slope.beyond_mw_per_mcpu);
    node->unseen = input->unseen;
    work->caps->n_unseen += input->unseen;
    if (input->stale || input->unseen)
        count_up(work, node->domain, input->stale, input->unseen);
    /* missing knowledge never blocks a node; what was last known does */
    if (cap <= 0 || !input->watts->heard)
        return;
    double soft = cap * policy->soft_permille / 1000;
    double predicted = mw + slope.risk_mw;
    node->band_mw = cap - soft;
    node->alone_mcpu = input->alone_mcpu;
    if (input->watts->n > 1 && cap > input->watts->knot_mw[0])
        node->most_mw = IDLE_PART * (cap - input->watts->knot_mw[0]);
    node->hard_mw = cap - predicted - ext_cap_price_mw(node, input->alone_mcpu);
    node->soft_mw = soft - predicted;
    /* what is not known closes it no longer than it is not known */
    node->closed = !node->unseen && (predicted >= cap || (was_closed(work, i) && predicted > soft));
}

/** Nodes that the API server tells of and no agent: like the others, on the average. */
static void add_unheard(struct work *work)
{
    const struct ext_caps_sources *from = work->from;
    double mean_mw = work->n_known == 0 ? 0 : work->known_mw / (double)work->n_known;

    for (size_t i = 0; i < ext_node_table_count(from->table) && from->tree->n > 0; i++) {
        const struct ext_node_entry *entry = ext_node_table_at(from->table, i);
        if (from->index_of(from->user, entry->name) != SIZE_MAX)
            continue;
        uint32_t domain = ext_cap_tree_find(from->tree, entry->domain);
        add_up(work, domain, mean_mw, 0, EXT_PRIOR_MW_PER_MCPU);
        count_up(work, domain, false, false);
    }
}

static double least(double a, double b)
{
    return a < b ? a : b;
}

/** What binds a domain is the tightest of what it lies in; those stand before it. */
static void tighten(struct ext_caps *caps)
{
    size_t n = caps->domains == NULL ? 0 : caps->tree->n;

    for (size_t i = 0; i < n; i++) {
        struct ext_cap_domain *domain = &caps->domains[i];
        uint32_t up = caps->tree->domains[i].parent;
        const struct ext_cap_domain *parent = up == 0 ? NULL : &caps->domains[up - 1];
        domain->hard_mw =
            parent == NULL ? domain->own_hard_mw : least(domain->own_hard_mw, parent->hard_mw);
        domain->soft_mw =
            parent == NULL ? domain->own_soft_mw : least(domain->own_soft_mw, parent->soft_mw);
        domain->closed = domain->own_closed || (parent != NULL && parent->closed);
    }
}

static void settle_domains(struct work *work)
{
    const struct ext_caps_sources *from = work->from;
    const struct ext_caps *before = from->before;
    bool same = before != NULL && before->tree == from->tree;

    for (size_t i = 0; i < from->tree->n; i++) {
        const struct ext_cap_domain_conf *conf = &from->tree->domains[i];
        struct ext_cap_domain *domain = &work->caps->domains[i];
        domain->risk_mw = sqrt(work->variance[i]);
        double predicted = domain->watts_mw + domain->risk_mw;
        domain->band_mw = conf->hard_mw - conf->soft_mw;
        domain->own_hard_mw = conf->hard_mw - predicted;
        domain->own_soft_mw = conf->soft_mw - predicted;
        domain->own_closed = domain->n_unseen == 0 &&
                             (predicted >= conf->hard_mw ||
                              (same && before->domains[i].own_closed && predicted > conf->soft_mw));
    }
    tighten(work->caps);
}

struct ext_caps *ext_caps_build(const struct ext_caps_sources *sources)
{
    struct ext_caps *caps = calloc(1, sizeof(*caps));
    size_t n_domains = sources->tree->n;
    struct work work = {.from = sources, .caps = caps};

    if (caps == NULL)
        return NULL;
    caps->n_nodes = sources->n;
    caps->sigmas = sources->policy->sigmas;
    caps->use = EXT_USE_AS_EXPECTED;
    caps->tree = ext_cap_tree_share(sources->tree);
    caps->nodes = calloc(sources->n + 1, sizeof(*caps->nodes));
    caps->domains = calloc(n_domains + 1, sizeof(*caps->domains));
    work.cap_mw = calloc(sources->n + 1, sizeof(*work.cap_mw));
    work.variance = calloc(n_domains + 1, sizeof(*work.variance));
    if (caps->nodes == NULL || caps->domains == NULL || work.cap_mw == NULL ||
        work.variance == NULL) {
        ext_caps_free(&caps);
    } else {
        uint32_t cluster = ext_cap_tree_find(sources->tree, "");
        for (size_t i = 0; i < sources->n; i++)
            caps->nodes[i].domain = cluster;
        take_table(&work);
        for (size_t i = 0; i < sources->n; i++)
            settle_node(&work, i);
        add_unheard(&work);
        settle_domains(&work);
    }
    free(work.cap_mw);
    free(work.variance);
    return caps;
}

double ext_caps_variance_mcpu2(const struct ext_caps *caps, double mcpu, double variance_mcpu2)
{
    double sigma = caps->use.spread * mcpu;

    return sigma * sigma > variance_mcpu2 ? sigma * sigma : variance_mcpu2;
}

void ext_caps_move(struct ext_caps *caps, size_t index, double mcpu, double mw,
                   double variance_mcpu2)
{
    struct ext_cap_node *node = &caps->nodes[index];
    double likely = mcpu * caps->use.flight;
    double variance = ext_caps_variance_mcpu2(caps, mcpu, variance_mcpu2);
    double taken = ext_cap_price_mw(node, likely + caps->sigmas * sqrt(variance)) + mw;
    double alone = ext_caps_alone_mcpu(&caps->use, caps->sigmas, mcpu, variance);
    double more = alone > node->alone_mcpu ? alone - node->alone_mcpu : 0;

    node->hard_mw = node->hard_mw - taken - more * node->beyond_mw_per_mcpu;
    node->alone_mcpu = node->alone_mcpu + more;
    node->soft_mw = node->soft_mw - taken;
    node->room_mcpu = node->room_mcpu - likely;
    for (uint32_t at = node->domain; at != 0; at = caps->tree->domains[at - 1].parent) {
        struct ext_cap_domain *domain = &caps->domains[at - 1];
        domain->own_hard_mw = domain->own_hard_mw - taken;
        domain->own_soft_mw = domain->own_soft_mw - taken;
    }
    if (node->domain != 0)
        tighten(caps);
}

/** What a pod, and those let in before it, may add to a domain by going to one of its nodes. */
static double need_of_domain(const struct ext_cap_domain *domain, const struct ext_cap_need *need,
                             double pod_mw)
{
    return pod_mw + need->held_mw + need->held_mcpu * domain->mw_per_mcpu;
}

enum ext_cap_verdict ext_caps_check(const struct ext_caps *caps, size_t index,
                                    const struct ext_cap_need *need)
{
    const struct ext_cap_node *node = &caps->nodes[index];

    if (node->asleep)
        return EXT_CAP_ASLEEP;
    if (node->domain != 0) {
        const struct ext_cap_domain *domain = &caps->domains[node->domain - 1];
        const struct ext_cap_domain *outmost = &caps->domains[0];
        double pod_mw = ext_cap_price_mw(node, need->mcpu) + need->mw;
        double all_mw = need_of_domain(domain, need, pod_mw);
        bool fits = all_mw <= domain->hard_mw;
        if (!fits && domain->n_unseen > 0)
            return EXT_CAP_UNSEEN;
        if (!fits || (domain->closed && !need->critical)) {
            /* the cluster's cap is the first where there is one */
            bool cluster = caps->tree->domains[0].path[0] == '\0' &&
                           (need_of_domain(outmost, need, pod_mw) > outmost->own_hard_mw ||
                            (outmost->own_closed && !need->critical));
            return cluster ? EXT_CAP_CLUSTER : EXT_CAP_DOMAIN;
        }
    }
    double mw = ext_cap_price_mw(node, need->mcpu + need->held_mcpu) + need->mw + need->held_mw;
    if (need->alone_mcpu > node->alone_mcpu) {
        double more = (need->alone_mcpu - node->alone_mcpu) * node->beyond_mw_per_mcpu;
        double most = need->nowhere_else ? node->most_mw - mw : more;
        mw += most < 0 ? 0 : least(more, most);
    }
    if (mw <= node->hard_mw && (!node->closed || need->critical))
        return EXT_CAP_PASSES;
    return node->unseen ? EXT_CAP_UNSEEN : EXT_CAP_NODE;
}

/** Levels for what passes a soft threshold, by how far it goes to the hard one. */
static unsigned levels_of(double over_mw, double band_mw)
{
    if (!(over_mw > 0))
        return 0;
    double levels = band_mw > 0 ? ceil(over_mw / band_mw * LEVELS) : LEVELS;
    return levels < LEVELS ? (unsigned)levels : LEVELS;
}

unsigned ext_caps_penalty(const struct ext_caps *caps, size_t index,
                          const struct ext_cap_need *need)
{
    const struct ext_cap_node *node = &caps->nodes[index];
    double pod_mw = ext_cap_price_mw(node, need->mcpu) + need->mw;
    unsigned own = levels_of(pod_mw - node->soft_mw, node->band_mw);

    if (need->critical || node->domain == 0)
        return need->critical ? 0 : own;
    const struct ext_cap_domain *domain = &caps->domains[node->domain - 1];
    unsigned around = levels_of(pod_mw - domain->soft_mw, domain->band_mw);
    return own > around ? own : around;
}

double ext_caps_headroom_mw(const struct ext_caps *caps, size_t index)
{
    const struct ext_cap_node *node = &caps->nodes[index];
    double room = node->hard_mw;
    bool closed = node->closed || node->asleep;

    if (node->domain != 0) {
        const struct ext_cap_domain *domain = &caps->domains[node->domain - 1];
        room = least(room, domain->hard_mw);
        closed = closed || domain->closed;
    }
    return closed || room < 0 ? 0 : room;
}
