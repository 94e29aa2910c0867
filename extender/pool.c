/* SPDX-License-Identifier: Apache-2.0 */
#include "extender/pool.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/cleanup.h"

/** Thousandths to a unit of ext_node.own_sureness. */
#define SURENESS_UNIT 5

/** A node that may share. */
struct member {
    uint64_t machine;
    struct ext_node *node;
    bool apart;
};

/** What tells machines apart beside their model's name. */
struct class_key {
    uint64_t capacity_mcpu;
    uint16_t load_permille[KW_CURVE_KNOTS];
    uint8_t n;
    bool by_core, estimated;
};

/** @return 0 where the agent named no model. */
static uint64_t machine_of(const struct kw_curve *curve)
{
    struct class_key key;

    if (curve->machine[0] == '\0')
        return 0;
    memset(&key, 0, sizeof(key)); /* padding is hashed, too */
    key.capacity_mcpu = curve->capacity_mcpu;
    key.n = (uint8_t)curve->n;
    key.by_core = curve->by_core;
    key.estimated = curve->estimated;
    for (uint32_t i = 0; i < curve->n; i++)
        key.load_permille[i] = (uint16_t)curve->knots[i].load_permille;
    uint64_t hash = ext_hash((const char *)&key, sizeof(key),
                             ext_hash(curve->machine, strlen(curve->machine), 0));
    return hash == 0 ? 1 : hash;
}

void ext_pool_take(struct ext_node *node, const struct kw_curve *curve)
{
    uint64_t machine = machine_of(curve);

    node->pooled = node->pooled && machine == node->machine;
    node->capacity_mcpu = (float)curve->capacity_mcpu;
    node->machine = machine;
    for (uint32_t i = 0; i < curve->n; i++) {
        node->own_mw[i] = curve->knots[i].mw;
        node->own_sureness[i] = (uint8_t)(curve->knots[i].confidence_permille / SURENESS_UNIT);
    }
    node->seen_sleep_mw = curve->has_sleep ? curve->sleep_mw : EXT_SLEEP_UNSEEN;
    node->seen_wake_uj = curve->has_wake ? (float)curve->wake_uj : -1;
    ext_watts_curve(&node->watts, curve);
    if (!node->pooled)
        ext_hull_build(curve, &node->pricing, &node->hull);
}

/** The node's own curve, as far as hulls need it. */
static struct kw_curve own_curve(const struct ext_node *node)
{
    struct kw_curve curve = {.capacity_mcpu = (uint64_t)node->capacity_mcpu, .n = node->watts.n};

    for (uint32_t i = 0; i < curve.n; i++) {
        curve.knots[i].load_permille = node->watts.load_permille[i];
        curve.knots[i].mw = node->own_mw[i];
    }
    return curve;
}

void ext_pool_reprice(struct ext_node *node)
{
    struct kw_curve own = own_curve(node);

    ext_hull_build(&own, &node->pricing, &node->hull);
    node->pooled = false;
}

static int compare_members(const void *a, const void *b)
{
    uint64_t x = ((const struct member *)a)->machine, y = ((const struct member *)b)->machine;

    return (x > y) - (x < y);
}

static int compare_mw(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

/** Watts at a knot by those who know it best. @param scratch n elements. */
static uint32_t shared_mw(const struct member *members, size_t n, uint32_t knot, uint32_t *scratch)
{
    unsigned surest = 0;
    size_t m = 0;

    for (size_t i = 0; i < n; i++) {
        unsigned sureness = members[i].node->own_sureness[knot];
        surest = !members[i].apart && sureness > surest ? sureness : surest;
    }
    for (size_t i = 0; i < n; i++) {
        const struct ext_node *node = members[i].node;
        if (!members[i].apart && 2u * node->own_sureness[knot] >= surest)
            scratch[m++] = node->own_mw[knot];
    }
    if (m == 0)
        return 0;
    qsort(scratch, m, sizeof(*scratch), compare_mw);
    return (uint32_t)(((uint64_t)scratch[(m - 1) / 2] + scratch[m / 2]) / 2);
}

static struct kw_curve shared_curve(const struct member *members, size_t n, uint32_t *scratch)
{
    struct kw_curve curve = own_curve(members[0].node);

    for (uint32_t k = 0; k < curve.n; k++) {
        uint32_t mw = shared_mw(members, n, k, scratch);
        curve.knots[k].mw = k > 0 && mw < curve.knots[k - 1].mw ? curve.knots[k - 1].mw : mw;
    }
    return curve;
}

/** How far a node's own curve is off another above idle, which is what pods are priced by:
 * relative, on the mean over what it is sure of. */
static double distance(const struct ext_node *node, const struct kw_curve *curve)
{
    double off = 0, sure = 0;

    for (uint32_t k = 1; k < curve->n; k++) {
        double want = (double)curve->knots[k].mw - curve->knots[0].mw;
        double got = (double)node->own_mw[k] - node->own_mw[0];
        double apart = want > got ? want - got : got - want;
        off += node->own_sureness[k] * apart / (want > 1 ? want : 1);
        sure += node->own_sureness[k];
    }
    return sure > 0 ? off / sure : 0;
}

/** Gives a node the hull of a curve. @param like one of the same curve that has it already, or
 * NULL. */
static void give_hull(struct ext_node *node, const struct kw_curve *curve,
                      const struct ext_node *like)
{
    if (like != NULL && like->pricing.work_per_mcpu == node->pricing.work_per_mcpu &&
        like->pricing.sleepable == node->pricing.sleepable &&
        like->pricing.sleep_mw == node->pricing.sleep_mw &&
        like->pricing.wake_uj == node->pricing.wake_uj &&
        like->pricing.reach == node->pricing.reach)
        node->hull = like->hull;
    else
        ext_hull_build(curve, &node->pricing, &node->hull);
}

/** Settles one class. @param scratch n elements. */
static void settle_class(struct member *members, size_t n, uint32_t *scratch)
{
    struct kw_curve curve = shared_curve(members, n, scratch);
    const struct ext_node *like = NULL;
    size_t sharing = n;

    for (size_t i = 0; i < n; i++) {
        members[i].apart = distance(members[i].node, &curve) > EXT_POOL_APART;
        sharing -= members[i].apart;
    }
    if (sharing > 1 && sharing < n)
        curve = shared_curve(members, n, scratch);
    for (size_t i = 0; i < n; i++) {
        struct ext_node *node = members[i].node;
        bool shares = sharing > 1 && !members[i].apart;
        if (shares) {
            give_hull(node, &curve, like);
            like = node;
        } else if (node->pooled) {
            ext_pool_reprice(node);
        }
        node->pooled = shares;
    }
}

int ext_pool_settle(struct ext_node *nodes, size_t n)
{
    kw_cleanup_free struct member *members = reallocarray(NULL, n + 1, sizeof(*members));
    kw_cleanup_free uint32_t *scratch = reallocarray(NULL, n + 1, sizeof(*scratch));
    size_t m = 0;

    if (members == NULL || scratch == NULL)
        return -ENOMEM;
    for (size_t i = 0; i < n; i++) {
        if (nodes[i].has_curve && nodes[i].machine != 0)
            members[m++] = (struct member){.machine = nodes[i].machine, .node = &nodes[i]};
    }
    qsort(members, m, sizeof(*members), compare_members);
    for (size_t from = 0, to; from < m; from = to) {
        for (to = from + 1; to < m && members[to].machine == members[from].machine;)
            to++;
        settle_class(&members[from], to - from, scratch);
    }
    return 0;
}

/** Classes that are told apart at once, a power of two; of more, some have no mean. */
#define CLASSES_MAX 512

/** Fill of a class. */
struct level {
    uint64_t peers; /* 0: free */
    uint64_t sum_millionths, n;
};

/** Place of a class in an open-addressed table. @return NULL where there is none left. */
static struct level *find_level(struct level levels[CLASSES_MAX], uint64_t peers)
{
    for (size_t i = 0; i < CLASSES_MAX; i++) {
        struct level *level = &levels[(peers + i) & (CLASSES_MAX - 1)];
        if (level->peers == 0 || level->peers == peers)
            return level;
    }
    return NULL;
}

/** Machines that are best filled evenly: of one class, and by one price of energy, since where that
 * is low they are better filled than where it is high. */
static uint64_t peers_of(const struct ext_node *node)
{
    float price = node->pricing.energy_price;

    if (!(price > 0) || price == 1)
        return node->machine;
    uint64_t hash = ext_hash((const char *)&price, sizeof(price), node->machine);
    return hash == 0 ? 1 : hash;
}

static bool has_peers(const struct ext_node *node)
{
    return node->has_curve && node->pooled && !node->pricing.asleep;
}

/** Work that a milli-core of a node does. */
static double work_of(const struct ext_node *node)
{
    return node->pricing.work_per_mcpu > 0 ? node->pricing.work_per_mcpu : 1;
}

static void add_level(struct level levels[CLASSES_MAX], const struct ext_node *node)
{
    uint64_t peers = peers_of(node);
    struct level *level = find_level(levels, peers);
    double fill =
        (node->used_mcpu + node->in_flight_mcpu / work_of(node)) / (double)node->capacity_mcpu;

    if (level == NULL)
        return;
    level->peers = peers;
    level->sum_millionths += (uint64_t)(fmin(fill, 1) * 1e6); /* a sum of integers has no order */
    level->n++;
}

bool ext_pool_level(struct ext_node *nodes, size_t n)
{
    struct level levels[CLASSES_MAX] = {0};
    bool changed = false, alike = true;
    uint64_t first = 0;

    for (size_t i = 0; i < n; i++) {
        if (!nodes[i].has_curve || nodes[i].pricing.asleep)
            continue;
        uint64_t peers = peers_of(&nodes[i]);
        first = first == 0 ? peers : first;
        alike = alike && nodes[i].pooled && peers == first;
        if (has_peers(&nodes[i]))
            add_level(levels, &nodes[i]);
    }
    for (size_t i = 0; i < n; i++) {
        const struct level *level =
            has_peers(&nodes[i]) ? find_level(levels, peers_of(&nodes[i])) : NULL;
        uint8_t fill = 0;
        if (level != NULL && level->n > 1)
            fill = (uint8_t)(EXT_PEERS_FILL_MIN +
                             (level->sum_millionths * EXT_PEERS_FILL_STEPS) / (level->n * 1000000));
        changed = changed || fill != nodes[i].peers_fill || alike != nodes[i].alike;
        nodes[i].peers_fill = fill;
        nodes[i].alike = alike;
    }
    return changed;
}

/** All work that is there, what is in flight included. */
static double all_work(const struct ext_node *nodes, size_t n)
{
    uint64_t sum = 0; /* of integers, which has no order */

    for (size_t i = 0; i < n; i++) {
        const struct ext_node *node = &nodes[i];
        if (!node->has_curve)
            continue;
        double used_mcpu =
            node->pricing.asleep ? 0 : fmin(node->used_mcpu, (double)node->capacity_mcpu);
        sum += (uint64_t)(used_mcpu * work_of(node) + node->in_flight_mcpu);
    }
    return (double)sum;
}

/** Knot up to which so much work would fill a node; 0: the last. */
static uint8_t knot_at(const struct ext_node *node, double work_mcpu)
{
    double permille = 1000 * work_mcpu / (work_of(node) * (double)node->capacity_mcpu);
    uint32_t last = node->watts.n > 0 ? node->watts.n - 1u : 0, knot = 1;

    if (last < 2 || permille > node->watts.load_permille[last - 1])
        return 0;
    while (knot < last && node->watts.load_permille[knot] < permille)
        knot++;
    return (uint8_t)(knot < last ? knot : 0);
}

int ext_pool_reach(struct ext_node *nodes, size_t n)
{
    double work_mcpu = EXT_POOL_REACH * all_work(nodes, n);
    bool changed = false;

    for (size_t i = 0; i < n; i++) {
        struct ext_node *node = &nodes[i];
        uint8_t reach = node->has_curve ? knot_at(node, work_mcpu) : node->pricing.reach;
        if (reach == node->pricing.reach)
            continue;
        node->pricing.reach = reach;
        ext_pool_reprice(node);
        changed = true;
    }
    int rc = changed ? ext_pool_settle(nodes, n) : 0;
    return rc < 0 ? rc : changed;
}
